#include "snapshot/ignore.h"

#include <algorithm>

namespace trainyard::snapshot {
namespace {

constexpr std::string_view kSpecial = "*?[\\";

// Spaces at the end go, unless a backslash stands before the first of them.
std::string_view without_trailing_spaces(std::string_view line) {
  size_t end = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\\') {
      if (++i >= line.size()) return line;
      end = i + 1;
    } else if (line[i] != ' ') {
      end = i + 1;
    }
  }
  return line.substr(0, end);
}

}  // namespace

IgnoreFile::IgnoreFile(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.starts_with('#')) add_line(without_trailing_spaces(line.substr(0, line.find('\0'))));
  }
}

void IgnoreFile::add_line(std::string_view line) {
  Rule rule;
  if (line.starts_with('!')) {
    rule.negated = true;
    line.remove_prefix(1);
  }
  if (line.ends_with('/')) {
    rule.folders_only = true;
    line.remove_suffix(1);
  }
  if (line.empty()) return;
  rule.name_only = line.find('/') == line.npos;
  if (line.starts_with('/')) line.remove_prefix(1);
  rule.suffix = rule.name_only && line[0] == '*' && line.find_first_of(kSpecial, 1) == line.npos;
  if (rule.suffix) {
    rule.literal = line.substr(1);
  } else {
    const size_t plain = std::min(line.find_first_of(kSpecial), line.size());
    rule.literal = line.substr(0, plain);
    rule.has_rest = plain < line.size();
    rule.rest = Glob(line.substr(plain));
  }
  rules_.push_back(std::move(rule));
}

bool IgnoreFile::Rule::fits(std::string_view text) const {
  if (suffix) return text.ends_with(literal);
  if (!text.starts_with(literal)) return false;
  text.remove_prefix(literal.size());
  return has_rest ? rest.matches(text) : text.empty();
}

Verdict IgnoreFile::judge(std::string_view path, bool is_folder) const {
  const size_t slash = path.rfind('/');
  const std::string_view name = slash == path.npos ? path : path.substr(slash + 1);
  for (auto rule = rules_.rbegin(); rule != rules_.rend(); ++rule) {
    if (rule->folders_only && !is_folder) continue;
    if (rule->fits(rule->name_only ? name : path)) {
      return rule->negated ? Verdict::kept : Verdict::ignored;
    }
  }
  return Verdict::none;
}

bool is_ignored(const IgnoreLevel* level, std::string_view path, bool is_folder) {
  for (; level != nullptr; level = level->above.get()) {
    const Verdict verdict = level->file.judge(path.substr(level->base), is_folder);
    if (verdict != Verdict::none) return verdict == Verdict::ignored;
  }
  return false;
}

}  // namespace trainyard::snapshot
