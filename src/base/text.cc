#include "base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

namespace trainyard {
namespace {

constexpr double kKibi = 1024.0;
constexpr std::string_view kUnits = "kmgtpe";  // Powers of 1024, the first one being 1024 itself.

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::unexpected<Error> refuse(std::string_view text, std::string_view what, std::string_view like) {
  return fail(ErrorKind::invalid,
              fmt::format("{}: '{}' is not {}", what, to_utf8(text.substr(0, 80)), like));
}

// Digits only: from_chars by itself would take a sign.
std::optional<int64_t> whole_number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool digits = !text.empty() && text.front() >= '0' && text.front() <= '9';
  if (!digits || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "1.5" and what follows it. No exponents, no "inf", no sign.
std::optional<std::pair<double, std::string_view>> leading_number(std::string_view text) {
  const size_t end = std::min(text.find_first_not_of("0123456789."), text.size());
  double value = 0;
  const auto [stop, error] =
      std::from_chars(text.data(), text.data() + end, value, std::chars_format::fixed);
  if (error != std::errc() || stop != text.data() + end) return std::nullopt;
  return std::pair(value, text.substr(end));
}

// The power of 1024 named by "", "b", "k", "kb", "KiB", "m" …
std::optional<int> size_unit(std::string_view unit) {
  std::string name;
  for (const char c : unit) name.push_back(lower(c));
  if (name.empty() || name == "b") return 0;
  const size_t power = kUnits.find(name.front());
  const std::string_view rest = std::string_view(name).substr(1);
  if (power == std::string_view::npos || !(rest.empty() || rest == "b" || rest == "ib")) {
    return std::nullopt;
  }
  return static_cast<int>(power) + 1;
}

std::optional<seconds> checked_seconds(double value) {
  constexpr double kLongest = 100.0 * 365 * 86400;  // Beyond any run; keeps sums from overflowing.
  if (!(value >= 0) || value > kLongest) return std::nullopt;
  return seconds(static_cast<int64_t>(std::ceil(value)));
}

// "90", "1.5h"
std::optional<seconds> plain_duration(std::string_view text) {
  const auto number = leading_number(text);
  if (!number) return std::nullopt;
  const std::string_view unit = trim(number->second);
  if (unit.empty() || unit == "s") return checked_seconds(number->first);
  if (unit == "m" || unit == "min") return checked_seconds(number->first * 60);
  if (unit == "h") return checked_seconds(number->first * 3600);
  if (unit == "d") return checked_seconds(number->first * 86400);
  return std::nullopt;
}

// "[D-]H:M:S" or "M:S", as Slurm writes a time limit.
std::optional<seconds> clock_duration(std::string_view text) {
  double total = 0;
  if (const size_t dash = text.find('-'); dash != std::string_view::npos) {
    const auto days = whole_number(text.substr(0, dash));
    if (!days) return std::nullopt;
    total = static_cast<double>(*days) * 86400;
    text.remove_prefix(dash + 1);
    if (std::count(text.begin(), text.end(), ':') != 2) return std::nullopt;
  }
  const std::vector<std::string> parts = split(text, ':');
  if (parts.size() < 2 || parts.size() > 3) return std::nullopt;
  double clock = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto part = whole_number(parts[i]);
    if (!part || (i > 0 && *part > 59)) return std::nullopt;
    clock = clock * 60 + static_cast<double>(*part);
  }
  return checked_seconds(total + clock);
}

// Insertions, deletions, replacements and swaps of neighbours that turn one word into the other.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> cost(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) cost[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) cost[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = lower(a[i - 1]) == lower(b[j - 1]) ? 0 : 1;
      size_t best = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        best = std::min(best, cost[i - 2][j - 2] + 1);
      }
      cost[i][j] = best;
    }
  }
  return cost[a.size()][b.size()];
}

// The length of the UTF-8 sequence at the start of `bytes`, or 0 when there is none: overlong
// forms, surrogates and what lies beyond U+10FFFF are none.
size_t utf8_length(std::string_view bytes) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned first = at(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || bytes.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((at(i) & 0xC0) != 0x80) return 0;
  }
  const unsigned second = at(1);
  if (first == 0xE0 && second < 0xA0) return 0;
  if (first == 0xED && second > 0x9F) return 0;
  if (first == 0xF0 && second < 0x90) return 0;
  if (first == 0xF4 && second > 0x8F) return 0;
  return length;
}

