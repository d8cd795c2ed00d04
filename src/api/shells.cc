#include "api/shells.h"

#include <algorithm>

namespace trainyard::api {
namespace {

constexpr size_t kWorkersMax = 64;

}  // namespace

void Shells::close() {
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
    waiting_.clear();
    for (Worker& worker : workers_) worker.thread.request_stop();
  }
  // Nobody adds one any more.
  for (Worker& worker : workers_) {
    if (worker.thread.joinable()) worker.thread.join();
  }
}

void Shells::start(const std::shared_ptr<engine::NodeShell>& shell, const std::string& place,
                   const std::vector<Job>& jobs) {
  std::lock_guard lock(mutex_);
  if (closed_) return;
  for (const Job& job : jobs) waiting_.push_back({shell, place, job});
  add_workers();
}

void Shells::add_workers() {
  std::erase_if(workers_, [](const Worker& worker) { return worker.over; });
  const size_t working = workers_.size();
  size_t wanted = std::min(kWorkersMax, working + waiting_.size());
  for (; wanted > working; --wanted) {
    Worker& worker = workers_.emplace_back();
    worker.thread =
        std::jthread([this, &worker](std::stop_token stop) { work(worker, std::move(stop)); });
  }
}

// With the lock: the first whose cluster has room.
std::optional<Shells::Turn> Shells::next() {
  const auto found = std::ranges::find_if(waiting_, [&](const Turn& turn) {
    const auto busy = busy_.find(turn.shell.get());
    return busy == busy_.end() || busy->second < turn.shell->at_once();
  });
  if (found == waiting_.end()) return std::nullopt;
  Turn turn = std::move(*found);
  waiting_.erase(found);
  ++busy_[turn.shell.get()];
  return turn;
}

void Shells::work(Worker& me, std::stop_token stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    const std::optional<Turn> turn = next();
    if (!turn) break;  // Whoever ends one looks for the next.
    lock.unlock();
    run(*turn, stop);
    lock.lock();
    if (--busy_[turn->shell.get()] == 0) busy_.erase(turn->shell.get());
  }
  me.over = true;
}

void Shells::run(const Turn& turn, std::stop_token stop) {
  const std::string& id = turn.job.exec;
  uint64_t sent = 0;
  const auto end = [&](int code, std::optional<Error> error) {
    // Forgotten meanwhile: nobody asks.
    [[maybe_unused]] const Status ended =
        execs_.end(id, turn.place, code, clock_.steady(), std::move(error));
    told_(id);
  };
  const Result<Execs::Wanted> wanted = execs_.take(id, turn.place);
  if (!wanted) return;
  if (execs_.stopped(id)) return end(1, std::nullopt);
  const Result<engine::NodeShell::Ended> ended =
      turn.shell->run({.node = turn.job.node,
                       .command = wanted->command,
                       .timeout = seconds(wanted->timeout_s),
                       .wait = turn.job.wait,
                       .print =
                           [&](std::string_view bytes) {
                             [[maybe_unused]] const Result<uint64_t> kept =
                                 execs_.append(id, turn.place, sent, bytes, clock_.steady());
                             sent += bytes.size();
                             told_(id);
                           },
                       .wanted = [&] { return !stop.stop_requested() && !execs_.stopped(id); }});
  if (!ended) return end(0, ended.error());
  if (ended->words.empty()) return end(ended->code, std::nullopt);
  end(ended->code, Error{ErrorKind::unavailable, ended->words, {}});
}

}  // namespace trainyard::api
