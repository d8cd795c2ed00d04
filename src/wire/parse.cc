#include "wire/parse.h"

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/text.h"

namespace trainyard::wire {
namespace {

constexpr size_t kReasonMax = 200;  // Bytes. The library quotes a whole number, however long.

Error not_json(const std::exception& error) {
  std::string reason = to_utf8(std::string_view(error.what()).substr(0, kReasonMax));
  if (std::string_view(error.what()).size() > kReasonMax) reason += "…";
  return {ErrorKind::invalid, "this is not JSON: " + reason, {}};
}

constexpr size_t kSearchedMax = 32;     // Members of an object that has no index of its keys.
constexpr size_t kValuesPerAsk = 4096;  // Values between two looks at JsonLimits::stop.

std::string place_of(std::string_view text, size_t byte) {
  size_t line = 1;
  size_t column = 1;
  for (const char c : text.substr(0, byte > 0 ? byte - 1 : 0)) {
    ++column;
    if (c == '\n') {
      ++line;
      column = 1;
    }
  }
  return "line " + std::to_string(line) + ", column " + std::to_string(column);
}

// Builds the value from the events of nlohmann's parser, which keeps its own state on the heap.
// nlohmann's builder searches all members of an ordered object for each key, which takes quadratic
// time; this one indexes the keys of large objects.
class Builder final : public nlohmann::json_sax<Json> {
 public:
  Builder(std::string_view text, const JsonLimits& limits) : text_(text), limits_(limits) {}

  Result<Json> finish(bool parsed) {
    if (parsed) return std::move(root_);
    return std::unexpected(std::move(error_));
  }

  bool null() override { return add(Json()); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t& /*digits*/) override {
    return add(value);
  }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t& value) override { return add(Json::binary(std::move(value))); }

  bool start_object(size_t /*size*/) override { return open(Json::object()); }
  bool start_array(size_t /*size*/) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    Level& level = open_.back();
    auto& members = level.json.get_ref<Json::object_t&>();
    if (members.size() == kSearchedMax && level.index.empty()) {
      for (size_t i = 0; i < members.size(); ++i) level.index.emplace(members.data()[i].first, i);
    }
    if (members.size() < kSearchedMax) {
      level.member = 0;
      while (level.member < members.size() && members.data()[level.member].first != name)
        ++level.member;
    } else {
      level.member = level.index.emplace(name, members.size()).first->second;
    }
    if (level.member < members.size()) return true;
    if (members.size() >= limits_.members_max) {
      return refuse("an object of this JSON has more than " + std::to_string(limits_.members_max) +
                    " members");
    }
    members.emplace_back(std::move(name), Json());
    return true;
  }

  bool parse_error(size_t byte, const std::string& /*token*/,
                   const Json::exception& error) override {
    if (dynamic_cast<const Json::parse_error*>(&error) != nullptr) {
      error_ = {ErrorKind::invalid, place_of(text_, byte) + ": this is not JSON", {}};
    } else {
      error_ = not_json(error);
    }
    return false;
  }

 private:
  // An object or list that is not closed yet.
  struct Level {
    Json json;
    size_t member = 0;                              // Of an object: whose value comes next.
    std::unordered_map<std::string, size_t> index;  // Of a large object: its keys' places.
  };

  bool refuse(std::string why) {
    error_ = {ErrorKind::invalid, std::move(why), {}};
    return false;
  }

  bool add(Json value) {
    if (++values_ % kValuesPerAsk == 0 && limits_.stop && limits_.stop()) {
      error_ = {ErrorKind::cancelled, "nobody waits for this any more", {}};
      return false;
    }
    put(std::move(value));
    return true;
  }

  void put(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return;
    }
    Level& level = open_.back();
    if (level.json.is_object()) {
      level.json.get_ref<Json::object_t&>().data()[level.member].second = std::move(value);
    } else {
      level.json.get_ref<Json::array_t&>().push_back(std::move(value));
    }
  }

  bool open(Json empty) {
    if (open_.size() >= limits_.depth_max) {
      return refuse("this JSON nests deeper than " + std::to_string(limits_.depth_max) + " levels");
    }
    open_.push_back({.json = std::move(empty), .index = {}});
    return true;
  }

  bool close() {
    Json done = std::move(open_.back().json);
    open_.pop_back();
    return add(std::move(done));
  }

  const std::string_view text_;
  const JsonLimits& limits_;
  Json root_;
  std::vector<Level> open_;
  size_t values_ = 0;
  Error error_;
};

}  // namespace

Result<Json> parse(std::string_view text, const JsonLimits& limits) {
  Builder builder(text, limits);
  try {
    return builder.finish(Json::sax_parse(text, &builder));
  } catch (const std::exception& error) {
    return std::unexpected(not_json(error));
  }
}

Result<Json> parse(std::string_view text) { return parse(text, {}); }

}  // namespace trainyard::wire
