#include "query/read.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "wire/parse.h"

namespace trainyard::query {
namespace {

using wire::Json;

constexpr size_t kWholeDigitsMax = 18;  // As many digits fit 64 bits, whatever they are.

// Reads what is usual, and says no to the rest: false means "not by me", not "wrong".
// Members and elements gather on two stacks until their number is known, so that each object and
// array is made once, at its size; letting them grow is what costs nlohmann's parser its time.
class Reader {
 public:
  explicit Reader(std::string_view text) : at_(text.data()), end_(at_ + text.size()) {}

  bool document(Json& out) {
    if (!value(out, 0)) return false;
    skip_space();
    return at_ == end_;
  }

 private:
  bool value(Json& out, size_t depth);
  bool object(Json& out, size_t depth);
  bool array(Json& out, size_t depth);
  bool string(std::string& out);
  bool number(Json& out);
  bool word(std::string_view word, Json value, Json& out);
  // By wire::parse(): escapes, what is not ASCII, and numbers that are very long.
  bool token(const char* begin, Json& out);
  bool duplicate_since(size_t first) const;

  void skip_space() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\t' || *at_ == '\r')) ++at_;
  }
  bool take(char wanted) {
    skip_space();
    if (at_ == end_ || *at_ != wanted) return false;
    ++at_;
    return true;
  }
  size_t skip_digits() {
    const char* const begin = at_;
    while (at_ != end_ && is_digit(*at_)) ++at_;
    return static_cast<size_t>(at_ - begin);
  }

  const char* at_;
  const char* end_;
  std::vector<std::pair<std::string, Json>> members_;
  std::vector<Json> elements_;
};

bool Reader::value(Json& out, size_t depth) {
  skip_space();
  if (at_ == end_) return false;
  switch (*at_) {
    case '{':
      return object(out, depth);
    case '[':
      return array(out, depth);
    case '"':
      out = std::string();
      return string(out.get_ref<std::string&>());
    case 't':
      return word("true", true, out);
    case 'f':
      return word("false", false, out);
    case 'n':
      return word("null", nullptr, out);
    default:
      return number(out);
  }
}

bool Reader::object(Json& out, size_t depth) {
  if (depth >= wire::kJsonDepthMax) return false;
  ++at_;
  out = Json(Json::value_t::object);
  if (take('}')) return true;
  const size_t first = members_.size();
  do {
    skip_space();
    std::pair<std::string, Json> member;
    if (at_ == end_ || *at_ != '"' || !string(member.first)) return false;
    if (!take(':') || !value(member.second, depth + 1)) return false;
    members_.push_back(std::move(member));
  } while (take(','));
  if (!take('}') || duplicate_since(first)) return false;
  auto& members = out.get_ref<Json::object_t&>();
  members.reserve(members_.size() - first);
  for (size_t i = first; i < members_.size(); ++i) {
    members.emplace_back(std::move(members_[i].first), std::move(members_[i].second));
  }
  members_.resize(first);
  return true;
}

bool Reader::array(Json& out, size_t depth) {
  if (depth >= wire::kJsonDepthMax) return false;
  ++at_;
  out = Json(Json::value_t::array);
  if (take(']')) return true;
  const size_t first = elements_.size();
  do {
    Json element;
    if (!value(element, depth + 1)) return false;
    elements_.push_back(std::move(element));
  } while (take(','));
  if (!take(']')) return false;
  const auto begin = elements_.begin() + static_cast<std::ptrdiff_t>(first);
  out.get_ref<Json::array_t&>().assign(std::make_move_iterator(begin),
                                       std::make_move_iterator(elements_.end()));
  elements_.resize(first);
  return true;
}

bool Reader::string(std::string& out) {
  const char* const begin = at_++;
  const auto plain = [](char c) { return c >= 0x20 && c < 0x7f && c != '"' && c != '\\'; };
  while (at_ != end_ && plain(*at_)) ++at_;
  if (at_ != end_ && *at_ == '"') {
    out.assign(begin + 1, at_++);
    return true;
  }
  while (at_ != end_ && *at_ != '"') at_ += *at_ == '\\' && end_ - at_ > 1 ? 2 : 1;
  if (at_ == end_) return false;
  ++at_;
  Json json;
  if (!token(begin, json)) return false;
  out = std::move(json.get_ref<std::string&>());
  return true;
}

bool Reader::number(Json& out) {
  const char* const begin = at_;
  const bool negative = *at_ == '-';
  if (negative) ++at_;
  const char* const digits = at_;
  const size_t count = skip_digits();
  if (count == 0 || (count > 1 && *digits == '0')) return false;
  if (at_ == end_ || (*at_ != '.' && *at_ != 'e' && *at_ != 'E')) {
    if (count > kWholeDigitsMax) return token(begin, out);
    int64_t whole = 0;
    std::from_chars(begin, at_, whole);
    // The kinds that nlohmann's parser gives.
    out = negative ? Json(whole) : Json(static_cast<uint64_t>(whole));
    return true;
  }
  if (*at_ == '.') {
    ++at_;
    if (skip_digits() == 0) return false;
  }
  if (at_ != end_ && (*at_ == 'e' || *at_ == 'E')) {
    ++at_;
    if (at_ != end_ && (*at_ == '+' || *at_ == '-')) ++at_;
    if (skip_digits() == 0) return false;
  }
  double real = 0;
  if (std::from_chars(begin, at_, real).ec != std::errc()) return false;
  out = real;
  return true;
}

bool Reader::word(std::string_view word, Json value, Json& out) {
  if (!std::string_view(at_, end_).starts_with(word)) return false;
  at_ += word.size();
  out = std::move(value);
  return true;
}

bool Reader::token(const char* begin, Json& out) {
  Result<Json> json = wire::parse(std::string_view(begin, at_));
  if (!json) return false;
  out = *std::move(json);
  return true;
}

// Objects are small; one with very many members is left to wire::parse().
bool Reader::duplicate_since(size_t first) const {
  constexpr size_t kMembersMax = 256;
  if (members_.size() - first > kMembersMax) return true;
  for (size_t i = first; i < members_.size(); ++i) {
    for (size_t j = i + 1; j < members_.size(); ++j) {
      if (members_[i].first == members_[j].first) return true;
    }
  }
  return false;
}

}  // namespace

Result<Json> read(std::string_view text) {
  Json json;
  if (Reader(text).document(json)) return json;
  return wire::parse(text);
}

}  // namespace trainyard::query
