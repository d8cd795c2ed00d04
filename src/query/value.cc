#include "query/value.h"

#include <algorithm>

namespace trainyard::query {
namespace {

using wire::Json;

constexpr int kValueDepthMax =
    1000;  // Of documents and answers: copying recurs, and so does printing.

const Json kNull = nullptr;
const Json kTrue = true;
const Json kFalse = false;

const Json::object_t& members_of(const Json& json) { return json.get_ref<const Json::object_t&>(); }

std::unexpected<Error> fail_depth() {
  return fail(ErrorKind::invalid,
              "query: the values nest deeper than " + std::to_string(kValueDepthMax) + " levels",
              "Pick the part you need: a path into the document does not go through all of it.");
}

}  // namespace

std::string_view with_article(Type type) {
  switch (type) {
    case Type::null:
      return "null";
    case Type::boolean:
      return "a boolean";
    case Type::number:
      return "a number";
    case Type::string:
      return "a string";
    case Type::array:
      return "an array";
    case Type::object:
      return "an object";
  }
  return "";
}

Value::Value() : Value(kNull) {}

Type Value::type() const {
  if (std::holds_alternative<const List*>(form_)) return Type::array;
  if (std::holds_alternative<const Hash*>(form_)) return Type::object;
  switch (json().type()) {
    case Json::value_t::boolean:
      return Type::boolean;
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
    case Json::value_t::number_float:
      return Type::number;
    case Json::value_t::string:
      return Type::string;
    case Json::value_t::array:
      return Type::array;
    case Json::value_t::object:
      return Type::object;
    case Json::value_t::null:
    case Json::value_t::binary:     // Not from JSON text.
    case Json::value_t::discarded:  // Never a value.
      return Type::null;
  }
  return Type::null;
}

bool Value::truthy() const {
  switch (type()) {
    case Type::null:
      return false;
    case Type::boolean:
      return json().get<bool>();
    case Type::number:
      return true;
    case Type::string:
      return !string().empty();
    case Type::array:
    case Type::object:
      return size() > 0;
  }
  return false;
}

size_t Value::size() const {
  if (const auto* list = std::get_if<const List*>(&form_)) return (*list)->size();
  if (const auto* hash = std::get_if<const Hash*>(&form_)) return (*hash)->size();
  return json().is_structured() ? json().size() : 0;
}

Value Value::at(size_t index) const {
  if (const auto* list = std::get_if<const List*>(&form_)) return (**list)[index];
  return Value(json()[index]);
}

std::string_view Value::key_at(size_t index) const {
  if (const auto* hash = std::get_if<const Hash*>(&form_)) return (**hash)[index].first;
  return (members_of(json()).begin() + static_cast<std::ptrdiff_t>(index))->first;
}

Value Value::member_at(size_t index) const {
  if (const auto* hash = std::get_if<const Hash*>(&form_)) return (**hash)[index].second;
  return Value((members_of(json()).begin() + static_cast<std::ptrdiff_t>(index))->second);
}

std::optional<Value> Value::find(std::string_view name) const {
  if (const auto* hash = std::get_if<const Hash*>(&form_)) {
    for (const auto& [key, value] : **hash) {
      if (key == name) return value;
    }
    return std::nullopt;
  }
  if (!std::holds_alternative<const Json*>(form_) || !json().is_object()) return std::nullopt;
  for (const auto& [key, value] : members_of(json())) {
    if (key == name) return Value(value);
  }
  return std::nullopt;
}

long double Value::number() const {
  if (json().is_number_float()) return json().get<double>();
  if (json().is_number_unsigned()) return static_cast<long double>(json().get<uint64_t>());
  return static_cast<long double>(json().get<int64_t>());
}

Value Workspace::of(bool value) { return Value(value ? kTrue : kFalse); }

Status Workspace::charge(size_t steps) {
  steps_ += steps;
  if (steps_ <= steps_max_) return {};
  return fail(ErrorKind::invalid, "query: takes too many steps",
              "Narrow the records with a filter first.");
}

Result<bool> Workspace::equal(Value left, Value right, int depth) {
  TRY(charge(1));
  if (depth > kValueDepthMax) return fail_depth();
  if (left.type() != right.type()) return false;
  switch (left.type()) {
    case Type::null:
      return true;
    case Type::boolean:
      return left.truthy() == right.truthy();
    case Type::number:
      return left.number() == right.number();
    case Type::string:
      return left.string() == right.string();
    case Type::array:
    case Type::object:
      if (left.size() != right.size()) return false;
      return equal_members(left, right, depth);
  }
  return false;
}

Result<bool> Workspace::equal_members(Value left, Value right, int depth) {
  for (size_t i = 0; i < left.size(); ++i) {
    if (left.is_array()) {
      TRY_SET(const bool same, equal(left.at(i), right.at(i), depth + 1));
      if (!same) return false;
      continue;
    }
    const std::string_view key = left.key_at(i);
    std::optional<Value> other;
    if (right.key_at(i) == key) {
      other = right.member_at(i);
    } else {
      TRY(charge(right.size()));
      other = right.find(key);
    }
    if (!other) return false;
    TRY_SET(const bool same, equal(left.member_at(i), *other, depth + 1));
    if (!same) return false;
  }
  return true;
}

Result<Json> Workspace::copy(Value value, int depth) {
  TRY(charge(kStepsPerCopy));
  if (depth > kValueDepthMax) return fail_depth();
  if (value.is_array()) {
    Json array = Json::array();
    auto& elements = array.get_ref<Json::array_t&>();
    elements.reserve(value.size());
    for (size_t i = 0; i < value.size(); ++i) {
      TRY_SET(Json element, copy(value.at(i), depth + 1));
      elements.push_back(std::move(element));
    }
    return array;
  }
  if (value.is_object()) {
    Json object = Json::object();
    auto& members = object.get_ref<Json::object_t&>();
    members.reserve(value.size());
    for (size_t i = 0; i < value.size(); ++i) {
      TRY_SET(Json member, copy(value.member_at(i), depth + 1));
      // Not emplace(), which searches for the key first: keys are unique already.
      members.emplace_back(std::string(value.key_at(i)), std::move(member));
    }
    return object;
  }
  if (value.type() == Type::string) TRY(charge(value.string().size() / kBytesPerStep));
  return value.json();
}

}  // namespace trainyard::query
