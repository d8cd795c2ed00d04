#include "engine/slurm/host_list.h"

#include <charconv>
#include <optional>

#include "base/text.h"

namespace trainyard::engine::slurm {
namespace {

constexpr size_t kHostsMax = 100'000;

// Parts between commas that are not within brackets.
std::vector<std::string_view> parts_of(std::string_view list) {
  std::vector<std::string_view> parts;
  size_t from = 0;
  int depth = 0;
  for (size_t i = 0; i <= list.size(); ++i) {
    if (i == list.size() || (list[i] == ',' && depth == 0)) {
      if (i > from) parts.push_back(list.substr(from, i - from));
      from = i + 1;
    } else if (list[i] == '[') {
      ++depth;
    } else if (list[i] == ']') {
      --depth;
    }
  }
  return parts;
}

std::optional<size_t> number(std::string_view text) {
  size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "07-10": 07 08 09 10, as wide as it is written; "rack" itself.
std::vector<std::string> range_of(std::string_view range) {
  const size_t dash = range.find('-');
  const std::string_view first = range.substr(0, dash);
  const auto from = number(first);
  const auto to = dash == std::string_view::npos ? from : number(range.substr(dash + 1));
  if (!from || !to || *to < *from || *to - *from >= kHostsMax) return {std::string(range)};
  std::vector<std::string> numbers;
  for (size_t i = *from; i <= *to; ++i) {
    std::string text = std::to_string(i);
    if (text.size() < first.size()) text.insert(0, first.size() - text.size(), '0');
    numbers.push_back(std::move(text));
  }
  return numbers;
}

// "r[1-2]n[1-2]" has brackets twice.
void expand_part(std::string_view part, const std::string& before,
                 std::vector<std::string>& hosts) {
  const size_t open = part.find('[');
  const size_t close = part.find(']', open);
  if (open == std::string_view::npos || close == std::string_view::npos) {
    if (hosts.size() < kHostsMax) hosts.push_back(before + std::string(part));
    return;
  }
  for (const std::string& range : split(part.substr(open + 1, close - open - 1), ',')) {
    for (const std::string& middle : range_of(range)) {
      if (hosts.size() >= kHostsMax) return;
      expand_part(part.substr(close + 1), before + std::string(part.substr(0, open)) + middle,
                  hosts);
    }
  }
}

}  // namespace

std::vector<std::string> expand_hosts(std::string_view list) {
  std::vector<std::string> hosts;
  for (const std::string_view part : parts_of(list)) expand_part(part, {}, hosts);
  return hosts;
}

}  // namespace trainyard::engine::slurm
