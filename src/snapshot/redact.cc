#include "snapshot/redact.h"

#include <algorithm>
#include <cctype>

namespace trainyard::snapshot {
namespace {

using Text = std::string_view;

constexpr Text kKey = "password";
constexpr Text kNull = "null";
// Bytes. Without an end, a long word would be looked through again and again.
constexpr size_t kKeyMax = 256;

bool is_key_byte(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
}

size_t skip(Text text, size_t at, Text bytes) {
  return std::min(text.find_first_not_of(bytes, at), text.size());
}

size_t find_or_end(Text text, Text bytes, size_t from) {
  return std::min(text.find_first_of(bytes, from), text.size());
}

size_t find_key(Text text, size_t from) {
  const auto same = [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; };
  const auto found = std::search(text.begin() + static_cast<std::ptrdiff_t>(from), text.end(),
                                 kKey.begin(), kKey.end(), same);
  return static_cast<size_t>(found - text.begin());
}

// Behind the closing quote; YAML writes a single one within twice, JSON escapes.
size_t end_of_quoted(Text text, size_t at) {
  const char quote = text[at++];
  for (; at < text.size(); ++at) {
    if (quote == '"' && text[at] == '\\') {
      ++at;
    } else if (quote == '\'' && text.substr(at).starts_with("''")) {
      ++at;
    } else if (text[at] == quote) {
      return at + 1;
    }
  }
  return text.size();
}

// A value of a block runs on over all lines that are indented deeper than its key.
size_t end_of_block(Text text, size_t at, size_t indent) {
  size_t end = find_or_end(text, "\n", at);
  for (size_t line = end; line < text.size();) {
    const size_t begin = line + 1;
    const size_t first = skip(text, begin, " ");
    line = find_or_end(text, "\n", begin);
    if (first == line) continue;  // A blank one, which belongs to what follows.
    if (first - begin <= indent) break;
    end = line;
  }
  return end;
}

// Where the value of the key that ends at `key_end` is; empty: it is no key, or has none.
Text value_of(Text text, size_t key_begin, size_t key_end) {
  const char before = key_begin > 0 ? text[key_begin - 1] : '\n';
  const bool quoted =
      key_end < text.size() && (before == '"' || before == '\'') && text[key_end] == before;
  size_t at = skip(text, key_end + (quoted ? 1 : 0), " \t");
  if (at >= text.size() || text[at] != ':') return {};
  at = skip(text, at + 1, quoted ? " \t\r\n" : " \t");
  if (at < text.size() && (text[at] == '"' || text[at] == '\'')) {
    return text.substr(at, end_of_quoted(text, at) - at);
  }
  const size_t line = key_begin == 0 ? 0 : text.rfind('\n', key_begin - 1) + 1;
  const size_t first = skip(text, line, " \t-?");
  if (text.substr(skip(text, line, " \t")).starts_with('#')) {
    return text.substr(at, find_or_end(text, "\n", at) - at);
  }
  if (!quoted && first == key_begin) {
    return text.substr(at, end_of_block(text, at, key_begin - line) - at);
  }
  return text.substr(at, find_or_end(text, ",}\n", at) - at);
}

bool is_nothing(Text value) {
  const size_t begin = skip(value, 0, " \t\r\n");
  const Text rest = value.substr(begin, value.find_last_not_of(" \t\r\n") + 1 - begin);
  return rest.empty() || rest == kNull || rest == "~" || rest == "\"\"" || rest == "''";
}

}  // namespace

bool may_hold_password(Text path) {
  const size_t slash = path.rfind('/');
  const Text name = slash == Text::npos ? path : path.substr(slash + 1);
  const Text folder = slash == Text::npos ? Text() : path.substr(0, slash);
  const Text parent = folder.substr(folder.rfind('/') + 1);
  return name.ends_with(".runconfig") || name == "azureml_environment.json" ||
         parent == ".azureml" || parent == "aml_config";
}

std::optional<std::string> without_passwords(Text text) {
  std::string kept;
  size_t done = 0;
  for (size_t at = find_key(text, 0); at < text.size(); at = find_key(text, at)) {
    size_t begin = at;
    const size_t first = std::max(done, at - std::min(at, kKeyMax));
    while (begin > first && is_key_byte(text[begin - 1])) --begin;
    at += kKey.size();
    const Text value = value_of(text, begin, at);
    if (is_nothing(value)) continue;
    const auto from = static_cast<size_t>(value.data() - text.data());
    kept += text.substr(done, from - done);
    if (!kept.ends_with(' ') && kept.ends_with(':')) kept += ' ';
    kept += kNull;
    done = at = from + value.size();
  }
  if (done == 0) return std::nullopt;
  return kept.append(text.substr(done));
}

}  // namespace trainyard::snapshot
