#include "seal/forms.h"

#include <cstdint>
#include <set>
#include <string_view>

#include "base/text.h"

namespace trainyard::seal {
namespace {

// Forms of values beyond this are not looked for: their tables would be large, and nobody sends a
// key ring through a URL.
constexpr size_t kFormsMax = 8192;
// A base64 form this short is found in ordinary text by chance.
constexpr size_t kBase64Min = 6;

constexpr std::string_view kLetters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

std::string base64(std::string_view bytes, std::string_view last_two) {
  const std::string alphabet = std::string(kLetters) + std::string(last_two);
  std::string text;
  unsigned bits = 0;
  int count = 0;
  for (const char c : bytes) {
    bits = bits << 8 | static_cast<uint8_t>(c);
    for (count += 8; count >= 6; count -= 6) text += alphabet[bits >> (count - 6) & 63];
  }
  if (count > 0) text += alphabet[bits << (6 - count) & 63];
  return text;
}

void add_base64(std::string_view value, std::set<std::string>& forms) {
  for (const std::string_view last_two : {"+/", "-_"}) {
    const std::string alone = base64(value, last_two);
    forms.insert(alone);
    forms.insert(alone + std::string((4 - alone.size() % 4) % 4, '='));
    // Amid other bytes a value begins at one of three places in a group, and only the letters that
    // are made of its bits alone can be known.
    for (size_t before = 0; before < 3; ++before) {
      const std::string text = base64(std::string(before, '\0') + std::string(value), last_two);
      const size_t from = (before * 8 + 5) / 6;
      const size_t to = (before + value.size()) * 8 / 6;
      if (to >= from + kBase64Min) forms.insert(text.substr(from, to - from));
    }
  }
}

// As encodeURIComponent, urllib's quote and quote_plus, curl and the rest do it: they differ in
// what they leave alone.
void add_url(std::string_view value, std::set<std::string>& forms) {
  for (const std::string_view digits : {"0123456789ABCDEF", "0123456789abcdef"}) {
    for (const std::string_view left_alone : {"-_.~", "-_.~/", "-_.!~*'()", "-_.*"}) {
      for (const std::string_view space : {"%20", "+"}) {
        std::string text;
        for (const char c : value) {
          const auto byte = static_cast<uint8_t>(c);
          if (c == ' ') {
            text += space;
          } else if (kLetters.find(c) != std::string_view::npos ||
                     left_alone.find(c) != std::string_view::npos) {
            text += c;
          } else {
            text += '%';
            text += digits[byte >> 4];
            text += digits[byte & 15];
          }
        }
        forms.insert(text);
      }
    }
  }
}

void add_json(std::string_view value, std::set<std::string>& forms) {
  std::string text;
  for (const char c : value) {
    switch (c) {
      case '"':
      case '\\':
        text += '\\';
        text += c;
        break;
      case '\n':
        text += "\\n";
        break;
      case '\r':
        text += "\\r";
        break;
      case '\t':
        text += "\\t";
        break;
      default:
        text += c;
    }
  }
  forms.insert(text);
}

}  // namespace

std::vector<std::string> forms_of(const std::vector<std::string>& values) {
  std::set<std::string> forms;
  for (const std::string& given : values) {
    // A line break at the end is the file's, not the secret's.
    const size_t last = given.find_last_not_of("\r\n");
    const std::string value = given.substr(0, last == std::string::npos ? 0 : last + 1);
    if (trim(value).size() < kMaskedMin) continue;
    forms.insert(value);
    for (const std::string& line : split(value, '\n')) forms.emplace(trim(line));
    if (value.size() > kFormsMax) continue;
    add_base64(value, forms);
    if (given != value && given.size() <= kFormsMax) add_base64(given, forms);
    add_url(value, forms);
    add_json(value, forms);
  }
  std::erase_if(forms, [](const std::string& form) { return form.size() < kMaskedMin; });
  return {forms.begin(), forms.end()};
}

}  // namespace trainyard::seal
