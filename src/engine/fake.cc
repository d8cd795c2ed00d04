#include "engine/fake.h"

namespace trainyard::engine {

Status FakeEngine::place(const Assignment& assignment) {
  {
    std::lock_guard lock(mutex_);
    if (placed_.contains(assignment.id())) return {};
    if (!faults_.empty()) {
      const Fault fault = faults_.front();
      faults_.pop_front();
      if (fault == Fault::dropped) return {};
      return fail(ErrorKind::unavailable, "start a supervisor: no process is to be had");
    }
    placed_[assignment.id()] = {assignment};
  }
  if (hooks_.placed) hooks_.placed(assignment);
  return {};
}

Status FakeEngine::recover(const AttemptId& attempt) {
  {
    std::lock_guard lock(mutex_);
    const auto found = placed_.find(attempt);
    if (found == placed_.end()) {
      return fail(ErrorKind::not_found, "attempt " + attempt.str() + " was never placed here");
    }
    if (found->second.live) return {};
  }
  if (!hooks_.revived || !hooks_.revived(attempt)) return {};
  std::lock_guard lock(mutex_);
  placed_.at(attempt).live = true;
  return {};
}

Placement FakeEngine::inspect(const AttemptId& attempt) {
  std::lock_guard lock(mutex_);
  const auto found = placed_.find(attempt);
  if (found == placed_.end()) return Placement::unknown;
  return found->second.live ? Placement::live : Placement::gone;
}

Status FakeEngine::kill(const AttemptId& attempt) {
  if (inspect(attempt) != Placement::live) return {};
  if (hooks_.killed) hooks_.killed(attempt);
  end(attempt, "killed");
  return {};
}

Status FakeEngine::release(const AttemptId& attempt) {
  std::lock_guard lock(mutex_);
  const auto found = placed_.find(attempt);
  if (found == placed_.end()) return {};
  if (found->second.live) {
    return fail(ErrorKind::conflict, "attempt " + attempt.str() + " has a supervisor still");
  }
  placed_.erase(found);
  return {};
}

void FakeEngine::on_gone(Gone gone) {
  std::lock_guard lock(mutex_);
  gone_ = std::move(gone);
}

void FakeEngine::fail_next_place(Fault fault) {
  std::lock_guard lock(mutex_);
  faults_.push_back(fault);
}

void FakeEngine::end(const AttemptId& attempt, const std::string& why, Tell told) {
  {
    std::lock_guard lock(mutex_);
    const auto found = placed_.find(attempt);
    if (found == placed_.end() || !found->second.live) return;
    found->second.live = false;
  }
  if (told == Tell::yes) tell(attempt, Going{.why = why});
}

void FakeEngine::tell(const AttemptId& attempt, const Going& going) {
  Gone gone;
  {
    std::lock_guard lock(mutex_);
    gone = gone_;
  }
  if (gone) gone(attempt, going);
}

void FakeEngine::set_waiting(std::string why) {
  std::lock_guard lock(mutex_);
  waiting_ = std::move(why);
}

std::string FakeEngine::waits_for(const AttemptId&) {
  std::lock_guard lock(mutex_);
  return waiting_;
}

std::vector<AttemptId> FakeEngine::live() {
  std::lock_guard lock(mutex_);
  std::vector<AttemptId> live;
  for (const auto& [attempt, placed] : placed_) {
    if (placed.live) live.push_back(attempt);
  }
  return live;
}

std::vector<AttemptId> FakeEngine::unreleased() {
  std::lock_guard lock(mutex_);
  std::vector<AttemptId> attempts;
  for (const auto& [attempt, placed] : placed_) attempts.push_back(attempt);
  return attempts;
}

std::optional<Assignment> FakeEngine::assignment(const AttemptId& attempt) {
  std::lock_guard lock(mutex_);
  const auto found = placed_.find(attempt);
  if (found == placed_.end()) return std::nullopt;
  return found->second.assignment;
}

}  // namespace trainyard::engine
