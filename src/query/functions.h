#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "query/ast.h"
#include "query/evaluate.h"
#include "query/value.h"

namespace trainyard::query {

// What a parameter takes, as bits; the first six are the types in their order.
namespace takes {
constexpr unsigned null = 1U << 0U, boolean = 1U << 1U, number = 1U << 2U, string = 1U << 3U,
                   array = 1U << 4U, object = 1U << 5U;
constexpr unsigned any = null | boolean | number | string | array | object;
constexpr unsigned numbers = 1U << 6U;     // An array of numbers only.
constexpr unsigned strings = 1U << 7U;     // An array of strings only.
constexpr unsigned expression = 1U << 8U;  // &expression; always alone.
}  // namespace takes

// An argument at hand: a value, or the expression of a reference.
struct Given {
  Value value;
  const Node* expression = nullptr;
};
using Arguments = std::span<const Given>;

// Where a function's own errors come from, and what it works with.
struct CallContext {
  const Call& call;
  Evaluation& evaluation;

  Workspace& workspace() const { return evaluation.workspace(); }
  // "query: position 3: sort_by(): WHY".
  std::unexpected<Error> error(std::string_view why) const;
};

struct Function {
  std::string_view name;
  size_t arity;  // Of a variadic one the least.
  bool variadic;
  std::array<unsigned, 2> parameters;  // A variadic one has one, for all its arguments.
  Result<Value> (*run)(Arguments, const CallContext&);

  unsigned takes_at(size_t index) const { return parameters[variadic ? 0 : index]; }
};

// nullptr when there is none.
const Function* find_function(std::string_view name);
std::span<const std::string> function_names();

// Checks the types and calls.
Result<Value> call_function(const Call& call, Arguments given, Evaluation& evaluation);

}  // namespace trainyard::query
