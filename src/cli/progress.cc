#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/text.h"
#include "cli/console.h"

namespace trainyard::cli {
namespace {

constexpr milliseconds kQuiet{500};
constexpr milliseconds kBetween{100};
constexpr uint64_t kBarWidth = 30;
constexpr std::string_view kClearLine = "\r\x1b[K";

void put(std::string_view text) {
  static_cast<void>(write_output(STDERR_FILENO, text).has_value());
}

}  // namespace

Progress::Progress(Clock& clock, std::string label, bool shown)
    : clock_(clock), label_(std::move(label)), shown_(shown), started_(clock.steady()) {}

Progress::~Progress() {
  if (on_screen_) put(kClearLine);
}

void Progress::update(uint64_t done, uint64_t total) { say(format_bar(label_, done, total)); }

void Progress::say(std::string_view words) {
  if (!shown_) return;
  const SteadyTime now = clock_.steady();
  if (now - started_ < kQuiet || now - drawn_ < kBetween) return;
  drawn_ = now;
  on_screen_ = true;
  put(std::string(kClearLine).append(words));
}

std::string format_bar(const std::string& label, uint64_t done, uint64_t total) {
  if (total == 0) return fmt::format("{}  {}", label, format_size(done));
  const double part = std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
  const auto filled = static_cast<uint64_t>(part * static_cast<double>(kBarWidth));
  return fmt::format("{}  [{}{}] {:3.0f}%  {} of {}", label, std::string(filled, '#'),
                     std::string(kBarWidth - filled, '-'), part * 100, format_size(done),
                     format_size(total));
}

}  // namespace trainyard::cli
