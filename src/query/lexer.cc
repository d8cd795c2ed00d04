#include "query/lexer.h"

#include <charconv>
#include <utility>

#include "base/text.h"
#include "query/text.h"

namespace trainyard::query {
namespace {

constexpr size_t kTextMax = 64 * 1024;  // Bytes; a query is typed by a person or a short script.

bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

struct Sign {
  std::string_view text;
  TokenKind kind;
};
// The longer ones first: the first that fits is taken.
constexpr Sign kSigns[] = {
    {"[?", TokenKind::filter},
    {"[]", TokenKind::flatten},
    {"||", TokenKind::or_else},
    {"&&", TokenKind::and_also},
    {"==", TokenKind::equal},
    {"!=", TokenKind::unequal},
    {"<=", TokenKind::less_equal},
    {">=", TokenKind::greater_equal},
    {"<", TokenKind::less},
    {">", TokenKind::greater},
    {"!", TokenKind::not_sign},
    {"|", TokenKind::pipe},
    {"&", TokenKind::reference},
    {".", TokenKind::dot},
    {"*", TokenKind::star},
    {"[", TokenKind::left_bracket},
    {"]", TokenKind::right_bracket},
    {"{", TokenKind::left_brace},
    {"}", TokenKind::right_brace},
    {"(", TokenKind::left_parenthesis},
    {")", TokenKind::right_parenthesis},
    {",", TokenKind::comma},
    {":", TokenKind::colon},
    {"@", TokenKind::current},
};

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  Result<std::vector<Token>> run() {
    std::vector<Token> tokens;
    while (skip_space()) {
      TRY_SET(Token token, next());
      advance(token.source.size());
      tokens.push_back(std::move(token));
    }
    tokens.push_back(make(TokenKind::end, 0));
    return tokens;
  }

 private:
  Result<Token> next();
  Result<Token> number();
  Result<Token> quoted_name();
  Result<Token> literal();
  Result<Token> raw_string();
  Result<Token> sign();
  // The size of the quoted text at the front with both its quotes; a backslash keeps what follows.
  Result<size_t> quoted_size() const;

  bool skip_space() {
    while (!text_.empty() && is_space(text_.front())) advance(1);
    return !text_.empty();
  }
  void advance(size_t size) {
    position_ += count_characters(text_.substr(0, size));
    text_.remove_prefix(size);
  }
  Token make(TokenKind kind, size_t size) const {
    return {.kind = kind, .position = position_, .source = text_.substr(0, size)};
  }

  std::string_view text_;  // What is left.
  size_t position_ = 1;
};

Result<Token> Lexer::next() {
  const char c = text_.front();
  if (is_name_start(c)) {
    size_t size = 1;
    while (size < text_.size() && (is_name_start(text_[size]) || is_digit(text_[size]))) ++size;
    Token token = make(TokenKind::name, size);
    token.name = token.source;
    return token;
  }
  if (is_digit(c) || c == '-') return number();
  if (c == '"') return quoted_name();
  if (c == '`') return literal();
  if (c == '\'') return raw_string();
  return sign();
}

Result<Token> Lexer::number() {
  size_t size = 1;
  while (size < text_.size() && is_digit(text_[size])) ++size;
  Token token = make(TokenKind::number, size);
  const char* const end = token.source.data() + size;
  if (token.source == "-") return fail_at(position_, "'-' without a number");
  if (std::from_chars(token.source.data(), end, token.number).ec != std::errc()) {
    return fail_at(position_, "the number is too large");
  }
  return token;
}

Result<Token> Lexer::quoted_name() {
  TRY_SET(const size_t size, quoted_size());
  Token token = make(TokenKind::quoted_name, size);
  const Result<wire::Json> name = wire::parse(token.source);
  if (!name || !name->is_string()) {
    return fail_at(position_, "the name in quotes is not a JSON string",
                   "Inside \"…\" a backslash is written \\\\, a quote \\\".");
  }
  token.name = name->get<std::string>();
  return token;
}

Result<Token> Lexer::literal() {
  TRY_SET(const size_t size, quoted_size());
  Token token = make(TokenKind::literal, size);
  const std::string inside = replace_all(token.source.substr(1, size - 2), "\\`", "`");
  Result<wire::Json> json = wire::parse(inside);
  if (!json) {
    return fail_at(position_, "what is between the backticks is not JSON",
                   "For a string write '" + inside + "'.");
  }
  token.literal = *std::move(json);
  return token;
}

Result<Token> Lexer::raw_string() {
  TRY_SET(const size_t size, quoted_size());
  Token token = make(TokenKind::literal, size);
  token.literal = replace_all(token.source.substr(1, size - 2), "\\'", "'");
  return token;
}

Result<size_t> Lexer::quoted_size() const {
  const char quote = text_.front();
  for (size_t at = 1; at < text_.size(); ++at) {
    if (text_[at] == quote) return at + 1;
    if (text_[at] == '\\') ++at;
  }
  const std::string name(1, quote);
  return fail_at(position_, "the quote " + name + " is never closed",
                 "Close it with " + name + ".");
}

Result<Token> Lexer::sign() {
  for (const Sign& known : kSigns) {
    if (text_.starts_with(known.text)) return make(known.kind, known.text.size());
  }
  if (text_.front() == '=') return fail_at(position_, "a lone '='", "Write == to compare.");
  return fail_at(position_, "'" + std::string(first_character(text_)) + "' has no meaning here");
}

}  // namespace

Result<std::vector<Token>> lex(std::string_view text) {
  if (text.size() > kTextMax) {
    return fail(ErrorKind::invalid, "query: is longer than 65536 bytes",
                "Pick the records first and narrow the answer with a second query.");
  }
  if (to_utf8(text) != text) {
    return fail(ErrorKind::invalid, "query: is not UTF-8", "Write the query in UTF-8.");
  }
  return Lexer(text).run();
}

std::unexpected<Error> fail_at(size_t position, std::string_view why, std::string hint) {
  if (hint.empty()) hint = "A query is JMESPath, as [?status=='Running'].{id: id, by: user}.";
  return fail(ErrorKind::invalid,
              "query: position " + std::to_string(position) + ": " + std::string(why),
              std::move(hint));
}

}  // namespace trainyard::query
