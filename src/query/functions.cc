#include "query/functions.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "query/lexer.h"
#include "query/order.h"
#include "query/text.h"

namespace trainyard::query {
namespace {

using wire::Json;

// A whole number where `value` is one, so that it prints as one.
Json whole_if_whole(double value) {
  constexpr double kWholeMax = 9007199254740992;  // 2^53: doubles are exact up to here.
  if (std::trunc(value) == value && std::fabs(value) <= kWholeMax) {
    return static_cast<int64_t>(value);
  }
  return value;
}

// Whole as long as all numbers are and the sum fits.
Json sum_of(Value numbers) {
  int64_t whole = 0;
  double sum = 0;
  bool fits = true;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const Json number = numbers.at(i).json();
    sum += number.get<double>();
    const bool small = number.is_number_integer() &&
                       !(number.is_number_unsigned() && number.get<uint64_t>() > INT64_MAX);
    fits = fits && small && !__builtin_add_overflow(whole, number.get<int64_t>(), &whole);
  }
  return fits ? Json(whole) : Json(sum);
}

Result<Value> run_abs(Arguments args, const CallContext& context) {
  const Json& number = args[0].value.json();
  if (args[0].value.number() >= 0) return args[0].value;
  if (number.is_number_float()) return context.workspace().keep(-number.get<double>());
  // By way of the unsigned: the least number has no opposite.
  return context.workspace().keep(0 - static_cast<uint64_t>(number.get<int64_t>()));
}

Result<Value> run_avg(Arguments args, const CallContext& context) {
  if (args[0].value.size() == 0) return Value();
  const double sum = sum_of(args[0].value).get<double>();
  return context.workspace().keep(whole_if_whole(sum / static_cast<double>(args[0].value.size())));
}

Result<Value> run_ceil(Arguments args, const CallContext& context) {
  if (!args[0].value.json().is_number_float()) return args[0].value;
  return context.workspace().keep(whole_if_whole(std::ceil(args[0].value.json().get<double>())));
}

Result<Value> run_floor(Arguments args, const CallContext& context) {
  if (!args[0].value.json().is_number_float()) return args[0].value;
  return context.workspace().keep(whole_if_whole(std::floor(args[0].value.json().get<double>())));
}

Result<Value> run_sum(Arguments args, const CallContext& context) {
  return context.workspace().keep(sum_of(args[0].value));
}

Result<Value> run_contains(Arguments args, const CallContext& context) {
  const Value subject = args[0].value;
  const Value wanted = args[1].value;
  if (subject.type() == Type::string) {
    return Workspace::of(wanted.type() == Type::string &&
                         subject.string().find(wanted.string()) != std::string::npos);
  }
  for (size_t i = 0; i < subject.size(); ++i) {
    TRY_SET(const bool same, context.workspace().equal(subject.at(i), wanted));
    if (same) return Workspace::of(true);
  }
  return Workspace::of(false);
}

Result<Value> run_ends_with(Arguments args, const CallContext&) {
  return Workspace::of(args[0].value.string().ends_with(args[1].value.string()));
}

Result<Value> run_starts_with(Arguments args, const CallContext&) {
  return Workspace::of(args[0].value.string().starts_with(args[1].value.string()));
}

Result<Value> run_join(Arguments args, const CallContext& context) {
  std::string joined;
  for (size_t i = 0; i < args[1].value.size(); ++i) {
    const size_t before = joined.size();
    if (i > 0) joined += args[0].value.string();
    joined += args[1].value.at(i).string();
    TRY(context.workspace().charge(1 + (joined.size() - before) / kBytesPerStep));
  }
  return context.workspace().keep(std::move(joined));
}

Result<Value> run_keys(Arguments args, const CallContext& context) {
  List keys;
  TRY(context.workspace().charge(kStepsPerElement * args[0].value.size()));
  for (size_t i = 0; i < args[0].value.size(); ++i) {
    keys.push_back(context.workspace().keep(std::string(args[0].value.key_at(i))));
  }
  return context.workspace().keep(std::move(keys));
}

Result<Value> run_values(Arguments args, const CallContext& context) {
  List values;
  TRY(context.workspace().charge(kStepsPerElement * args[0].value.size()));
  for (size_t i = 0; i < args[0].value.size(); ++i) values.push_back(args[0].value.member_at(i));
  return context.workspace().keep(std::move(values));
}

Result<Value> run_length(Arguments args, const CallContext& context) {
  const Value value = args[0].value;
  return context.workspace().keep(value.type() == Type::string ? count_characters(value.string())
                                                               : value.size());
}

Result<Value> run_map(Arguments args, const CallContext& context) {
  List mapped;
  for (size_t i = 0; i < args[1].value.size(); ++i) {
    TRY(context.workspace().charge(kStepsPerElement));
    TRY_SET(const Value value,
            context.evaluation.evaluate(*args[0].expression, args[1].value.at(i)));
    mapped.push_back(value);
  }
  return context.workspace().keep(std::move(mapped));
}

Result<Value> run_merge(Arguments args, const CallContext& context) {
  Hash merged;
  for (const Given& given : args) {
    for (size_t i = 0; i < given.value.size(); ++i) {
      const std::string_view key = given.value.key_at(i);
      const auto same =
          std::ranges::find(merged, key, [](const auto& entry) { return entry.first; });
      TRY(context.workspace().charge(kStepsPerElement + merged.size() / 8));
      if (same != merged.end()) {
        same->second = given.value.member_at(i);
      } else {
        merged.emplace_back(key, given.value.member_at(i));
      }
    }
  }
  return context.workspace().keep(std::move(merged));
}

Result<Value> run_not_null(Arguments args, const CallContext&) {
  const auto found =
      std::ranges::find_if(args, [](const Given& given) { return !given.value.is_null(); });
  return found == args.end() ? Value() : found->value;
}

Result<Value> run_reverse(Arguments args, const CallContext& context) {
  const Value value = args[0].value;
  if (value.type() == Type::string) {
    TRY(context.workspace().charge(value.string().size() / kBytesPerStep));
    return context.workspace().keep(reverse_characters(value.string()));
  }
  List reversed;
  TRY(context.workspace().charge(kStepsPerElement * value.size()));
  for (size_t i = value.size(); i > 0; --i) reversed.push_back(value.at(i - 1));
  return context.workspace().keep(std::move(reversed));
}

Result<Value> run_to_array(Arguments args, const CallContext& context) {
  if (args[0].value.is_array()) return args[0].value;
  return context.workspace().keep(List{args[0].value});
}

Result<Value> run_to_number(Arguments args, const CallContext& context) {
  const Value value = args[0].value;
  if (value.type() == Type::number) return value;
  // White space around a number is not part of it, though JSON's grammar would let it pass.
  if (value.type() != Type::string ||
      value.string().find_first_of(" \t\r\n") != std::string::npos) {
    return Value();
  }
  Result<Json> number = wire::parse(value.string());
  if (!number || !number->is_number()) return Value();
  return context.workspace().keep(*std::move(number));
}

Result<Value> run_to_string(Arguments args, const CallContext& context) {
  if (args[0].value.type() == Type::string) return args[0].value;
  TRY_SET(const Json json, context.workspace().copy(args[0].value));
  return context.workspace().keep(wire::dump(json));
}

Result<Value> run_type(Arguments args, const CallContext& context) {
  const std::string_view named = with_article(args[0].value.type());
  // "an array" is of the type "array".
  return context.workspace().keep(std::string(named.substr(named.find(' ') + 1)));
}

constexpr unsigned kOrdered = takes::numbers | takes::strings;
constexpr unsigned kSized = takes::string | takes::array | takes::object;
constexpr bool kVariadic = true;

constexpr Function kFunctions[] = {
    {"abs", 1, false, {takes::number}, run_abs},
    {"avg", 1, false, {takes::numbers}, run_avg},
    {"ceil", 1, false, {takes::number}, run_ceil},
    {"contains", 2, false, {takes::array | takes::string, takes::any}, run_contains},
    {"ends_with", 2, false, {takes::string, takes::string}, run_ends_with},
    {"floor", 1, false, {takes::number}, run_floor},
    {"join", 2, false, {takes::string, takes::strings}, run_join},
    {"keys", 1, false, {takes::object}, run_keys},
    {"length", 1, false, {kSized}, run_length},
    {"map", 2, false, {takes::expression, takes::array}, run_map},
    {"max", 1, false, {kOrdered}, run_max},
    {"max_by", 2, false, {takes::array, takes::expression}, run_max_by},
    {"merge", 1, kVariadic, {takes::object}, run_merge},
    {"min", 1, false, {kOrdered}, run_min},
    {"min_by", 2, false, {takes::array, takes::expression}, run_min_by},
    {"not_null", 1, kVariadic, {takes::any}, run_not_null},
    {"reverse", 1, false, {takes::array | takes::string}, run_reverse},
    {"sort", 1, false, {kOrdered}, run_sort},
    {"sort_by", 2, false, {takes::array, takes::expression}, run_sort_by},
    {"starts_with", 2, false, {takes::string, takes::string}, run_starts_with},
    {"sum", 1, false, {takes::numbers}, run_sum},
    {"to_array", 1, false, {takes::any}, run_to_array},
    {"to_number", 1, false, {takes::any}, run_to_number},
    {"to_string", 1, false, {takes::any}, run_to_string},
    {"type", 1, false, {takes::any}, run_type},
    {"values", 1, false, {takes::object}, run_values},
};

unsigned bit_of(Type type) { return 1U << static_cast<unsigned>(type); }

bool all_are(Value array, Type type) {
  for (size_t i = 0; i < array.size(); ++i) {
    if (array.at(i).type() != type) return false;
  }
  return true;
}

bool fits(Value value, unsigned wanted) {
  if ((wanted & bit_of(value.type())) != 0) return true;
  if (!value.is_array()) return false;
  return ((wanted & takes::numbers) != 0 && all_are(value, Type::number)) ||
         ((wanted & takes::strings) != 0 && all_are(value, Type::string));
}

std::string describe(unsigned wanted) {
  std::string words;
  const auto add = [&](std::string_view word) {
    words.append(words.empty() ? "" : " or ").append(word);
  };
  for (const Type type : {Type::number, Type::string, Type::array, Type::object}) {
    if ((wanted & bit_of(type)) != 0) add(with_article(type));
  }
  if ((wanted & takes::numbers) != 0) add("an array of numbers");
  if ((wanted & takes::strings) != 0) add(words.empty() ? "an array of strings" : "of strings");
  return words;
}

}  // namespace

const Function* find_function(std::string_view name) {
  const auto* const found = std::ranges::find(kFunctions, name, &Function::name);
  return found == std::end(kFunctions) ? nullptr : found;
}

std::span<const std::string> function_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> made;
    for (const Function& function : kFunctions) made.emplace_back(function.name);
    return made;
  }();
  return names;
}

std::unexpected<Error> CallContext::error(std::string_view why) const {
  return fail_at(call.position, std::string(call.function->name) + "(): " + std::string(why),
                 "Convert with to_number(), to_string() or to_array(), or filter such values out.");
}

Result<Value> call_function(const Call& call, Arguments given, Evaluation& evaluation) {
  const CallContext context{call, evaluation};
  for (size_t i = 0; i < given.size(); ++i) {
    const unsigned wanted = call.function->takes_at(i);
    if (given[i].expression != nullptr || fits(given[i].value, wanted)) continue;
    const bool mixed = given[i].value.is_array();
    return context.error(
        "argument " + std::to_string(i + 1) + " must be " + describe(wanted) + ", not " +
        (mixed ? "an array of other things" : std::string(with_article(given[i].value.type()))));
  }
  return call.function->run(given, context);
}

}  // namespace trainyard::query
