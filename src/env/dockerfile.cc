#include "env/dockerfile.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "base/text.h"

namespace trainyard::env {
namespace {

using Values = std::map<std::string, std::string>;

// A line with those it goes on in.
std::vector<std::string> whole_lines(std::string_view text) {
  std::vector<std::string> lines;
  bool goes_on = false;
  for (const std::string& raw : split(text, '\n')) {
    std::string_view line = trim(raw);
    if (line.starts_with('#')) continue;
    const bool more = line.ends_with('\\') || line.ends_with('`');
    if (more) line.remove_suffix(1);
    if (!goes_on) lines.emplace_back();
    lines.back().append(line).append(" ");
    goes_on = more;
  }
  return lines;
}

// "$A" and "${A}"; anything else, and what has no value, stays as it is.
std::string filled_in(std::string_view text, const Values& values) {
  std::string filled;
  for (size_t i = 0; i < text.size();) {
    size_t begin = i + 1;
    const bool braces = text[i] == '$' && begin < text.size() && text[begin] == '{';
    if (braces) ++begin;
    size_t end = begin;
    const auto in_name = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
    };
    while (end < text.size() && in_name(text[end])) ++end;
    const auto value = values.find(std::string(text.substr(begin, end - begin)));
    const bool closed = !braces || (end < text.size() && text[end] == '}');
    if (text[i] != '$' || !closed || value == values.end()) {
      filled += text[i++];
      continue;
    }
    filled += value->second;
    i = end + (braces ? 1 : 0);
  }
  return filled;
}

std::string unquoted(std::string text) {
  std::erase_if(text, [](char c) { return c == '"' || c == '\''; });
  return text;
}

std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  std::string plain(line);
  std::ranges::replace(plain, '\t', ' ');
  for (std::string& word : split(plain, ' ')) {
    if (!word.empty()) words.push_back(unquoted(std::move(word)));
  }
  return words;
}

// What an option of COPY, ADD or RUN copies from; empty: nothing.
std::string copied_from(std::string_view word) {
  constexpr std::string_view kFrom = "from=";
  if (!word.starts_with("--")) return {};
  word.remove_prefix(2);
  if (word.starts_with("mount=")) word.remove_prefix(6);
  for (const std::string& part : split(word, ',')) {
    if (part.starts_with(kFrom)) return part.substr(kFrom.size());
  }
  return {};
}

}  // namespace

std::vector<std::string> images_in(std::string_view dockerfile, const Values& arguments) {
  std::vector<std::string> images;
  std::set<std::string> stages = {"scratch"};
  Values values;
  for (const std::string& line : whole_lines(dockerfile)) {
    const std::vector<std::string> words = words_of(line);
    if (words.empty()) continue;
    const std::string instruction = lower(words[0]);
    if (instruction == "arg" && stages.size() == 1) {
      for (size_t i = 1; i < words.size(); ++i) {
        const size_t equals = std::min(words[i].find('='), words[i].size());
        const std::string name = words[i].substr(0, equals);
        const auto given = arguments.find(name);
        if (given != arguments.end()) {
          values[name] = given->second;
        } else if (equals < words[i].size()) {
          values[name] = filled_in(words[i].substr(equals + 1), values);
        }
      }
    }
    const auto add = [&](const std::string& name) {
      if (!name.empty() && !stages.contains(lower(name))) images.push_back(name);
    };
    if (instruction == "from") {
      size_t at = 1;
      while (at < words.size() && words[at].starts_with("--")) ++at;
      if (at < words.size()) add(filled_in(words[at], values));
      stages.insert(std::to_string(stages.size() - 1));  // Copied from by number too.
      if (at + 2 < words.size() && lower(words[at + 1]) == "as")
        stages.insert(lower(words[at + 2]));
      continue;
    }
    for (const std::string& word : words) add(copied_from(word));
  }
  return images;
}

bool may_be_anothers(std::string_view image) {
  if (image.starts_with("localhost/")) image.remove_prefix(10);
  if (image.starts_with("docker.io/")) image.remove_prefix(10);
  if (image.starts_with("sha256:") || image.starts_with("trainyard/") ||
      image.starts_with("trainyard-kept")) {
    return true;
  }
  return !image.empty() && image.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace trainyard::env
