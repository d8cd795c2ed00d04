#include "dialects/json_reader.h"

#include <algorithm>
#include <cctype>

#include "base/text.h"
#include "dialects/tree_builder.h"

namespace trainyard::dialects {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

void append_utf8(std::string& text, char32_t code) {
  const auto put = [&](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | (code >> 6));
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | (code >> 12));
    put(0x80 | ((code >> 6) & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | (code >> 18));
    put(0x80 | ((code >> 12) & 0x3F));
    put(0x80 | ((code >> 6) & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

// Recursion ends where TreeBuilder refuses to go deeper.
class JsonReader {
 public:
  explicit JsonReader(std::string_view text) : text_(text) {}

  Node read() {
    value();
    skip_space();
    if (at_ < text_.size()) fault("nothing may follow the JSON value");
    return builder_.take();
  }

 private:
  Place place() const { return {line_, static_cast<int>(at_ - line_start_) + 1}; }
  [[noreturn]] void fault(std::string message) const {
    throw DocumentFault{place().line, place().column, std::move(message)};
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  void skip_space() {
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '\n') {
        line_ += 1;
        line_start_ = at_ + 1;
      } else if (c != ' ' && c != '\t' && c != '\r') {
        return;
      }
    }
  }

  bool take(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  void value() {
    skip_space();
    const char c = peek();
    if (c == '{') return map();
    if (c == '[') return list();
    Node node;
    node.line = place().line;
    node.column = place().column;
    node.kind = Node::Kind::scalar;
    if (c == '"') {
      node.quoted = true;
      node.text = string();
    } else {
      node.text = word();
      if (node.text == "null") node = {.line = node.line, .column = node.column};
    }
    builder_.value(std::move(node));
  }

  void map() {
    builder_.begin(Node::Kind::map, place());
    ++at_;
    if (take('}')) return builder_.end();
    do {
      skip_space();
      if (peek() != '"') fault("expected a key in double quotes");
      value();
      if (!take(':')) fault("expected ':' after the key");
      value();
    } while (take(','));
    if (!take('}')) fault("expected ',' or '}'");
    builder_.end();
  }

  void list() {
    builder_.begin(Node::Kind::list, place());
    ++at_;
    if (take(']')) return builder_.end();
    do {
      value();
    } while (take(','));
    if (!take(']')) fault("expected ',' or ']'");
    builder_.end();
  }

  // true, false, null or a number, as it is written.
  std::string word() {
    const size_t from = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 ||
                                  text_[at_] == '-' || text_[at_] == '+' || text_[at_] == '.')) {
      ++at_;
    }
    std::string found(text_.substr(from, at_ - from));
    if (found == "true" || found == "false" || found == "null" || is_number(found)) return found;
    at_ = from;
    fault("expected a value");
  }

  static bool is_number(std::string_view text) {
    const auto digits = [&] {
      const size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
      text.remove_prefix(end);
      return end;
    };
    if (text.starts_with('-')) text.remove_prefix(1);
    const bool zero = text.starts_with('0');
    const size_t whole = digits();
    if (whole == 0 || (zero && whole > 1)) return false;
    if (text.starts_with('.')) {
      text.remove_prefix(1);
      if (digits() == 0) return false;
    }
    if (text.starts_with('e') || text.starts_with('E')) {
      text.remove_prefix(1);
      if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
      if (digits() == 0) return false;
    }
    return text.empty();
  }

  std::string string() {
    std::string found;
    for (++at_; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '"') {
        ++at_;
        return found;
      }
      if (c == '\n' || c == '\r') break;
      if (c == '\\') {
        escape(found);
      } else {
        found.push_back(c);
      }
    }
    fault("a text has no closing quote on its line");
  }

  // at_ is on the backslash, and on the escape's last byte afterwards.
  void escape(std::string& found) {
    constexpr std::string_view kNames = "\"\\/bfnrt";
    constexpr std::string_view kBytes = "\"\\/\b\f\n\r\t";
    ++at_;
    if (peek() != 'u') {
      const size_t name = at_ < text_.size() ? kNames.find(text_[at_]) : std::string_view::npos;
      if (name == std::string_view::npos) fault("no such escape in a JSON text");
      found.push_back(kBytes[name]);
      return;
    }
    char32_t code = hex4();
    const bool high = code >= 0xD800 && code < 0xDC00;
    if (high && text_.substr(at_ + 1, 2) == "\\u") {
      const size_t back = at_;
      at_ += 2;
      const char32_t low = hex4();
      if (low >= 0xDC00 && low < 0xE000) {
        return append_utf8(found, 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00));
      }
      at_ = back;
    }
    // Half a pair is no character.
    if (code >= 0xD800 && code < 0xE000) code = kReplacement;
    append_utf8(found, code);
  }

  // at_ is on the 'u', and on the last digit afterwards.
  char32_t hex4() {
    char32_t code = 0;
    for (int i = 0; i < 4; ++i) {
      ++at_;
      const char c = peek();
      const char low = static_cast<char>(c | 0x20);
      if (!is_digit(c) && (low < 'a' || low > 'f')) fault("\\u needs four hexadecimal digits");
      code = code * 16 + static_cast<char32_t>(is_digit(c) ? c - '0' : low - 'a' + 10);
    }
    return code;
  }

  std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
  size_t line_start_ = 0;
  TreeBuilder builder_;
};

}  // namespace

Node read_json(std::string_view text) { return JsonReader(text).read(); }

}  // namespace trainyard::dialects
