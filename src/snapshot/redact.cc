#include "snapshot/redact.h"

#include <algorithm>
#include <cctype>
#include <compare>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace trainyard::snapshot {
namespace {

using Text = std::string_view;

constexpr Text kKey = "password";
constexpr Text kNull = "null";
constexpr Text kBlanks = " \t\r\n";
// Bytes. Without an end, a long word would be looked through again and again.
constexpr size_t kKeyMax = 256;

bool is_key_byte(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
}

bool is_blank(char c) { return kBlanks.find(c) != Text::npos; }

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

struct LineOf {
  size_t begin = 0;
  size_t first = 0;   // The first byte that is no blank.
  size_t column = 0;  // Of the first byte of its text, behind "- " and "? ".

  static LineOf at(Text text, size_t begin) {
    return {begin, skip(text, begin, " \t"), skip(text, begin, " \t-?") - begin};
  }
  // The line of `to`, for one that lies behind `from`. Each byte is looked at once.
  void move(Text text, size_t from, size_t to) {
    const size_t newline = text.substr(from, to - from).rfind('\n');
    if (newline != Text::npos) *this = at(text, from + newline + 1);
  }
};

struct Span {
  size_t begin = 0;
  size_t end = 0;
  auto operator<=>(const Span&) const = default;
};

bool is_nothing(Text value) {
  const size_t begin = skip(value, 0, kBlanks);
  const Text rest = value.substr(begin, value.find_last_not_of(kBlanks) + 1 - begin);
  return rest.empty() || rest == kNull || rest == "~" || rest == "\"\"" || rest == "''";
}

// The values of passwords that do not follow their keys in the same line: within braces that span
// lines, after "? key", with an anchor, and where an alias says that they are elsewhere. Each byte
// is looked at once or twice, whatever the text is.
class YamlScan {
 public:
  explicit YamlScan(Text text) : text_(text), line_(LineOf::at(text, 0)) {}

  void run() {
    while (at_ < text_.size()) step();
  }
  std::vector<Span>& values() { return found_; }
  // Whether the value of the key that ends there was found; the others are for the scan over lines.
  bool knows(size_t key_end) const { return known_.contains(key_end); }

 private:
  void step() {
    const char c = text_[at_];
    const bool alone = at_ + 1 == text_.size() || is_blank(text_[at_ + 1]);
    if (is_blank(c)) return move(at_ + 1);
    if (c == '#') return move(find_or_end(text_, "\n", at_));
    if (c == '{' || c == '[') return open();
    if (c == '}' || c == ']' || (c == ',' && depth_ > 0)) {
      if (c != ',' && depth_ > 0) --depth_;
      return indicator();
    }
    if (alone && (c == '?' || (c == '-' && depth_ == 0))) {
      block_column_ = at_ - line_.begin;
      return indicator();
    }
    if (c == ':' && (alone || depth_ > 0 || key_.end == at_)) return colon();
    if (c == '&' || c == '!' || c == '*') return property(c);
    if (c == '"' || c == '\'') {
      const size_t end = end_of_closed(c);
      if (end != Text::npos) return node(end);
    }
    if (depth_ == 0 && (c == '|' || c == '>')) {
      return node(end_of_block(text_, at_, block_column_));
    }
    plain();
  }

  void move(size_t to) {
    line_.move(text_, at_, to);
    at_ = to;
  }
  void indicator() {
    awaits_ = false;
    key_ = {};
    move(at_ + 1);
  }
  void open() {
    if (const size_t end = awaits_ ? end_of_braces() : Text::npos; end != Text::npos) {
      return node(end);
    }
    ++depth_;
    indicator();
  }

  void colon() {
    Text key = text_.substr(key_.begin, key_.end - key_.begin);
    if (key.ends_with('"') || key.ends_with('\'')) key.remove_suffix(1);
    key_end_ = by_alias_ ? Text::npos : key_.begin + key.size();
    awaits_ = key.size() >= kKey.size() && find_key(key, key.size() - kKey.size()) < key.size();
    in_line_ = key_.begin >= line_.begin;
    value_line_ = line_.begin;
    value_column_ = block_column_ = line_.column;
    key_ = {};
    move(at_ + 1);
  }

