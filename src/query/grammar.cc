#include "query/grammar.h"

#include <algorithm>

namespace trainyard::query {

int binding(TokenKind kind) {
  switch (kind) {
    case TokenKind::pipe:
      return 1;
    case TokenKind::or_else:
      return 2;
    case TokenKind::and_also:
      return 3;
    case TokenKind::equal:
    case TokenKind::unequal:
    case TokenKind::less:
    case TokenKind::less_equal:
    case TokenKind::greater:
    case TokenKind::greater_equal:
      return 5;
    case TokenKind::flatten:
      return 9;
    case TokenKind::star:
      return 20;
    case TokenKind::filter:
      return 21;
    case TokenKind::dot:
      return 40;
    case TokenKind::left_bracket:
      return 55;
    case TokenKind::end:
    case TokenKind::name:
    case TokenKind::quoted_name:
    case TokenKind::literal:
    case TokenKind::number:
    case TokenKind::right_bracket:
    case TokenKind::left_brace:
    case TokenKind::right_brace:
    case TokenKind::left_parenthesis:
    case TokenKind::right_parenthesis:
    case TokenKind::comma:
    case TokenKind::colon:
    case TokenKind::current:
    case TokenKind::reference:
    case TokenKind::not_sign:
      return 0;
  }
  return 0;
}

Comparator comparator_of(TokenKind kind) {
  if (kind == TokenKind::equal) return Comparator::equal;
  if (kind == TokenKind::unequal) return Comparator::unequal;
  if (kind == TokenKind::less) return Comparator::less;
  if (kind == TokenKind::less_equal) return Comparator::less_equal;
  if (kind == TokenKind::greater) return Comparator::greater;
  return Comparator::greater_equal;
}

int height_of(const Form& form) {
  int highest = 0;
  const auto see = [&](const NodePtr& child) { highest = std::max(highest, child->height); };
  std::visit(
      [&](const auto& node) {
        if constexpr (requires { node.of; }) see(node.of);
        if constexpr (requires { node.each; }) see(node.each);
        if constexpr (requires { node.condition; }) see(node.condition);
        if constexpr (requires { node.left; }) see(node.left);
        if constexpr (requires { node.right; }) see(node.right);
        if constexpr (requires { node.parts; }) std::ranges::for_each(node.parts, see);
        if constexpr (requires { node.arguments; }) {
          for (const Argument& argument : node.arguments) see(argument.expression);
        }
      },
      form);
  return highest + 1;
}

}  // namespace trainyard::query
