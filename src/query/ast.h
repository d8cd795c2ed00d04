#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "wire/json.h"

namespace trainyard::query {

struct Function;
struct Node;
using NodePtr = std::unique_ptr<Node>;

// What a query is made of. Each form is evaluated against a current value and gives a value.

struct Current {};  // @
struct Literal {
  wire::Json value;
};
struct Field {
  std::string name;
};
struct Index {
  int64_t at;  // Below 0: from the end.
};
struct Slice {
  std::optional<int64_t> start, stop;
  int64_t step;  // Not 0.
};
// a.b and a | b alike: each part is evaluated against what the part before it gave. Flat, so that
// long paths do not nest.
struct Sequence {
  std::vector<NodePtr> parts;
};
struct AnyOf {  // ||
  std::vector<NodePtr> parts;
};
struct AllOf {  // &&
  std::vector<NodePtr> parts;
};
struct Not {
  NodePtr of;
};
enum class Comparator { equal, unequal, less, less_equal, greater, greater_equal };
struct Compare {
  Comparator comparator;
  NodePtr left, right;
};
struct Flatten {
  NodePtr of;
};
// The projections: `each` is evaluated against every element of `of`, and what is null left out.
struct Project {
  NodePtr of, each;
};
struct ProjectValues {
  NodePtr of, each;
};
struct Filter {
  NodePtr of, condition, each;
};
struct MultiList {
  std::vector<NodePtr> parts;
};
struct MultiHash {
  std::vector<std::string> keys;
  std::vector<NodePtr> parts;  // One for each key.
};
struct Argument {
  enum class Kind { value, reference };  // A reference is &expression.
  Kind kind;
  NodePtr expression;
};
struct Call {
  const Function* function;
  size_t position;
  std::vector<Argument> arguments;
};

using Form =
    std::variant<Current, Literal, Field, Index, Slice, Sequence, AnyOf, AllOf, Not, Compare,
                 Flatten, Project, ProjectValues, Filter, MultiList, MultiHash, Call>;

struct Node {
  Form form;
  int height;  // 1 + the highest child's: the parser limits it, as evaluating recurs that deep.
};

}  // namespace trainyard::query
