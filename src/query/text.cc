#include "query/text.h"

#include <algorithm>

namespace trainyard::query {
namespace {

// The first byte of a character is anything but 10xxxxxx.
bool starts_character(char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }

}  // namespace

size_t count_characters(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), starts_character));
}

std::string_view first_character(std::string_view text) {
  size_t size = text.empty() ? 0 : 1;
  while (size < text.size() && !starts_character(text[size])) ++size;
  return text.substr(0, size);
}

std::string reverse_characters(std::string_view text) {
  std::string reversed(text.size(), '\0');
  size_t end = text.size();
  while (!text.empty()) {
    const std::string_view character = first_character(text);
    end -= character.size();
    character.copy(reversed.data() + end, character.size());
    text.remove_prefix(character.size());
  }
  return reversed;
}

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string replaced;
  for (size_t at = text.find(from); at != std::string_view::npos; at = text.find(from)) {
    replaced.append(text.substr(0, at)).append(to);
    text.remove_prefix(at + from.size());
  }
  return replaced.append(text);
}

}  // namespace trainyard::query