  void property(char kind) {
    const size_t end = find_or_end(text_, " \t\r\n,[]{}", at_ + 1);
    const std::string name(text_.substr(at_ + 1, end - at_ - 1));
    if (kind == '&') anchor_ = name;
    if (kind != '*') {
      in_line_ = false;
      return move(end);
    }
    const auto anchor = anchors_.find(name);
    key_ = anchor == anchors_.end() ? Span{} : anchor->second;
    by_alias_ = true;
    if (awaits_ && may_be_value()) add(key_);
    awaits_ = false;
    move(end);
  }

  // Deeper than its key, or it is the next key of a block.
  bool may_be_value() const {
    return depth_ > 0 || line_.begin == value_line_ || at_ - line_.begin > value_column_;
  }

  void plain() {
    awaits_ = awaits_ && may_be_value();
    if (awaits_ && depth_ > 0 && !unclosed_) {
      const size_t end = text_.find_first_of(",]}", at_);
      unclosed_ = end == Text::npos;
      if (!unclosed_) return node(end);
    } else if (awaits_ && depth_ == 0) {
      if (!in_line_) return node(end_of_block(text_, at_, value_column_));
      awaits_ = false;  // The scan over lines knows it.
    }
    const Text stops = depth_ > 0 ? ":#\n,[]{}" : ":#\n";
    size_t end = find_or_end(text_, stops, at_ + 1);
    for (; end < text_.size(); end = find_or_end(text_, stops, end + 1)) {
      const char c = text_[end];
      const char next = end + 1 < text_.size() ? text_[end + 1] : '\n';
      const bool closes = depth_ > 0 && Text(",[]{}").find(next) != Text::npos;
      if (c == '#' ? is_blank(text_[end - 1]) : c != ':' || is_blank(next) || closes) break;
    }
    node(end);
  }

  void node(size_t end) {
    const size_t last = text_.substr(at_, end - at_).find_last_not_of(kBlanks);
    const Span span{at_, last == Text::npos ? end : at_ + last + 1};
    if (awaits_ && may_be_value()) {
      add(span);
      known_.insert(key_end_);
    }
    awaits_ = by_alias_ = false;
    if (!anchor_.empty()) anchors_[std::exchange(anchor_, {})] = span;
    key_ = span;
    move(std::max(end, at_ + 1));
  }

  void add(Span span) {
    if (!is_nothing(text_.substr(span.begin, span.end - span.begin))) found_.push_back(span);
  }

  // npos: it is not closed, and no later one is searched for.
  size_t end_of_closed(char quote) {
    bool& open = quote == '"' ? open_double_ : open_single_;
    if (open) return Text::npos;
    const size_t end = end_of_quoted(text_, at_);
    open = end == text_.size() && (end - at_ < 2 || text_[end - 1] != quote);
    return open ? Text::npos : end;
  }

  size_t end_of_braces() {
    int depth = 0;
    for (size_t at = at_; !unmatched_ && at < text_.size(); ++at) {
      const char c = text_[at];
      if (c == '"' || c == '\'') at = end_of_quoted(text_, at) - 1;
      if (c == '{' || c == '[') ++depth;
      if ((c == '}' || c == ']') && --depth == 0) return at + 1;
    }
    unmatched_ = true;
    return Text::npos;
  }

