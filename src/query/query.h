#pragma once

#include <memory>
#include <string_view>

#include "base/result.h"
#include "wire/json.h"

namespace trainyard::query {

struct Node;

// A JMESPath expression (https://jmespath.org/specification.html), compiled once and searched
// often.
//
// All of the specification, with these readings where it leaves room:
// - Literals in backticks are JSON; `word` without quotes, long deprecated, is an error.
// - `!` binds looser than `.` and brackets: !a.b is !(a.b).
// - A multi-select ends a projection, as in other implementations: a[*].[b][0] is the first of all.
// - An unknown function, a wrong number of arguments and a slice's step of 0 are found by
// compile().
// - Members keep the document's order, and whole numbers stay whole.
//
// Every error is `invalid`: "query: position 7: expected ']' but found '}'", with a hint. Positions
// count characters, from 1. Nesting, text and work are limited, so that neither a query nor a
// document that means harm can take the stack or the memory. Thread-safe: a Query does not change.
class Query {
 public:
  static Result<Query> compile(std::string_view text);

  // Does not copy the document; the answer is a copy of what was found.
  Result<wire::Json> search(const wire::Json& document) const;

  Query(Query&&) noexcept;
  Query& operator=(Query&&) noexcept;
  ~Query();

 private:
  explicit Query(std::unique_ptr<Node> root);

  std::unique_ptr<Node> root_;
};

}  // namespace trainyard::query
