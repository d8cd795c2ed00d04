#include "query/order.h"

#include <algorithm>
#include <string>
#include <vector>

namespace trainyard::query {
namespace {

struct Keyed {
  Value key;
  Value element;
};

// Keys are all numbers or all strings. UTF-8's bytes have the order of its code points.
bool less(const Keyed& left, const Keyed& right) {
  if (left.key.type() == Type::number) return left.key.number() < right.key.number();
  return left.key.string() < right.key.string();
}

std::vector<Keyed> keyed_by_itself(Value array) {
  std::vector<Keyed> keyed;
  keyed.reserve(array.size());
  for (size_t i = 0; i < array.size(); ++i) keyed.push_back({array.at(i), array.at(i)});
  return keyed;
}

Result<std::vector<Keyed>> keyed_by(Arguments args, const CallContext& context) {
  const Value array = args[0].value;
  std::vector<Keyed> keyed;
  keyed.reserve(array.size());
  for (size_t i = 0; i < array.size(); ++i) {
    TRY_SET(const Value key, context.evaluation.evaluate(*args[1].expression, array.at(i)));
    if (key.type() != Type::number && key.type() != Type::string) {
      return context.error("the expression must give a number or a string, not " +
                           std::string(with_article(key.type())));
    }
    if (!keyed.empty() && keyed.front().key.type() != key.type()) {
      return context.error("the expression must give numbers only or strings only, not both");
    }
    keyed.push_back({key, array.at(i)});
  }
  return keyed;
}

Result<Value> sorted(std::vector<Keyed> keyed, const CallContext& context) {
  TRY(context.workspace().charge(kStepsPerElement * keyed.size()));
  std::ranges::stable_sort(keyed, less);
  List list;
  list.reserve(keyed.size());
  for (const Keyed& each : keyed) list.push_back(each.element);
  return context.workspace().keep(std::move(list));
}

// The first of equal ones.
Value greatest(const std::vector<Keyed>& keyed) {
  return keyed.empty() ? Value() : std::ranges::max_element(keyed, less)->element;
}

Value least(const std::vector<Keyed>& keyed) {
  return keyed.empty() ? Value() : std::ranges::min_element(keyed, less)->element;
}

}  // namespace

Result<Value> run_max(Arguments args, const CallContext&) {
  return greatest(keyed_by_itself(args[0].value));
}

Result<Value> run_max_by(Arguments args, const CallContext& context) {
  TRY_SET(const std::vector<Keyed> keyed, keyed_by(args, context));
  return greatest(keyed);
}

Result<Value> run_min(Arguments args, const CallContext&) {
  return least(keyed_by_itself(args[0].value));
}

Result<Value> run_min_by(Arguments args, const CallContext& context) {
  TRY_SET(const std::vector<Keyed> keyed, keyed_by(args, context));
  return least(keyed);
}

Result<Value> run_sort(Arguments args, const CallContext& context) {
  return sorted(keyed_by_itself(args[0].value), context);
}

Result<Value> run_sort_by(Arguments args, const CallContext& context) {
  TRY_SET(std::vector<Keyed> keyed, keyed_by(args, context));
  return sorted(std::move(keyed), context);
}

}  // namespace trainyard::query
