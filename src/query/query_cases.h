#pragma once

// For the tests: tables of expressions and what they give.
#include <doctest/doctest.h>

#include <initializer_list>
#include <string>
#include <string_view>

#include "query/query.h"

namespace trainyard::query {

struct Case {
  std::string_view expression;
  std::string_view expected;  // JSON, or the error: !syntax, !unknown, !arity, !type, !value.
};

// The expression's answer as compact JSON, or the kind of its error.
inline std::string answer(std::string_view expression, const wire::Json& given) {
  const auto kind_of = [](const Error& error) -> std::string {
    CHECK(error.kind == ErrorKind::invalid);
    CHECK(error.message.starts_with("query: position "));
    CHECK(!error.hint.empty());
    if (error.message.find("unknown function ") != std::string::npos) return "!unknown";
    if (error.message.find("() takes ") != std::string::npos) return "!arity";
    if (error.message.find("(): ") != std::string::npos) return "!type";
    if (error.message.find("step must not be 0") != std::string::npos) return "!value";
    return "!syntax";
  };
  const Result<Query> query = Query::compile(expression);
  if (!query) return kind_of(query.error());
  const Result<wire::Json> found = query->search(given);
  return found ? wire::dump(*found) : kind_of(found.error());
}

// Compared as text: the order of members and the way numbers are written count.
inline void check_all(std::string_view given, std::initializer_list<Case> cases) {
  const Result<wire::Json> document = wire::parse(given);
  REQUIRE(document);
  for (const Case& each : cases) {
    CAPTURE(given);
    CAPTURE(each.expression);
    CHECK(answer(each.expression, *document) == each.expected);
  }
}

}  // namespace trainyard::query
