#include "engine/joined.h"

#include <algorithm>
#include <utility>

namespace trainyard::engine {
namespace {

constexpr size_t kSessionsMax = 1000;  // To know again.

std::string counted(int64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

// "50 seconds", "3 minutes", "2 hours".
std::string in_words(microseconds time) {
  const int64_t all = time / seconds(1);
  if (all < 120) return counted(all, "second");
  return all < 7200 ? counted(all / 60, "minute") : counted(all / 3600, "hour");
}

}  // namespace

// Versions go on where those of an earlier server cannot be: by its clock, in microseconds.
Joined::Joined(JoinedOptions options)
    : options_(std::move(options)),
      facts_(options_.facts),
      version_(options_.clock.wall().time_since_epoch().count()),
      heard_(options_.clock.steady()) {}

Capacity Joined::capacity() const {
  std::lock_guard lock(mutex_);
  return {.cpus = facts_.cpus,
          .memory_bytes = facts_.memory_bytes,
          .gpus = facts_.gpus,
          .pythons = facts_.pythons};
}

Status Joined::place(const Assignment& assignment) {
  {
    std::lock_guard lock(mutex_);
    const auto [at, fresh] = placed_.try_emplace(assignment.id());
    if (!fresh) return {};
    at->second.assignment = assignment;
    ++version_;
  }
  bump();
  return {};
}

// The machine holds it, or was never told: its next report says which.
Status Joined::recover(const AttemptId& attempt) {
  {
    std::lock_guard lock(mutex_);
    if (!placed_.try_emplace(attempt).second) return {};
    ++version_;
  }
  bump();
  return {};
}

Placement Joined::inspect(const AttemptId& attempt) {
  std::lock_guard lock(mutex_);
  const auto found = placed_.find(attempt);
  if (found == placed_.end()) return Placement::unknown;
  return found->second.live ? Placement::live : Placement::gone;
}

std::string Joined::waits_for(const AttemptId&) { return absence_words(); }

std::string Joined::absence_words() {
  const std::optional<microseconds> silent = absence();
  if (!silent) return {};
  return "machine " + options_.name + " was not heard of for " + in_words(*silent);
}

Status Joined::kill(const AttemptId& attempt) {
  {
    std::lock_guard lock(mutex_);
    const auto found = placed_.find(attempt);
    if (found == placed_.end() || !found->second.live) return {};
    if (!found->second.kill) ++version_;
    found->second.kill = true;
  }
  bump();
  return fail(ErrorKind::unavailable, "machine " + options_.name + " was told to kill it");
}

Status Joined::release(const AttemptId& attempt) {
  {
    std::lock_guard lock(mutex_);
    if (placed_.erase(attempt) == 0) return {};
    ++version_;
  }
  bump();
  return {};
}

void Joined::on_gone(Gone gone) {
  std::lock_guard lock(gone_mutex_);
  gone_ = std::move(gone);
}

Joined::Taken Joined::take(const MachineReport& report) {
  std::map<AttemptId, const HeldAttempt*> held;
  for (const HeldAttempt& one : report.held) held.emplace(one.id, &one);
  Told told;
  bool changed = false;
  {
    std::lock_guard lock(mutex_);
    if (overtaken(report)) return Taken::stale;
    heard_ = options_.clock.steady();
    changed = facts_ != report.facts;
    facts_ = report.facts;
    for (auto& [attempt, placed] : placed_) {
      const auto found = held.find(attempt);
      if (found == held.end()) {
        if (placed.assignment) continue;  // Not told yet.
        note(attempt, placed, {"machine " + options_.name + " has nothing of it"}, told);
        continue;
      }
      placed.assignment.reset();
      if (!found->second->live) note(attempt, placed, {found->second->why}, told);
    }
  }
  tell(told);
  return changed ? Taken::changed : Taken::same;
}

// A request that waited here is looked at again when there are new orders; its machine may have
// asked anew meanwhile, and hold more than it says.
bool Joined::overtaken(const MachineReport& report) {
  if (past_.contains(report.session)) return true;
  if (report.session != session_) {
    if (past_.size() >= kSessionsMax) past_.clear();
    past_.insert(std::exchange(session_, report.session));
    number_ = 0;
  }
  if (report.number < number_) return true;
  number_ = report.number;
  return false;
}

std::optional<MachineOrders> Joined::orders(const MachineReport& report) {
  std::set<AttemptId> held;
  for (const HeldAttempt& one : report.held) held.insert(one.id);
  std::lock_guard lock(mutex_);
  if (report.seen == version_) return std::nullopt;
  MachineOrders orders{.version = version_};
  for (const auto& [attempt, placed] : placed_) {
    orders.keep.push_back(attempt);
    if (placed.kill && placed.live) orders.kill.push_back(attempt);
    if (placed.assignment && placed.live && !held.contains(attempt)) {
      orders.start.push_back(*placed.assignment);
    }
  }
  return orders;
}

MachineOrders Joined::orders() {
  std::lock_guard lock(mutex_);
  MachineOrders orders{.version = version_};
  for (const auto& [attempt, placed] : placed_) orders.keep.push_back(attempt);
  return orders;
}

std::optional<microseconds> Joined::silence() {
  std::lock_guard lock(mutex_);
  if (session_.empty()) return std::nullopt;
  return options_.clock.steady() - heard_;
}

std::optional<microseconds> Joined::absence() {
  std::lock_guard lock(mutex_);
  const microseconds silent = options_.clock.steady() - heard_;
  if (silent < options_.away) return std::nullopt;
  return silent;
}

void Joined::abandon(const std::string& why) {
  Told told;
  {
    std::lock_guard lock(mutex_);
    for (auto& [attempt, placed] : placed_) {
      note(attempt, placed, {.why = why, .refused = true}, told);
    }
  }
  tell(told);
}

void Joined::note(const AttemptId& attempt, Placed& placed, Going going, Told& told) {
  if (!placed.live) return;
  placed.live = false;
  told.emplace_back(attempt, std::move(going));
}

void Joined::tell(const Told& told) {
  if (told.empty()) return;
  std::lock_guard lock(gone_mutex_);
  for (const auto& [attempt, going] : told) {
    if (gone_) gone_(attempt, going);
  }
}

void Joined::bump() {
  if (options_.changed) options_.changed();
}

}  // namespace trainyard::engine
