#include "control/insert.h"

#include "store/labels.h"
#include "store/run_queries.h"
#include "store/secrets.h"
#include "store/workspaces.h"

namespace trainyard::control {
namespace {

// A run's parent is of its own workspace: who may read one may read the other. An interactive child
// ends with its parent at the latest, so there is none of one that is over.
Result<std::optional<int64_t>> find_parent(db::Db& db, const RunSpec& spec, int64_t workspace) {
  if (spec.parent.empty()) return std::optional<int64_t>();
  TRY_SET(const store::RunHead parent, store::run_head(db, RunId{spec.parent}));
  // `load_run` says how to restore one that was deleted.
  TRY(store::load_run(db, RunId{spec.parent}, store::Detail::brief));
  if (parent.workspace_id != workspace) {
    return fail(ErrorKind::invalid, "the parent " + spec.parent + " is of another workspace");
  }
  if (spec.interactive && is_final(parent.life.status)) {
    return fail(ErrorKind::conflict, "the parent " + spec.parent +
                                         " is over: " + std::string(to_string(parent.life.status)));
  }
  return std::optional<int64_t>(parent.number);
}

}  // namespace

Result<Added> insert(db::Transaction& transaction, const Insertion& insertion) {
  const RunSpec& spec = insertion.submission.spec;
  const WallTime now = insertion.now;
  TRY_SET(const Workspace workspace, store::load_workspace(transaction.db(), spec.workspace));
  TRY_SET(const auto parent, find_parent(transaction.db(), spec, workspace.id));
  TRY(store::check_secrets(transaction.db(), workspace.id, spec.secrets));
  TRY_SET(const int64_t experiment,
          store::get_or_create_experiment(transaction, workspace.id, spec.experiment, now));
  if (!spec.snapshot.empty()) {
    TRY(store::remember_snapshot(transaction, spec.snapshot, insertion.snapshot, now));
    TRY(store::remember_tree(transaction, workspace.id, spec.snapshot));
  }
  TRY_SET(store::RunHead head,
          store::insert_run(transaction, {.id = insertion.submission.id,
                                          .workspace_id = workspace.id,
                                          .experiment_id = experiment,
                                          .spec = spec,
                                          .spec_json = insertion.spec_json,
                                          .spec_hash = insertion.spec_hash,
                                          .user = insertion.submission.user,
                                          .created = now,
                                          .snapshot_files = insertion.snapshot.files,
                                          .snapshot_bytes = insertion.snapshot.bytes,
                                          .parent = parent,
                                          .held = insertion.held}));
  TRY(store::add_event(transaction, head, {.at = now, .kind = "submitted"}));
  const RunEvent first = spec.interactive ? RunEvent(BegunOutside{}) : RunEvent(Enqueued{});
  if (spec.interactive) head.started = now;
  Added added;
  TRY_SET(added.applied, apply(transaction, head, first, {.at = now, .text = insertion.reason}));
  // It is given a place when its environment is made: until then its time is the build's.
  const bool held = !insertion.held.empty();
  if (held) {
    TRY(store::add_event(transaction, head, {.at = now, .kind = "building"}));
    TRY(store::save_run(transaction, head));
  }
  added.run =
      Run{.id = head.id,
          .number = head.number,
          .version = head.version,
          .user = insertion.submission.user,
          .workspace_id = std::to_string(workspace.id),
          .experiment_id = std::to_string(experiment),
          .subscription_id = workspace.subscription_id,
          .resource_group = workspace.resource_group,
          .life = head.life,
          .parent = spec.parent,
          .labels = store::labels_of(spec),
          .parameters = spec.parameters,
          .held = insertion.held,
          .reason = insertion.reason,
          .created = now,
          .started = head.started,
          .events = {{1, now, 0, "submitted", ""},
                     {2, now, 0, spec.interactive ? "running" : "queued", insertion.reason}}};
  if (held) added.run.events.push_back({3, now, 0, "building", ""});
  return added;
}

}  // namespace trainyard::control
