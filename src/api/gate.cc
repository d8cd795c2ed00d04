#include "api/gate.h"

#include <algorithm>

#include "api/run_files.h"

namespace trainyard::api {
namespace {

// Asked for this often at least, a build is not given up (Environments).
constexpr seconds kGateRound{10};
// A build prints line by line; each run has a file of its own for them.
constexpr milliseconds kGateApart{100};
constexpr int kGateRest = 4;  // Times as long as the round took, where that is more.

// As a supervisor tells it.
std::string gate_words(const Error& error) {
  if (error.kind == ErrorKind::no_space) return "no space left on device: " + error.message;
  return "environment: " + told(error);
}

}  // namespace

void Gate::start() {
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

void Gate::stop() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
}

void Gate::add() {
  {
    std::lock_guard lock(mutex_);
    busy_ = ringing_ = true;
  }
  rung_.notify_one();
}

void Gate::changed() {
  if (busy_) add();
}

void Gate::run(const std::stop_token& stop) {
  const MonotoneClock clock;
  while (!stop.stop_requested()) {
    const SteadyTime begun = clock.steady();
    busy_ = true;
    const Result<bool> any = round();
    if (!any) parts_.log.error("held runs not seen", {{"error", any.error().message}});
    const microseconds took = clock.steady() - begun;
    std::unique_lock lock(mutex_);
    busy_ = any.value_or(true) || ringing_;
    rung_.wait_for(lock, stop, std::max<microseconds>(kGateApart, took * kGateRest),
                   [] { return false; });
    rung_.wait_for(lock, stop, kGateRound, [&] { return ringing_; });
    ringing_ = false;
  }
}

Result<bool> Gate::round() {
  std::map<std::string, std::vector<RunId>> held;
  const auto look = [&](db::Db& db) -> Status {
    TRY_SET(const std::vector<store::HeldRun> runs, store::held_runs(db));
    for (const store::HeldRun& run : runs) held[run.environment].push_back(run.id);
    return {};
  };
  TRY(parts_.store.read(look));
  for (const auto& [hash, runs] : held) look_after(hash, runs);
  // What is not held any more is forgotten.
  std::map<RunId, Sent> sent;
  for (const auto& [hash, runs] : held) {
    for (const RunId& run : runs) {
      const auto known = sent_.find(run);
      if (known != sent_.end()) sent.insert(*known);
    }
  }
  sent_ = std::move(sent);
  return !held.empty();
}

void Gate::look_after(const std::string& hash, const std::vector<RunId>& runs) {
  uint64_t from = UINT64_MAX;
  for (const RunId& run : runs) from = std::min(from, sent_[run].bytes);
  Result<Environments::Stand> found = stand(runs.front(), from);
  const auto is_new = [&](const RunId& run) { return sent_[run].build != found->build; };
  if (found && from > 0 && std::ranges::any_of(runs, is_new)) {
    from = 0;  // Another build than the one before: its log begins anew.
    found = stand(runs.front(), from);
  }
  // A disk or a database that does not answer now is no word about the build.
  if (!found &&
      (found.error().kind == ErrorKind::unavailable || found.error().kind == ErrorKind::internal)) {
    parts_.log.error("held runs not looked after",
                     {{"environment", hash}, {"error", found.error().message}});
    return;
  }
  if (found) send_log(*found, from, runs);
  if (found && found->is == Environments::Stand::Is::building) return;
  const bool ready = found && found->is == Environments::Stand::Is::ready;
  const Error error = found ? found->error : found.error();
  // Given up; the next round has it made.
  if (!ready && error.kind == ErrorKind::cancelled) return;
  if (!ready) keep_logs(runs);
  const Status done =
      ready ? parts_.control.let_go(runs) : parts_.control.fail_held(runs, gate_words(error));
  if (done) return;
  parts_.log.error("held runs not told", {{"environment", hash}, {"error", done.error().message}});
}

// As the first of them asks for it.
Result<Environments::Stand> Gate::stand(const RunId& first, uint64_t log_from) {
  TRY_SET(const Run run, parts_.store.run(first));
  Environments::Wanted wanted{.environment = run.spec.environment,
                              .workspace = run.spec.workspace,
                              .user = run.user,
                              .need = Environments::Need::tree,
                              .for_run = true,
                              .log_from = log_from};
  TRY_SET(Environments::Stand stand, parts_.environments.stand(wanted));
  const bool given_up =
      stand.is == Environments::Stand::Is::failed && stand.error.kind == ErrorKind::cancelled;
  if (!given_up) return stand;
  wanted.begins = true;
  return parts_.environments.stand(wanted);
}

void Gate::send_log(const Environments::Stand& stand, uint64_t from,
                    const std::vector<RunId>& runs) {
  if (stand.build == 0) return;
  for (const RunId& run : runs) {
    Sent& sent = sent_[run];
    if (sent.build != stand.build) sent = {.build = stand.build};
    if (sent.bytes < from || sent.bytes >= stand.log_next) continue;
    const Status kept = send(run, sent, std::string_view(stand.log).substr(sent.bytes - from));
    if (!kept) {
      parts_.log.warn("log of an environment not kept",
                      {{"run", run.value}, {"error", kept.error().message}});
      continue;
    }
    sent.bytes = stand.log_next;
    if (parts_.printed) parts_.printed(run);
  }
}

// On the disk before the word that they are over. A disk that cannot must not keep them from it.
void Gate::keep_logs(const std::vector<RunId>& runs) {
  for (const RunId& run : runs) {
    if (const Status kept = parts_.logs.seal(run); !kept) {
      parts_.log.warn("not synced", {{"run", run.value}, {"error", kept.error().message}});
    }
  }
}

Status Gate::send(const RunId& run, const Sent& sent, std::string_view bytes) {
  TRY_SET(const store::Store::RunFile file, parts_.store.file(run, kBuildLog));
  // Of an earlier build something may be there.
  const auto reset = sent.bytes == 0 ? logs::LogStore::Reset::yes : logs::LogStore::Reset::no;
  TRY(parts_.logs.append_file(run, file.number, sent.bytes, bytes, reset));
  return {};
}

}  // namespace trainyard::api
