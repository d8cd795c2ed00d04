#include "api/collector_pass.h"

// The rows of a collection: what is too old or was deleted.
namespace trainyard::api {
namespace {

constexpr int kRunsPerTake = 200;  // Of a deleted workspace, in one commit.

}  // namespace

Status Collector::Pass::expire() {
  TRY_SET(const std::vector<Workspace> workspaces, house_.store.workspaces());
  for (const Workspace& workspace : workspaces) {
    if (workspace.retention > seconds(0)) TRY(expire_in(workspace));
  }
  return {};
}

Status Collector::Pass::expire_in(const Workspace& workspace) {
  const WallTime now = house_.clock.wall();
  store::EndedRun last;
  while (true) {
    std::vector<store::EndedRun> old;
    const auto look = [&](db::Db& db) -> Status {
      TRY_SET(old, store::runs_ended_before(db, workspace.id, now - workspace.retention, last,
                                            kRunsPerRead));
      return {};
    };
    TRY(house_.store.read(look));
    if (old.empty()) return {};
    last = old.back();
    for (const store::EndedRun& run : old) {
      TRY(expire_run(run.id, now));
      if (!pace_.rest()) return collection_stopped();
    }
  }
}

Status Collector::Pass::expire_run(const RunId& run, WallTime now) {
  if (!removes()) {
    const auto look = [&](db::Db& db) -> Status {
      TRY_SET(const int64_t count, store::count_deletable(db, run));
      expired_ += count;
      return {};
    };
    return house_.store.read(look);
  }
  std::vector<RunId> hidden;
  const auto change = [&](db::Transaction& transaction) -> Status {
    TRY_SET(hidden, store::delete_run(transaction, run, now));
    return {};
  };
  const Status written = house_.store.write(Durable::no, change);
  // A child of it is not over, or it was purged meanwhile.
  const bool skipped = !written && (written.error().kind == ErrorKind::conflict ||
                                    written.error().kind == ErrorKind::not_found);
  if (skipped) return {};
  TRY(written);
  expired_ += static_cast<int64_t>(hidden.size());
  for (const RunId& each : hidden) house_.run_changed(each);
  return {};
}

Status Collector::Pass::purge() {
  if (removes()) {
    TRY(take_workspaces());
    TRY(finish_experiments());
  }
  const WallTime before = house_.clock.wall() - store::kKeepDeleted;
  int64_t below = INT64_MAX;
  while (true) {
    std::vector<store::PurgedRun> runs;
    const auto look = [&](db::Db& db) -> Status {
      TRY_SET(runs, store::runs_to_purge(db, before, below, kRunsPerRead));
      return {};
    };
    TRY(house_.store.read(look));
    if (runs.empty()) break;
    below = runs.back().number;
    for (const store::PurgedRun& run : runs) {
      if (removes()) {
        TRY(purge_rows(run, before));
      } else {
        ++purged_;
      }
      if (!pace_.rest()) return collection_stopped();
    }
  }
  if (!removes()) return {};
  const auto change = [&](db::Transaction& transaction) -> Status {
    TRY(store::purge_others(transaction, before));
    return {};
  };
  return house_.store.write(Durable::no, change);
}

// Runs of deleted workspaces are deleted by batches, so that nobody waits for 100,000 of them.
Status Collector::Pass::take_workspaces() {
  int64_t taken = 1;
  while (taken > 0) {
    const auto change = [&](db::Transaction& transaction) -> Status {
      TRY_SET(taken, store::delete_workspace_runs(transaction, kRunsPerTake));
      return {};
    };
    TRY(house_.store.write(Durable::no, change));
    if (!pace_.rest()) return collection_stopped();
  }
  return {};
}

Status Collector::Pass::finish_experiments() {
  std::vector<int64_t> experiments;
  const auto look = [&](db::Db& db) -> Status {
    TRY_SET(experiments, store::unfinished_experiments(db));
    return {};
  };
  TRY(house_.store.read(look));
  for (const int64_t experiment : experiments) {
    std::vector<RunId> hidden;
    do {
      const auto change = [&](db::Transaction& transaction) -> Status {
        TRY_SET(hidden, store::delete_experiment_runs(transaction, experiment, kRunsPerTake));
        return {};
      };
      TRY(house_.store.write(Durable::no, change));
      for (const RunId& run : hidden) house_.run_changed(run);
      if (!pace_.rest()) return collection_stopped();
    } while (!hidden.empty());
  }
  return {};
}

// The folder goes after the row: what a crash leaves of it is found without one.
Status Collector::Pass::purge_rows(const store::PurgedRun& run, WallTime before) {
  store::Purged purged = store::Purged::partly;
  while (purged == store::Purged::partly) {
    const auto change = [&](db::Transaction& transaction) -> Status {
      TRY_SET(purged, store::purge_run(transaction, run.number, before));
      return {};
    };
    TRY(house_.store.write(Durable::no, change));
    if (!pace_.rest()) return collection_stopped();
  }
  if (purged == store::Purged::kept) return {};
  ++purged_;
  if (Status removed = house_.logs.remove(run.id); !removed) {
    house_.log.warn("logs not removed",
                    {{"run", run.id.value}, {"error", removed.error().message}});
  }
  return {};
}

}  // namespace trainyard::api