// Whether a UTF-8 sequence is a control character: C0 and DEL; C1, U+0080 to U+009F; U+200E,
// U+200F, U+202A to U+202E and U+2066 to U+2069, which change how what follows is laid out.
bool is_control(std::string_view one) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(one[i]); };
  if (one.size() == 1) return at(0) < 0x20 || at(0) == 0x7f;
  if (one.size() == 2) return at(0) == 0xC2 && at(1) < 0xA0;
  if (one.size() != 3 || at(0) != 0xE2) return false;
  if (at(1) == 0x80) return at(2) == 0x8E || at(2) == 0x8F || (at(2) >= 0xAA && at(2) <= 0xAE);
  return at(1) == 0x81 && at(2) >= 0xA6 && at(2) <= 0xA9;
}

}  // namespace

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (;;) {
    const size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string join(std::span<const std::string> parts, std::string_view separator) {
  return fmt::format("{}", fmt::join(parts, separator));
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::string lower(std::string_view text) {
  std::string low(text);
  for (char& c : low) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  return low;
}

Result<int64_t> parse_int(std::string_view text, std::string_view what) {
  const bool negative = text.starts_with('-');
  // The digits are read with their sign, so that the smallest number fits too.
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view digits = text.substr(negative ? 1 : 0);
  if (digits.empty() || error != std::errc() || end != text.data() + text.size()) {
    return refuse(text, what, "a whole number");
  }
  return value;
}

Result<int64_t> parse_size(std::string_view text, std::string_view what) {
  constexpr std::string_view kLike = "a size like 512, 64k or 1.5GB";
  const std::string_view trimmed = trim(text);
  if (const auto bytes = whole_number(trimmed)) return *bytes;
  const auto number = leading_number(trimmed);
  const auto power = number ? size_unit(trim(number->second)) : std::nullopt;
  if (!power) return refuse(text, what, kLike);
  const double bytes = number->first * std::pow(kKibi, *power);
  // 2^63 itself is a double; anything below it fits.
  if (!(bytes < static_cast<double>(std::numeric_limits<int64_t>::max()))) {
    return refuse(text, what, "a size that fits into 63 bits");
  }
  return static_cast<int64_t>(bytes);
}

Result<seconds> parse_duration(std::string_view text, std::string_view what) {
  const std::string_view trimmed = trim(text);
  const bool clock = trimmed.find(':') != std::string_view::npos;
  const auto duration = clock ? clock_duration(trimmed) : plain_duration(trimmed);
  if (!duration) return refuse(text, what, "a time like 90, 90s, 15m, 2h, 1d or 1:30:00");
  return *duration;
}

std::string format_size(uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / kKibi;
  size_t unit = 0;
  // 1023.6 would be shown as 1024.
  while (value >= 1023.5 && unit + 1 < kUnits.size()) {
    value /= kKibi;
    ++unit;
  }
  constexpr std::array<std::string_view, 6> kShown = {"kB", "MB", "GB", "TB", "PB", "EB"};
  return value < 9.95 ? fmt::format("{:.1f} {}", value, kShown[unit])
                      : fmt::format("{:.0f} {}", value, kShown[unit]);
}

std::string format_duration(microseconds duration) {
  const double value = std::max(0.0, std::chrono::duration<double>(duration).count());
  if (value < 0.995) return fmt::format("{:.2f} s", value);
  if (value < 59.95) return fmt::format("{:.1f} s", value);
  const int64_t whole = std::llround(value);
  const int64_t hours = whole / 3600;
  const int64_t minutes = whole / 60 % 60;
  if (hours == 0) return fmt::format("{}:{:02}", minutes, whole % 60);
  return fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60);
}

std::string nearest(std::string_view word, std::span<const std::string> known) {
  constexpr size_t kLengthMax = 64;  // The comparison is quadratic, and nobody mistypes an essay.
  if (word.size() > kLengthMax) return {};
  size_t best = std::max<size_t>(1, word.size() / 3) + 1;
  std::string found;
  for (const std::string& candidate : known) {
    if (candidate.size() > kLengthMax) continue;
    const size_t distance = edit_distance(word, candidate);
    // Another word altogether of the same few letters is no help.
    if (distance < best && distance < candidate.size()) {
      best = distance;
      found = candidate;
    }
  }
  return found;
}

std::string to_utf8(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const size_t length = utf8_length(bytes);
    text.append(length == 0 ? std::string_view("\xEF\xBF\xBD") : bytes.substr(0, length));
    bytes.remove_prefix(std::max<size_t>(1, length));
  }
  return text;
}

std::string printable(std::string_view text, std::string_view keep) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    const std::string_view one = text.substr(0, std::max<size_t>(1, length));
    if (length == 0) {
      out += "\xEF\xBF\xBD";
    } else if (is_control(one) && !(length == 1 && keep.find(one.front()) != keep.npos)) {
      out += ' ';
    } else {
      out += one;
    }
    text.remove_prefix(one.size());
  }
  return out;
}

}  // namespace trainyard
