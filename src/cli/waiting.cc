#include "cli/waiting.h"

#include <utility>

#include "base/text.h"

namespace trainyard::cli {
namespace {

// A run that starts at once passes through waiting states; only a wait that lasts is worth words.
constexpr milliseconds kWorthWords{300};
constexpr seconds kBetweenSteps{10};  // Of one thing, where lines stay.
constexpr std::string_view kClear = "\r\x1b[K";
constexpr std::string_view kBuilt = " is being built";

}  // namespace

std::string waiting_line(const std::string& reason) {
  constexpr std::string_view kWaits = "waits ";
  if (reason.starts_with("is ")) return "waiting: it " + reason;
  if (!reason.starts_with(kWaits)) return "waiting: " + reason;
  return "waiting " + reason.substr(kWaits.size());
}

std::string Waiting::take(const std::string& from_server, SteadyTime now) {
  const std::string reason = printable(from_server);
  if (reason.empty() || reason == reason_ || now - started_ < kWorthWords) return {};
  reason_ = reason;
  const size_t building = reason.find(kBuilt);
  // Only of a build the steps are less than the thing.
  const std::string thing = reason.substr(0, building);
  const bool step = thing == std::exchange(thing_, thing);
  // Whether the build succeeded is known when the run begins.
  if (!built_.empty() && thing != built_ && !built_until_) built_until_ = now;
  if (building != std::string::npos && built_ != thing) {
    built_ = thing;
    built_since_ = now;
    built_until_.reset();
  }
  if (!screen_.terminal) {
    if (step && now - said_ < kBetweenSteps) return {};
    said_ = now;
    return waiting_line(reason) + "\n";
  }
  std::string line = waiting_line(reason);
  // A line that goes on below cannot be taken away again.
  const auto width = static_cast<size_t>(screen_.width);
  if (width > 1 && line.size() >= width) line.resize(width - 1);
  on_screen_ = true;
  return std::string(kClear) + to_utf8(line);
}

std::string Waiting::over(SteadyTime now, Then then) {
  std::string text;
  if (std::exchange(on_screen_, false)) text = kClear;
  reason_.clear();
  thing_.clear();
  const std::string built = tell_built(now);
  return then == Then::begun ? text + built : text;
}

std::string Waiting::tell_built(SteadyTime now) {
  const std::string built = std::exchange(built_, {});
  if (built.empty()) return {};
  const SteadyTime until = std::exchange(built_until_, std::nullopt).value_or(now);
  return built + " was built in " + format_duration(until - built_since_) + " and is kept\n";
}

}  // namespace trainyard::cli
