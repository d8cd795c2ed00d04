#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "wire/json.h"

namespace trainyard::query {

enum class Type { null, boolean, number, string, array, object };
// "a number", "an array".
std::string_view with_article(Type type);

class Value;
using List = std::vector<Value>;
using Hash = std::vector<std::pair<std::string_view, Value>>;

// What an expression gave: JSON that lies in the document, in the query or in the Workspace, or a
// list or hash of such. As small as a view, and as short-lived: nothing of a document is copied
// until the answer is.
class Value {
 public:
  Value();  // null
  explicit Value(const wire::Json& json) : form_(&json) {}
  explicit Value(const List& list) : form_(&list) {}
  explicit Value(const Hash& hash) : form_(&hash) {}

  Type type() const;
  bool is_null() const { return type() == Type::null; }
  bool is_array() const { return type() == Type::array; }
  bool is_object() const { return type() == Type::object; }
  // All but null, false and what is empty; 0 is true.
  bool truthy() const;

  // Elements of an array or members of an object; 0 of anything else.
  size_t size() const;
  Value at(size_t index) const;                 // Of an array.
  std::string_view key_at(size_t index) const;  // Of an object.
  Value member_at(size_t index) const;          // Of an object.
  std::optional<Value> find(std::string_view name) const;
  Value member(std::string_view name) const { return find(name).value_or(Value()); }

  const std::string& string() const { return json().get_ref<const std::string&>(); }
  // Wide enough for every whole number and every double.
  long double number() const;
  // Of all types but array and object, and of these when they were not made here.
  const wire::Json& json() const { return *std::get<const wire::Json*>(form_); }

 private:
  std::variant<const wire::Json*, const List*, const Hash*> form_;
};

// What a search may do: each node evaluated is a step. What takes memory counts for more, so that
// the limit means some seconds and some hundred MB.
constexpr size_t kStepsMax = 100'000'000;
constexpr size_t kStepsPerElement = 4;  // Of a list or hash made on the way.
constexpr size_t kStepsPerCopy = 16;    // Of a value in the answer.
constexpr size_t kBytesPerStep = 4;     // Of a string made.

// Keeps what is made on the way to an answer, and limits how much that is. One for each search.
class Workspace {
 public:
  explicit Workspace(size_t steps_max = kStepsMax) : steps_max_(steps_max) {}

  static Value of(bool value);
  Value keep(wire::Json json) { return Value(jsons_.emplace_back(std::move(json))); }
  Value keep(List list) { return Value(lists_.emplace_back(std::move(list))); }
  Value keep(Hash hash) { return Value(hashes_.emplace_back(std::move(hash))); }

  // Fails once the whole search has done too much.
  Status charge(size_t steps);
  // Deep, whatever the order of members; 1 equals 1.0.
  Result<bool> equal(Value left, Value right) { return equal(left, right, 0); }
  Result<wire::Json> copy(Value value) { return copy(value, 0); }

 private:
  Result<bool> equal(Value left, Value right, int depth);
  Result<bool> equal_members(Value left, Value right, int depth);
  Result<wire::Json> copy(Value value, int depth);

  size_t steps_max_;
  size_t steps_ = 0;
  // Deques: what a Value points to stays where it is.
  std::deque<wire::Json> jsons_;
  std::deque<List> lists_;
  std::deque<Hash> hashes_;
};

}  // namespace trainyard::query
