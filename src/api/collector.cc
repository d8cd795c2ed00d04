#include "api/collector.h"

#include "api/collector_pass.h"

namespace trainyard::api {
namespace {

constexpr seconds kClockStep{300};  // A larger step of the machine's clock is distrusted.

}  // namespace

Collector::Collector(House& house, const CollectorOptions& options)
    : house_(house), options_(options) {}

Collector::~Collector() { stop(); }

void Collector::start() {
  // The first look at the clock: what is set from now on is noticed.
  if (const auto file_now = house_.blobs.file_time()) {
    static_cast<void>(check_clock(*file_now).has_value());
  }
  // What a killed server left of a purge.
  purge_soon();
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

void Collector::stop() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  {
    std::lock_guard lock(mutex_);
    current_.request_stop();
  }
  thread_.join();
}

Status Collector::begin(Mode mode) {
  std::lock_guard lock(mutex_);
  const bool busy = wanted_ || progress_.with([](Progress& now) { return now.running; });
  if (busy) return fail(ErrorKind::conflict, "a collection is under way");
  if (purging_) {
    current_.request_stop();  // The collection removes those rows too.
  } else if (std::unique_lock upkeep(house_.upkeep, std::try_to_lock); !upkeep) {
    return fail(ErrorKind::conflict, "a backup or a check is under way");
  }
  progress_.with([&](Progress& now) {
    now = Progress{.running = true, .asked = true, .mode = mode, .phase = "starting"};
  });
  wanted_ = mode;
  rung_.notify_all();
  return {};
}

void Collector::purge_soon() {
  std::lock_guard lock(mutex_);
  purge_at_ = house_.clock.steady();
  rung_.notify_all();
}

Json Collector::state() {
  return progress_.with([](Progress& now) {
    Json json = {{"running", now.running}, {"dryRun", now.mode == Mode::dry_run},
                 {"phase", now.phase},     {"looked", now.looked},
                 {"removed", now.removed}, {"bytes", now.bytes},
                 {"report", now.report}};
    json["error"] = now.error ? wire::error_to_json(*now.error)["error"] : Json();
    return json;
  });
}

bool Collector::interrupt() {
  std::lock_guard lock(mutex_);
  const bool ours =
      purging_ || progress_.with([](Progress& now) { return now.running && !now.asked; });
  if (ours) current_.request_stop();
  return ours;
}

void Collector::run(const std::stop_token& stop) {
  SteadyTime next = house_.clock.steady() + options_.first;
  while (true) {
    std::stop_token current;
    Mode mode = Mode::remove;
    {
      std::unique_lock lock(mutex_);
      const auto purge_due = [&] { return purge_at_ && *purge_at_ <= house_.clock.steady(); };
      const auto rung = [&] { return wanted_.has_value() || purge_due(); };
      SteadyTime until = options_.every == seconds(0) ? SteadyTime::max() : next;
      if (purge_at_) until = std::min(until, *purge_at_);
      if (until == SteadyTime::max()) {
        rung_.wait(lock, stop, [&] { return wanted_.has_value() || purge_at_.has_value(); });
      } else {
        rung_.wait_for(lock, stop, until - house_.clock.steady(), rung);
      }
      if (stop.stop_requested()) return;
      if (!wanted_ && purge_due()) {
        purge_at_.reset();
        purging_ = true;
        current_ = std::stop_source();
        current = current_.get_token();
        lock.unlock();
        const bool done = purge_once(current);
        lock.lock();
        purging_ = false;
        if (!done) purge_at_ = house_.clock.steady() + options_.busy_retry;
        continue;
      }
      const bool due = options_.every > seconds(0) && next <= house_.clock.steady();
      if (!wanted_ && !due) continue;
      mode = wanted_.value_or(Mode::remove);
      const bool asked = wanted_.has_value();
      progress_.with([&](Progress& now) {
        now = Progress{.running = true, .asked = asked, .mode = mode, .phase = "starting"};
      });
      wanted_.reset();
      current_ = std::stop_source();
      current = current_.get_token();
    }
    run_once(mode, current);
    next = house_.clock.steady() + options_.every;
  }
}

// False: a backup or a check goes first.
bool Collector::purge_once(const std::stop_token& stop) {
  const std::unique_lock upkeep(house_.upkeep, std::try_to_lock);
  if (!upkeep) return false;
  const Status purged = Pass(*this, Mode::remove, stop).purge();
  if (purged) return true;
  if (purged.error().kind == ErrorKind::cancelled) return false;
  house_.log.warn("deleted runs not removed", {{"error", purged.error().message}});
  return true;
}

void Collector::run_once(Mode mode, const std::stop_token& stop) {
  Result<Json> report = [&]() -> Result<Json> {
    // A backup or a check that is under way goes first.
    std::unique_lock upkeep(house_.upkeep, std::defer_lock);
    while (!upkeep.try_lock()) {
      const SteadyTime again = house_.clock.steady() + options_.busy_retry;
      if (house_.clock.sleep_until(again, stop)) return collection_stopped();
    }
    return collect(mode, stop);
  }();
  if (!report && report.error().kind != ErrorKind::cancelled) {
    house_.log.warn("garbage not collected", {{"error", report.error().message}});
  }
  progress_.with([&](Progress& now) {
    now.running = false;
    now.phase = "done";
    if (report) {
      now.report = *std::move(report);
    } else {
      now.error = report.error();
    }
  });
}

// Ages of files are differences of the machine's clock. When that was set meanwhile, what was
// written a minute ago may look a year old.
Status Collector::check_clock(WallTime file_now) {
  const SteadyTime now = house_.clock.steady();
  const microseconds offset = file_now.time_since_epoch() - now.time_since_epoch();
  const bool set = clock_offset_ &&
                   (offset > *clock_offset_ + kClockStep || offset < *clock_offset_ - kClockStep);
  clock_offset_ = offset;
  if (set) distrust_until_ = now + options_.grace;
  if (now >= distrust_until_) return {};
  return fail(ErrorKind::unavailable,
              "the machine's clock was set while the server ran, so ages of files are not known",
              "Nothing is removed until " +
                  format_time(house_.clock.wall() + (distrust_until_ - now)) + ".");
}

Result<Json> Collector::collect(Mode mode, const std::stop_token& stop) {
  return Pass(*this, mode, stop).run();
}

}  // namespace trainyard::api
