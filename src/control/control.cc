#include "control/control.h"

#include <algorithm>
#include <map>
#include <thread>

#include "control/all_runs.h"
#include "store/attempt_nodes.h"
#include "store/run_queries.h"

namespace trainyard::control {

std::unique_ptr<Control> Control::create(Parts parts) {
  return std::make_unique<AllRuns>(std::move(parts));
}

AllRuns::AllRuns(Parts parts) : parts_(std::move(parts)) {
  // Not owned: it is the caller's.
  add_target(std::string(kLocalQueue),
             std::shared_ptr<engine::Engine>(std::shared_ptr<void>(), &parts_.engine));
}

AllRuns::~AllRuns() {
  engines_.with([](const auto& engines) {
    for (const auto& [queue, engine] : engines) {
      engine->on_gone([](const AttemptId&, const engine::Engine::Going&) {});
    }
  });
}

Result<Run> AllRuns::run(const RunId& id) {
  Run found;
  const auto look = [&](db::Db& db) -> Status {
    TRY_SET(found, store::load_run(db, id, store::Detail::whole));
    return add_reasons(db, {&found});
  };
  TRY(parts_.store.read(look));
  return found;
}

Result<std::vector<Run>> AllRuns::runs(const store::RunFilter& filter, store::ReadKind kind) {
  std::vector<Run> found;
  const auto look = [&](db::Db& db) -> Status {
    TRY_SET(found, store::list_runs(db, filter));
    std::vector<Run*> pointers;
    for (Run& run : found) pointers.push_back(&run);
    return add_reasons(db, std::move(pointers));
  };
  TRY(parts_.store.read(look, kind));
  return found;
}

Control::Load AllRuns::load(std::string_view queue) {
  return ledger_.with([&](Ledger& ledger) {
    const Ledger::Account& target = ledger.account(queue);
    return Load{.capacity = target.capacity,
                .cpus_used = target.cpus_used,
                .memory_used_bytes = target.memory_used,
                .gpus_free = static_cast<int64_t>(target.gpus_free()),
                .queued = target.queued,
                .live = target.live};
  });
}

void AllRuns::add_target(const std::string& queue, std::shared_ptr<engine::Engine> engine) {
  engine->on_gone([bell = bell_](const AttemptId& attempt, const engine::Engine::Going& going) {
    bell->note_gone(attempt, going);
  });
  ledger_.with([&](Ledger& ledger) { ledger.open(queue, engine->capacity()); });
  engines_.with([&](auto& engines) { engines[queue] = std::move(engine); });
  bell_->ring();
}

void AllRuns::remove_target(std::string_view queue) {
  engines_.with([&](auto& engines) {
    const auto found = engines.find(queue);
    if (found != engines.end()) engines.erase(found);
  });
}

void AllRuns::pause_target(std::string_view queue, bool paused) {
  ledger_.with([&](Ledger& ledger) { ledger.account(queue).paused = paused; });
  bell_->ring();
}

std::shared_ptr<engine::Engine> AllRuns::engine_of(std::string_view queue) {
  return engines_.with([&](const auto& engines) {
    const auto found = engines.find(queue);
    return found != engines.end() ? found->second : nullptr;
  });
}

std::vector<std::string> AllRuns::open_queues() {
  return engines_.with([](const auto& engines) {
    std::vector<std::string> queues;
    for (const auto& [queue, engine] : engines) queues.push_back(queue);
    return queues;
  });
}

void AllRuns::run(std::stop_token stop) {
  // Removing a large working copy takes its time; nobody is to wait for their place meanwhile.
  clears_apart_ = true;
  const std::jthread clearing([this](const std::stop_token& ended) {
    while (!ended.stop_requested()) {
      clearing_bell_.wait(kReleaseAgain, ended);
      release_ended();
    }
  });
  while (!stop.stop_requested()) {
    const SteadyTime next = tick();
    const microseconds pause = next - parts_.clock.steady();
    if (pause > microseconds(0)) bell_->wait(pause, stop);
  }
  clears_apart_ = false;
}

void AllRuns::settle(const Applied& applied) {
  if (applied.has(RunAction::release)) {
    if (const auto engine = engine_of(applied.queue)) engine->vacate(applied.attempt);
    ledger_.with([&](Ledger& ledger) { ledger.give_back(applied.attempt); });
    leaving_.with([&](auto& leaving) {
      leaving.push_back({applied.attempt, applied.queue, parts_.clock.steady()});
    });
  }
  if (applied.has(RunAction::requeue)) {
    ledger_.with([&](Ledger& ledger) { ++ledger.account(applied.queue).queued; });
  }
  if (applied.has(RunAction::release) || applied.has(RunAction::requeue)) bell_->ring();
  if (!parts_.changed) return;
  parts_.changed(applied.attempt.run);
  for (const RunId& child : applied.children) parts_.changed(child);
}

QueueView AllRuns::queue_view(std::string_view queue, int64_t position) {
  const bool disk_full = !parts_.store.check_space();
  return ledger_.with([&](Ledger& ledger) {
    const Ledger::Account& target = ledger.account(queue);
    return QueueView{.capacity = target.capacity,
                     .cpus_used = target.cpus_used,
                     .memory_used_bytes = target.memory_used,
                     .gpus_free = target.gpus_free(),
                     .slots_free = target.slots_free(),
                     .position = position,
                     .paused = target.paused,
                     .disk_full = disk_full};
  });
}

// A run's place in the queue is counted by walking an index; of a page of queued runs only the
// first of each priority is, and the others follow it: what lies between two of them that the page
// leaves out is counted too.
Status AllRuns::add_reasons(db::Db& db, std::vector<Run*> runs) {
  std::sort(runs.begin(), runs.end(), [](Run* a, Run* b) { return a->number < b->number; });
  struct Counted {
    int64_t number = 0;
    int64_t position = 0;
  };
  std::map<std::pair<std::string, Priority>, Counted> counted;
  for (Run* run : runs) {
    if (run->life.status != RunStatus::queued) {
      run->reason = reason_of(*run);
      if (!is_final(run->life.status)) add_engine_reason(*run);
      if (run->life.status == RunStatus::preparing && run->spec.nodes > 1) {
        TRY_SET(const auto parts,
                store::attempt_nodes(db, run->number, run->life.attempt, run->spec.nodes));
        if (const std::string text = barrier_text(parts); !text.empty()) run->reason = text;
      }
      if (run->life.status == RunStatus::preparing && parts_.environment_words) {
        const std::string text = parts_.environment_words(run->spec.environment);
        if (!text.empty()) run->reason = text;
      }
      continue;
    }
    if (!run->held.empty()) {
      run->reason = held_reason(run->spec.environment);
      continue;
    }
    const std::string queue = queue_of(run->spec);
    Counted& last = counted[{queue, run->spec.priority}];
    if (last.position == 0) {
      TRY_SET(const int64_t before,
              store::count_queued_before(db, queue, run->spec.priority, run->number));
      last.position = before + 1;
    } else {
      TRY_SET(const int64_t between,
              store::count_queued_between(db, queue, run->spec.priority, last.number, run->number));
      last.position += between + 1;
    }
    last.number = run->number;
    run->reason =
        queued_reason(run->spec.resources, queue_view(queue, last.position), run->spec.nodes);
  }
  return {};
}

// What it waits for there, where the engine knows.
void AllRuns::add_engine_reason(Run& run) {
  const std::shared_ptr<engine::Engine> engine = engine_of(queue_of(run.spec));
  if (!engine) return;
  const std::string waits = run.life.status == RunStatus::provisioning
                                ? engine->waits_for({run.id, run.life.attempt})
                                : engine->absence_words();
  if (!waits.empty()) run.reason = waits;
}

}  // namespace trainyard::control