  const Text text_;
  LineOf line_;
  size_t at_ = 0;
  int depth_ = 0;            // Of braces and brackets.
  Span key_;                 // The last scalar: a ':' makes it a key.
  bool awaits_ = false;      // The next node is a password.
  bool in_line_ = false;     // Nothing but the ':' lies between the two.
  size_t value_line_ = 0;    // Of the ':'.
  size_t value_column_ = 0;  // Of the text of that line.
  size_t block_column_ = 0;  // What the lines of a block's text are deeper than.
  std::string anchor_;       // Of the next node.
  std::map<std::string, Span> anchors_;
  bool by_alias_ = false;  // The last scalar was one.
  size_t key_end_ = 0;     // Of the last key.
  std::vector<Span> found_;
  std::set<size_t> known_;
  bool open_double_ = false;
  bool open_single_ = false;
  bool unclosed_ = false;
  bool unmatched_ = false;
};

// "[section]" in its first line that is no comment.
bool is_ini(Text text) {
  for (size_t at = skip(text, 0, kBlanks); at < text.size(); at = skip(text, at, kBlanks)) {
    const size_t end = find_or_end(text, "\r\n", at);
    const Text line = text.substr(at, end - at);
    if (line.starts_with('#') || line.starts_with(';')) {
      at = end;
      continue;
    }
    return line.starts_with('[') && line.find_first_of("]\"',:{") == line.size() - 1 &&
           line.ends_with(']') && line.size() > 2;
  }
  return false;
}

// Where the value of the key that ends at `key_end` is; empty: it is no key, or has none.
Text value_of(Text text, size_t key_begin, size_t key_end, const LineOf& line, bool ini) {
  const char before = key_begin > 0 ? text[key_begin - 1] : '\n';
  const bool quoted =
      key_end < text.size() && (before == '"' || before == '\'') && text[key_end] == before;
  size_t at = skip(text, key_end + (quoted ? 1 : 0), " \t");
  if (at >= text.size() || (text[at] != ':' && !(ini && text[at] == '='))) return {};
  const bool assigned = text[at] == '=';
  at = skip(text, at + 1, quoted ? kBlanks : " \t");
  if (assigned) return text.substr(at, find_or_end(text, "\r\n", at) - at);
  if (at < text.size() && (text[at] == '"' || text[at] == '\'')) {
    return text.substr(at, end_of_quoted(text, at) - at);
  }
  if (line.first < text.size() && text[line.first] == '#') {
    return text.substr(at, find_or_end(text, "\n", at) - at);
  }
  if (!quoted && line.begin + line.column == key_begin) {
    return text.substr(at, end_of_block(text, at, line.column) - at);
  }
  return text.substr(at, find_or_end(text, ",}\n", at) - at);
}

void find_in_lines(Text text, const YamlScan& nodes, std::vector<Span>& found) {
  const bool ini = is_ini(text);
  LineOf line = LineOf::at(text, 0);
  size_t seen = 0;
  size_t done = 0;
  for (size_t at = find_key(text, 0); at < text.size(); at = find_key(text, at)) {
    size_t begin = at;
    const size_t first = std::max(done, at - std::min(at, kKeyMax));
    while (begin > first && is_key_byte(text[begin - 1])) --begin;
    line.move(text, seen, at);
    seen = at;
    at += kKey.size();
    if (nodes.knows(at)) continue;
    const Text value = value_of(text, begin, at, line, ini);
    if (is_nothing(value)) continue;
    const auto from = static_cast<size_t>(value.data() - text.data());
    done = at = from + value.size();
    found.push_back({from, done});
  }
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

// A file that is no YAML is scanned for its nodes too, and its lines are scanned in any case: what
// the one does not understand, the other may.
std::optional<std::string> without_passwords(Text text) {
  if (text.find('\0') != Text::npos || find_key(text, 0) == text.size()) return std::nullopt;
  YamlScan nodes(text);
  nodes.run();
  std::vector<Span> found = std::move(nodes.values());
  find_in_lines(text, nodes, found);
  if (found.empty()) return std::nullopt;
  std::ranges::sort(found);
  std::string kept;
  size_t done = 0;
  for (const Span& value : found) {
    if (value.end <= done) continue;
    if (value.begin >= done) {
      kept += text.substr(done, value.begin - done);
      if (kept.ends_with(':')) kept += ' ';
      kept += kNull;
    }
    done = value.end;
  }
  return kept.append(text.substr(done));
}

}  // namespace trainyard::snapshot
