// Deletion and restoration of runs and experiments.
#include <algorithm>

#include "api/collector.h"
#include "api/links.h"
#include "api/route.h"
#include "store/deletion.h"

namespace trainyard::api {
namespace {

constexpr int kRunsPerCommit = 500;

Json deletion_to_json(const std::vector<RunId>& runs, WallTime when) {
  Json ids = Json::array();
  for (const RunId& run : runs) ids.push_back(run.value);
  const bool for_good = when == store::kDeletedForGood;
  return {{"deleted", std::move(ids)},
          {"restorableUntil", for_good ? Json() : Json(format_time(when + store::kKeepDeleted))}};
}

Status check_may_restore(const Call& call, const RunId& id) {
  store::RunAccess run;
  const auto look = [&](db::Db& db) -> Status {
    TRY_SET(run, store::run_access(db, id, call.identity.user));
    return {};
  };
  TRY(call.house.store.read(look));
  TRY(check_role_in(call.identity, run.workspace, Role::submitter));
  const bool admin = role_in(call.identity, run.workspace) == Role::admin;
  if (admin || call.identity.user == run.user) return {};
  return fail(ErrorKind::denied, "the run is " + run.user + "'s; only they or an admin change it");
}

// The run in the URL, deleted or not, if the caller may change it. A beginning of an id means a
// deleted run only where no other run has it.
Result<RunId> deleted_or_writable_run(const Call& call) {
  const std::string given(call.request.param("id"));
  TRY(check_name(given, "run id"));
  std::optional<store::DeletedRun> found;
  const auto look = [&](db::Db& db) -> Status {
    TRY_SET(found, store::find_deleted_run(db, given));
    return {};
  };
  TRY(call.house.store.read(look));
  if (!found) return writable_run(call);
  if (found->id.value != given) {
    const Result<RunId> other = call.house.store.find_run(given);
    if (other && other->value == given) return writable_run(call);
    if (other || other.error().kind != ErrorKind::not_found) {
      return fail(ErrorKind::conflict,
                  "the ids of deleted runs and of others begin with '" + given + "'",
                  "Give the whole id of the run.");
    }
  }
  TRY(check_may_restore(call, found->id));
  return found->id;
}

Result<http::Response> delete_run(const Call& call) {
  TRY_SET(const WallTime when, deletion_time(call));
  // One that is hidden already can still be deleted for good.
  TRY_SET(const RunId id,
          when == store::kDeletedForGood ? deleted_or_writable_run(call) : writable_run(call));
  std::vector<RunId> hidden;
  const auto change = [&](db::Transaction& transaction) -> Status {
    TRY_SET(hidden, store::delete_run(transaction, id, when));
    return {};
  };
  TRY(call.house.store.write(Durable::yes, change));
  for (const RunId& run : hidden) call.house.run_changed(run);
  purge_soon(call);
  return answer(deletion_to_json(hidden, when));
}

Result<http::Response> restore_run(const Call& call) {
  // One that is not deleted is as was asked for.
  TRY_SET(const RunId id, deleted_or_writable_run(call));
  std::vector<RunId> shown;
  const auto change = [&](db::Transaction& transaction) -> Status {
    TRY_SET(shown, store::restore_run(transaction, id));
    return {};
  };
  TRY(call.house.store.write(Durable::yes, change));
  for (const RunId& run : shown) call.house.run_changed(run);
  TRY_SET(const Run run, call.house.control->run(id));
  const WallTime now = call.house.clock.wall();
  return answer(wire::run_to_json(run, now, log_links(call.house, run, call.identity.user, now)));
}

// An experiment's runs, batch after batch; how many.
using Batch = std::function<Result<std::vector<RunId>>(db::Transaction&)>;
Result<int64_t> change_runs(const Call& call, const Batch& batch) {
  int64_t count = 0;
  for (std::vector<RunId> changed;; count += static_cast<int64_t>(changed.size())) {
    const auto change = [&](db::Transaction& transaction) -> Status {
      TRY_SET(changed, batch(transaction));
      return {};
    };
    TRY(call.house.store.write(Durable::yes, change));
    if (changed.empty()) return count;
    for (const RunId& run : changed) call.house.run_changed(run);
  }
}

// An experiment, and whose runs the caller may delete and restore.
struct Deletable {
  store::ExperimentRow experiment;
  std::string_view owner;  // Empty: everybody's.
};

Result<Deletable> experiment_of(const Call& call, std::string_view name) {
  if (name.empty()) return fail(ErrorKind::invalid, "name: is missing");
  Deletable found;
  const auto look = [&](db::Db& db) -> Status {
    TRY_SET(found.owner, owner_in(call, db, call.request.param("name")));
    TRY_SET(found.experiment, store::find_experiment(db, call.request.param("name"), name));
    return store::check_owner(db, found.experiment, found.owner);
  };
  TRY(call.house.store.read(look));
  return found;
}

Result<http::Response> delete_experiment(const Call& call) {
  const std::string_view name = call.request.query_or("name", "");
  TRY_SET(const WallTime asked, deletion_time(call));
  TRY_SET(const Deletable found, experiment_of(call, name));
  const store::ExperimentRow& experiment = found.experiment;
  // Deleted again, it keeps its time: its runs are restored by that.
  const WallTime when = std::min(asked, experiment.deleted.value_or(asked));
  const auto hide = [&](db::Transaction& transaction) -> Status {
    // Once more: what is in a hidden experiment is deleted, so no run may have come meanwhile.
    TRY(store::check_owner(transaction.db(), experiment, found.owner));
    TRY(store::check_over(transaction.db(), experiment));
    return store::hide_experiment(transaction, experiment.id, when);
  };
  TRY(call.house.store.write(Durable::yes, hide));
  TRY_SET(const int64_t count, change_runs(call, [&](db::Transaction& transaction) {
            return store::delete_experiment_runs(transaction, experiment.id, kRunsPerCommit);
          }));
  purge_soon(call);
  Json json = deletion_to_json({}, when);
  json["deleted"] = count;
  return answer(json);
}

Result<http::Response> restore_experiment(const Call& call) {
  TRY_SET(const Json body, body_object(call.request));
  TRY_SET(const std::string name, wire::string_member(body, "name"));
  TRY_SET(const Deletable found, experiment_of(call, name));
  const store::ExperimentRow& experiment = found.experiment;
  if (experiment.deleted == store::kDeletedForGood) {
    return fail(ErrorKind::not_found, "experiment '" + name + "' was deleted for good");
  }
  const auto show = [&](db::Transaction& transaction) -> Status {
    TRY(store::stop_deleting(transaction, experiment.id));
    return store::show_experiment(transaction, experiment.id);
  };
  TRY(call.house.store.write(Durable::yes, show));
  // Where a new run has brought it back, all that can be restored.
  TRY_SET(const int64_t count, change_runs(call, [&](db::Transaction& transaction) {
            return store::restore_experiment_runs(transaction, experiment.id, experiment.deleted,
                                                  kRunsPerCommit);
          }));
  return answer({{"restored", count}});
}

using enum http::Method;
constexpr RouteRow kDeletionRoutes[] = {
    {del, "/api/v1/runs/{id}", Needs::submitter, Attempts::refused, delete_run,
     "Deletes a run that is over and all below it; for a week, unless `now` is 1, they can be "
     "restored.",
     "now"},
    {post, "/api/v1/runs/{id}/restore", Needs::submitter, Attempts::refused, restore_run,
     "Restores a deleted run and what was deleted with it."},
    {del, "/api/v1/workspaces/{name}/experiments", Needs::submitter, Attempts::refused,
     delete_experiment, "Deletes the experiment `name` and its runs.", "name now"},
    {post, "/api/v1/workspaces/{name}/experiments/restore", Needs::submitter, Attempts::refused,
     restore_experiment, "Restores the experiment {\"name\"} and the runs deleted with it."},
};

}  // namespace

Result<WallTime> deletion_time(const Call& call) {
  TRY_SET(const int64_t now, query_number(call.request, "now", 0, {0, 1}));
  return now == 1 ? store::kDeletedForGood : call.house.clock.wall();
}

Result<std::string_view> owner_in(const Call& call, db::Db& db, std::string_view workspace) {
  TRY_SET(const store::WorkspaceAccess access,
          store::workspace_access(db, workspace, call.identity.user));
  const bool admin = role_in(call.identity, access) == Role::admin;
  return admin ? std::string_view() : std::string_view(call.identity.user);
}

void purge_soon(const Call& call) {
  if (call.house.collector != nullptr) call.house.collector->purge_soon();
}

std::span<const RouteRow> deletion_routes() { return kDeletionRoutes; }

}  // namespace trainyard::api
