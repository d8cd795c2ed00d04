#include "query/evaluate.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "query/functions.h"

namespace trainyard::query {
namespace {

bool is_current(const Node& node) { return std::holds_alternative<Current>(node.form); }

bool holds(Comparator comparator, long double left, long double right) {
  switch (comparator) {
    case Comparator::equal:
      return left == right;
    case Comparator::unequal:
      return left != right;
    case Comparator::less:
      return left < right;
    case Comparator::less_equal:
      return left <= right;
    case Comparator::greater:
      return left > right;
    case Comparator::greater_equal:
      return left >= right;
  }
  return false;
}

// A slice's bound as a place in an array: below 0 counts from the end, what is outside is cut off.
int64_t place(int64_t bound, int64_t size, int64_t step) {
  if (bound < 0) bound += size;
  const int64_t first = step > 0 ? 0 : -1;
  const int64_t last = step > 0 ? size : size - 1;
  return std::clamp(bound, first, last);
}

}  // namespace

Result<Value> Evaluation::evaluate(const Node& node, Value current) {
  TRY(workspace_.charge(1));
  return std::visit([&](const auto& form) { return run(form, current); }, node.form);
}

Result<Value> Evaluation::run(const Index& index, Value current) {
  if (!current.is_array()) return Value();
  const auto size = static_cast<int64_t>(current.size());
  const int64_t at = index.at < 0 ? index.at + size : index.at;
  if (at < 0 || at >= size) return Value();
  return current.at(static_cast<size_t>(at));
}

Result<Value> Evaluation::run(const Slice& slice, Value current) {
  if (!current.is_array()) return Value();
  const auto size = static_cast<int64_t>(current.size());
  const bool forward = slice.step > 0;
  const int64_t start =
      slice.start ? place(*slice.start, size, slice.step) : (forward ? 0 : size - 1);
  const int64_t stop = slice.stop ? place(*slice.stop, size, slice.step) : (forward ? size : -1);
  List list;
  int64_t at = start;
  while (forward ? at < stop : at > stop) {
    TRY(workspace_.charge(kStepsPerElement));
    list.push_back(current.at(static_cast<size_t>(at)));
    // A step may be as large as a number can be; the sum must not overflow.
    if (__builtin_add_overflow(at, slice.step, &at)) break;
  }
  return workspace_.keep(std::move(list));
}

Result<Value> Evaluation::run(const Sequence& sequence, Value current) {
  for (const NodePtr& part : sequence.parts) {
    TRY_SET(current, evaluate(*part, current));
  }
  return current;
}

Result<Value> Evaluation::run(const AnyOf& any, Value current) {
  Value value;
  for (const NodePtr& part : any.parts) {
    TRY_SET(value, evaluate(*part, current));
    if (value.truthy()) break;
  }
  return value;
}

Result<Value> Evaluation::run(const AllOf& all, Value current) {
  Value value;
  for (const NodePtr& part : all.parts) {
    TRY_SET(value, evaluate(*part, current));
    if (!value.truthy()) break;
  }
  return value;
}

Result<Value> Evaluation::run(const Not& negation, Value current) {
  TRY_SET(const Value value, evaluate(*negation.of, current));
  return Workspace::of(!value.truthy());
}

Result<Value> Evaluation::run(const Compare& compare, Value current) {
  TRY_SET(const Value left, evaluate(*compare.left, current));
  TRY_SET(const Value right, evaluate(*compare.right, current));
  if (left.type() == Type::number && right.type() == Type::number) {
    return Workspace::of(holds(compare.comparator, left.number(), right.number()));
  }
  const bool wants_equal = compare.comparator == Comparator::equal;
  // Only numbers have an order.
  if (!wants_equal && compare.comparator != Comparator::unequal) return Value();
  TRY_SET(const bool same, workspace_.equal(left, right));
  return Workspace::of(same == wants_equal);
}

Result<Value> Evaluation::run(const Flatten& flatten, Value current) {
  TRY_SET(const Value of, evaluate(*flatten.of, current));
  if (!of.is_array()) return Value();
  List list;
  for (size_t i = 0; i < of.size(); ++i) {
    const Value element = of.at(i);
    if (!element.is_array()) {
      TRY(workspace_.charge(kStepsPerElement));
      list.push_back(element);
      continue;
    }
    TRY(workspace_.charge(kStepsPerElement * element.size()));
    for (size_t j = 0; j < element.size(); ++j) list.push_back(element.at(j));
  }
  return workspace_.keep(std::move(list));
}

Status Evaluation::project_one(const Node& each, Value element, List& into) {
  TRY(workspace_.charge(kStepsPerElement));
  if (!is_current(each)) {
    TRY_SET(element, evaluate(each, element));
  }
  if (!element.is_null()) into.push_back(element);
  return {};
}

Result<Value> Evaluation::run(const Project& project, Value current) {
  TRY_SET(const Value of, evaluate(*project.of, current));
  if (!of.is_array()) return Value();
  List list;
  for (size_t i = 0; i < of.size(); ++i) {
    TRY(project_one(*project.each, of.at(i), list));
  }
  return workspace_.keep(std::move(list));
}

Result<Value> Evaluation::run(const ProjectValues& project, Value current) {
  TRY_SET(const Value of, evaluate(*project.of, current));
  if (!of.is_object()) return Value();
  List list;
  for (size_t i = 0; i < of.size(); ++i) {
    TRY(project_one(*project.each, of.member_at(i), list));
  }
  return workspace_.keep(std::move(list));
}

Result<Value> Evaluation::run(const Filter& filter, Value current) {
  TRY_SET(const Value of, evaluate(*filter.of, current));
  if (!of.is_array()) return Value();
  List list;
  for (size_t i = 0; i < of.size(); ++i) {
    const Value element = of.at(i);
    TRY_SET(const Value condition, evaluate(*filter.condition, element));
    if (!condition.truthy()) continue;
    TRY(project_one(*filter.each, element, list));
  }
  return workspace_.keep(std::move(list));
}

Result<Value> Evaluation::run(const MultiList& list, Value current) {
  if (current.is_null()) return Value();
  List values;
  values.reserve(list.parts.size());
  TRY(workspace_.charge(kStepsPerElement * list.parts.size()));
  for (const NodePtr& part : list.parts) {
    TRY_SET(const Value value, evaluate(*part, current));
    values.push_back(value);
  }
  return workspace_.keep(std::move(values));
}

Result<Value> Evaluation::run(const MultiHash& hash, Value current) {
  if (current.is_null()) return Value();
  Hash values;
  values.reserve(hash.parts.size());
  TRY(workspace_.charge(kStepsPerElement * hash.parts.size()));
  for (size_t i = 0; i < hash.parts.size(); ++i) {
    TRY_SET(const Value value, evaluate(*hash.parts[i], current));
    values.emplace_back(hash.keys[i], value);
  }
  return workspace_.keep(std::move(values));
}

Result<Value> Evaluation::run(const Call& call, Value current) {
  std::vector<Given> given(call.arguments.size());
  for (size_t i = 0; i < given.size(); ++i) {
    const Argument& argument = call.arguments[i];
    if (argument.kind == Argument::Kind::reference) {
      given[i].expression = argument.expression.get();
      continue;
    }
    TRY_SET(given[i].value, evaluate(*argument.expression, current));
  }
  return call_function(call, given, *this);
}

}  // namespace trainyard::query
