#pragma once

#include <vector>

#include "base/result.h"
#include "query/ast.h"
#include "query/lexer.h"

namespace trainyard::query {

// Tokens, the last of them `end`, to a tree. The tree's height is limited.
Result<NodePtr> parse(std::vector<Token> tokens);

}  // namespace trainyard::query
