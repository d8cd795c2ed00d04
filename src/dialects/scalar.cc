#include "dialects/scalar.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <limits>
#include <string>

namespace trainyard::dialects {
namespace {

template <size_t N>
bool is_one_of(std::string_view word, const std::array<std::string_view, N>& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// Small, large, or with a large initial, as YAML 1.1 wants it: yEs is a text.
constexpr std::array<std::string_view, 9> kTrue = {"true", "True", "TRUE", "yes", "Yes",
                                                   "YES",  "on",   "On",   "ON"};
constexpr std::array<std::string_view, 9> kFalse = {"false", "False", "FALSE", "no", "No",
                                                    "NO",    "off",   "Off",   "OFF"};
constexpr std::array<std::string_view, 3> kInfinite = {".inf", ".Inf", ".INF"};
constexpr std::array<std::string_view, 3> kNotANumber = {".nan", ".NaN", ".NAN"};

std::optional<int64_t> digits(std::string_view text, int base) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (text.empty() || text.front() == '-' || error != std::errc() ||
      end != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

// "1:30:00" is 5400.
std::optional<int64_t> sixties(std::string_view text) {
  int64_t total = 0;
  for (bool first = true;; first = false) {
    const size_t colon = text.find(':');
    const auto part = digits(text.substr(0, colon), 10);
    if (!part || (!first && *part > 59)) return std::nullopt;
    if (total > (std::numeric_limits<int64_t>::max() - *part) / 60) return std::nullopt;
    total = total * 60 + *part;
    if (colon == std::string_view::npos) return total;
    text.remove_prefix(colon + 1);
  }
}

std::optional<int64_t> unsigned_int(std::string_view text) {
  if (text.find(':') != std::string_view::npos) return sixties(text);
  if (text.starts_with("0x")) return digits(text.substr(2), 16);
  if (text.starts_with("0b")) return digits(text.substr(2), 2);
  if (text.starts_with("0o")) return digits(text.substr(2), 8);
  if (text.size() > 1 && text.front() == '0') return digits(text.substr(1), 8);
  return digits(text, 10);
}

// Without the '_' that may stand between digits.
std::string number_text(std::string_view text) {
  std::string plain;
  std::copy_if(text.begin(), text.end(), std::back_inserter(plain),
               [](char c) { return c != '_'; });
  return plain;
}

bool is_numeric(std::string_view text) {
  return !text.empty() && text.front() != '_' &&
         text.find_first_of("0123456789") != std::string_view::npos;
}

}  // namespace

std::optional<bool> as_bool(const Node& node) {
  if (!node.is_scalar() || node.quoted || node.text.empty()) return std::nullopt;
  if (is_one_of(node.text, kTrue)) return true;
  if (is_one_of(node.text, kFalse)) return false;
  return std::nullopt;
}

std::optional<int64_t> as_int(const Node& node) {
  if (!node.is_scalar() || node.quoted || !is_numeric(node.text)) return std::nullopt;
  const std::string plain = number_text(node.text);
  std::string_view text = plain;
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  const auto value = unsigned_int(text);
  if (!value) return std::nullopt;
  return negative ? -*value : *value;
}

std::optional<double> as_number(const Node& node) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (const auto whole = as_int(node)) return static_cast<double>(*whole);
  if (!node.is_scalar() || node.quoted) return std::nullopt;
  const std::string_view word = node.text;
  if (is_one_of(word, kNotANumber)) return std::numeric_limits<double>::quiet_NaN();
  if (is_one_of(word.substr(word.starts_with('+') ? 1 : 0), kInfinite)) return kInfinity;
  if (word.starts_with('-') && is_one_of(word.substr(1), kInfinite)) return -kInfinity;
  if (!is_numeric(node.text)) return std::nullopt;
  const std::string plain = number_text(node.text);
  std::string_view text = plain;
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace trainyard::dialects
