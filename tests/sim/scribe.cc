#include "scribe.h"

#include <algorithm>

namespace trainyard::sim {
namespace {

constexpr seconds kSendAgain{9};
constexpr int kLinesMax = 5;                // Written at once …
constexpr int kManyLines = 25;              // … now and then.
constexpr int kChildrenMax = 3;             // Of one writer.
constexpr const char* kStranger = "run-1";  // Mostly not the writer's to speak of.

std::string in_quotes(const std::string& text) { return '"' + text + '"'; }

}  // namespace

void Scribe::write(Random& random, SteadyTime now) {
  const int64_t count = random.percent(10) ? kManyLines : random.between(1, kLinesMax);
  for (int64_t lines = count; lines > 0; --lines) {
    add_line(random);
    text_ += '\n';
  }
  next_send_ = now;
}

void Scribe::add_line(Random& random) {
  const std::string own = in_quotes(attempt_.run.value);
  const int64_t chance = random.between(1, 100);
  if (chance <= 50) {
    // Every rank tells of the same metric: their points mix, each rank's in its own order.
    const std::string step = std::to_string(points_);
    text_ += R"({"k":"metric","n":"loss","v":)" + number() + R"(,"s":)" + step + "}";
  } else if (chance <= 58) {
    text_ += R"({"k":"list","n":"list","v":[)" + number() + "," + number() + "]}";
  } else if (chance <= 64) {
    text_ += R"({"k":"metric","n":"loss","r":)" + own + R"(,"v":)" + number() + "}";
  } else if (chance <= 71) {
    const std::string above = children_ > 0 && random.percent(60) ? child(random) : "";
    children_ = std::min(children_ + 1, kChildrenMax);
    text_ += R"({"k":"child","r":)" + child(random) + R"(,"n":"child")" +
             (above.empty() ? "" : R"(,"p":)" + above) + "}";
  } else if (chance <= 83) {
    text_ += R"({"k":"metric","n":"child","r":)" + child(random) + R"(,"v":)" + number() + "}";
  } else if (chance <= 88) {
    // One in a while says what is no end.
    const char* const statuses[] = {"Completed", "Failed", "Running", "Gone"};
    const auto chosen = static_cast<size_t>(random.between(0, 3));
    // Of itself it never says that it failed: the rules for retries go by how processes end.
    const bool of_child = chosen == 1 || random.percent(80);
    text_ += R"({"k":"end","r":)" + (of_child ? child(random) : own) + R"(,"v":)" +
             in_quotes(statuses[chosen]) + "}";
  } else if (chance <= 95) {
    add_label(random);
  } else if (chance <= 97) {
    text_ +=
        R"({"k":"metric","n":"loss","r":)" + in_quotes(kStranger) + R"(,"v":)" + number() + "}";
  } else {
    text_ += random.percent(50) ? "no record" : "";
  }
}

void Scribe::add_label(Random& random) {
  const char* const kinds[] = {"tag", "property", "param"};
  const std::string kind = kinds[random.between(0, 2)];
  const std::string key = "key-" + std::to_string(random.between(0, 1));
  text_ +=
      R"({"k":)" + in_quotes(kind) + R"(,"n":)" + in_quotes(key) + R"(,"v":)" + in_quotes(number());
  if (const int64_t whose = random.between(1, 3); whose > 1) {
    text_ += R"(,"r":)" + (whose == 2 ? in_quotes(attempt_.run.value) : child(random));
  }
  text_ += "}";
}

// Another attempt of the run tells of the same ones again.
std::string Scribe::child(Random& random) {
  const int64_t which = random.between(1, std::max(children_, 1));
  return in_quotes(attempt_.run.value + "-c" + std::to_string(rank_) + std::to_string(which));
}

// No two writers tell of the same one.
std::string Scribe::number() {
  return std::to_string((attempt_.number * 100 + rank_) * int64_t{1'000'000} + points_++);
}

Scribe::Piece Scribe::cut(Random& random, SteadyTime now, bool calm) {
  next_send_ = now + kSendAgain;
  int64_t from = acknowledged_;
  int64_t to = size();
  if (!calm) {
    const int64_t chance = random.between(1, 100);
    if (chance <= 15) from = random.between(0, acknowledged_);
    if (chance > 95) from = random.between(acknowledged_, size());
    if (random.percent(30)) to = random.between(from, size());
  }
  return {from, text_.substr(static_cast<size_t>(from), static_cast<size_t>(to - from))};
}

}  // namespace trainyard::sim
