#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "wire/json.h"

namespace trainyard::query {

enum class TokenKind {
  end,
  name,
  quoted_name,
  literal,  // `…` and '…'.
  number,
  dot,
  star,
  flatten,  // []
  filter,   // [?
  left_bracket,
  right_bracket,
  left_brace,
  right_brace,
  left_parenthesis,
  right_parenthesis,
  comma,
  colon,
  current,
  reference,  // &
  pipe,
  or_else,
  and_also,
  not_sign,
  equal,
  unequal,
  less,
  less_equal,
  greater,
  greater_equal,
};

struct Token {
  TokenKind kind;
  size_t position;          // In characters, from 1.
  std::string_view source;  // As written; into the text given to lex().
  std::string name;         // Of a name or quoted_name.
  wire::Json literal;
  int64_t number = 0;
};

// The tokens of a query, the last of them `end`.
Result<std::vector<Token>> lex(std::string_view text);

// "query: position 7: WHY"; without a hint of its own an error shows what a query looks like.
std::unexpected<Error> fail_at(size_t position, std::string_view why, std::string hint = {});

}  // namespace trainyard::query
