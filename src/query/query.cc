#include "query/query.h"

#include <utility>

#include "query/ast.h"
#include "query/evaluate.h"
#include "query/lexer.h"
#include "query/parser.h"
#include "query/value.h"

namespace trainyard::query {

Query::Query(std::unique_ptr<Node> root) : root_(std::move(root)) {}
Query::Query(Query&&) noexcept = default;
Query& Query::operator=(Query&&) noexcept = default;
Query::~Query() = default;

Result<Query> Query::compile(std::string_view text) {
  TRY_SET(std::vector<Token> tokens, lex(text));
  TRY_SET(NodePtr root, parse(std::move(tokens)));
  return Query(std::move(root));
}

Result<wire::Json> Query::search(const wire::Json& document) const {
  Workspace workspace;
  Evaluation evaluation(workspace);
  TRY_SET(const Value found, evaluation.evaluate(*root_, Value(document)));
  return workspace.copy(found);
}

}  // namespace trainyard::query
