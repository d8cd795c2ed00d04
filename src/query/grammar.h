#pragma once

#include "query/ast.h"
#include "query/lexer.h"

namespace trainyard::query {

// How tightly a token holds on to what stands at its left (Pratt). What is below kProjectionEnd
// ends a projection: in a[*].b || c the projection is a[*].b.
constexpr int kProjectionEnd = 10;
constexpr int kNotOperand = 8;  // Tighter than the comparators, looser than every path.

int binding(TokenKind kind);

Comparator comparator_of(TokenKind kind);

// 1 + the height of the highest child.
int height_of(const Form& form);

}  // namespace trainyard::query
