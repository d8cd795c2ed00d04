#include "store/computes.h"

#include <algorithm>

#include "base/check.h"
#include "base/text.h"
#include "model/run_spec.h"
#include "model/run_state.h"
#include "store/vm_sizes.h"
#include "store/workspaces.h"

namespace trainyard::store {
namespace {

using wire::Json;

constexpr size_t kShownMax = 60;  // Of a value in a message.

// A row of: id, workspace's name, spec, paused, created_by, created.
Result<Compute> read_compute(const db::Statement& row) {
  Compute compute{.id = row.integer(0),
                  .workspace = row.text(1),
                  .spec = {},
                  .paused = row.integer(3) != 0,
                  .created_by = row.text(4),
                  .created = row.time(5)};
  TRY_SET(const Json json, wire::parse(row.text(2)));
  TRY_SET(compute.spec, wire::decode_compute_spec(json));
  return compute;
}

Result<std::vector<Compute>> read_computes(db::Statement rows) {
  std::vector<Compute> computes;
  while (true) {
    TRY_SET(const bool more, rows.next());
    if (!more) return computes;
    TRY_SET(Compute compute, read_compute(rows));
    computes.push_back(std::move(compute));
  }
}

Result<std::optional<Compute>> find_compute(db::Db& db, int64_t workspace, std::string_view name) {
  TRY_SET(db::Statement row,
          db.query("SELECT c.id, w.name, c.spec, c.paused, c.created_by, c.created "
                   "FROM computes c JOIN workspaces w ON w.id = c.workspace_id "
                   "WHERE c.workspace_id = ? AND c.name = ?",
                   {workspace, name}));
  TRY_SET(const bool any, row.next());
  if (!any) return std::optional<Compute>();
  TRY_SET(Compute compute, read_compute(row));
  return std::optional(std::move(compute));
}

std::string shown(const Json& value) {
  const std::string text = wire::dump(value);
  return text.size() > kShownMax ? "" : text;
}

// "maxNodes is 4, not 8; partition is "gpu", not """
std::string differences(const ComputeSpec& there, const ComputeSpec& asked) {
  const Json have = wire::encode(there);
  const Json want = wire::encode(asked);
  std::vector<std::string> found;
  for (const auto& [key, value] : have.items()) {
    if (value == want[key]) continue;
    const std::string is = shown(value);
    const std::string not_this = shown(want[key]);
    const bool brief = !is.empty() && !not_this.empty();
    found.push_back(brief ? key + " is " + is + ", not " + not_this : key + " is another");
  }
  return join(found, "; ");
}

Status check_runs_over(db::Db& db, const Compute& compute, std::string_view what) {
  const std::string queue = queue_of({.workspace = compute.workspace, .target = compute.spec.name});
  TRY_SET(const TargetRuns runs, count_runs_on(db, queue));
  const int64_t open = runs.queued + runs.live;
  if (open == 0) return {};
  return fail(ErrorKind::conflict,
              std::string(what) + " while " +
                  (open == 1 ? "a run is" : std::to_string(open) + " runs are") +
                  " there: " + std::to_string(runs.queued) + " queued, " +
                  std::to_string(runs.live) + " live, the oldest " + runs.first,
              "Wait for them, or cancel them with: trainyard run cancel");
}

Status check_no_machine(db::Db& db, int64_t workspace, std::string_view name) {
  TRY_SET(db::Statement row, db.query("SELECT 1 FROM machines WHERE workspace_id = ? AND name = ?",
                                      {workspace, name}));
  TRY_SET(const bool taken, row.next());
  if (!taken) return {};
  return fail(ErrorKind::conflict,
              "the name '" + std::string(name) + "' is taken by a machine that has joined");
}

// Each key is one of a spec's; name and engine are what a compute is.
Result<ComputeSpec> changed_spec(const ComputeSpec& before, const Json& changes) {
  Json json = wire::encode(before);
  std::vector<std::string> known;
  for (const auto& [key, value] : json.items()) known.push_back(key);
  for (const auto& [key, value] : changes.items()) {
    if (!json.contains(key)) {
      const std::string near = nearest(key, known);
      return fail(
          ErrorKind::invalid, "'" + key + "' is no setting of a compute",
          near.empty() ? "Settings: " + join(known, ", ") + "." : "Did you mean '" + near + "'?");
    }
    if ((key == "name" || key == "engine") && value != json[key]) {
      return fail(ErrorKind::invalid, "the " + key + " of a compute stays as it is",
                  "Make another compute.");
    }
    json[key] = value;
  }
  return wire::decode_compute_spec(json);
}

}  // namespace

Result<std::vector<Compute>> list_computes(db::Db& db, std::string_view workspace) {
  TRY_SET(const Workspace in, load_workspace(db, workspace));
  TRY_SET(db::Statement rows,
          db.query("SELECT c.id, w.name, c.spec, c.paused, c.created_by, c.created "
                   "FROM computes c JOIN workspaces w ON w.id = c.workspace_id "
                   "WHERE c.workspace_id = ? ORDER BY c.name",
                   {in.id}));
  return read_computes(std::move(rows));
}

Result<std::vector<Compute>> all_computes(db::Db& db) {
  TRY_SET(db::Statement rows,
          db.query("SELECT c.id, w.name, c.spec, c.paused, c.created_by, c.created "
                   "FROM computes c JOIN workspaces w ON w.id = c.workspace_id ORDER BY c.id"));
  return read_computes(std::move(rows));
}

Result<Compute> load_compute(db::Db& db, std::string_view workspace, std::string_view name) {
  TRY_SET(const Workspace in, load_workspace(db, workspace));
  TRY_SET(std::optional<Compute> found, find_compute(db, in.id, name));
  if (found) return *std::move(found);
  TRY_SET(const std::vector<Compute> all, list_computes(db, workspace));
  std::vector<std::string> names = {"local"};
  for (const Compute& compute : all) names.push_back(compute.spec.name);
  const std::string near = nearest(name, names);
  return fail(ErrorKind::not_found,
              "compute '" + std::string(name) + "' does not exist in the workspace " + in.name,
              (near.empty() ? "" : "Did you mean '" + near + "'? ") + std::string("There are: ") +
                  join(names, ", ") + ".");
}

Result<ComputeMade> insert_compute(db::Transaction& transaction, std::string_view workspace,
                                   ComputeSpec spec, std::string_view by, WallTime now) {
  TRY(check_compute(spec));
  TRY_SET(spec.vm_size, known_size_name(transaction.db(), spec.vm_size));
  TRY_SET(const Workspace in, load_workspace(transaction.db(), workspace));
  TRY_SET(const std::optional<Compute> there, find_compute(transaction.db(), in.id, spec.name));
  if (there && there->spec == spec) return ComputeMade{*there, false};
  TRY(check_no_machine(transaction.db(), in.id, spec.name));
  if (there) {
    return fail(ErrorKind::conflict,
                "compute '" + spec.name +
                    "' exists already, with other settings: " + differences(there->spec, spec),
                "Change it with: trainyard compute update -n " + spec.name);
  }
  TRY_SET(db::Statement row,
          transaction.query("INSERT INTO computes (workspace_id, name, spec, paused, created_by, "
                            "created) VALUES (?, ?, ?, 0, ?, ?) RETURNING id",
                            {in.id, spec.name, wire::dump(wire::encode(spec)), by, now}));
  TRY_SET(const bool made, row.next());
  ENSURE(made);
  return ComputeMade{{.id = row.integer(0),
                      .workspace = in.name,
                      .spec = std::move(spec),
                      .paused = false,
                      .created_by = std::string(by),
                      .created = now},
                     true};
}

Result<Compute> change_compute(db::Transaction& transaction, std::string_view workspace,
                               std::string_view name, const wire::Json& changes) {
  TRY_SET(Compute compute, load_compute(transaction.db(), workspace, name));
  TRY_SET(ComputeSpec spec, changed_spec(compute.spec, changes));
  TRY(check_compute(spec));
  TRY_SET(spec.vm_size, known_size_name(transaction.db(), spec.vm_size));
  if (spec.engine != compute.spec.engine || spec.ssh != compute.spec.ssh ||
      spec.slurm_conf != compute.spec.slurm_conf) {
    // Its runs would be looked for on another cluster, not found, and started again.
    TRY(check_runs_over(transaction.db(), compute, "engine, ssh and slurmConf stay"));
  }
  compute.spec = std::move(spec);
  TRY(transaction.run("UPDATE computes SET spec = ? WHERE id = ?",
                      {wire::dump(wire::encode(compute.spec)), compute.id}));
  return compute;
}

Result<Compute> pause_compute(db::Transaction& transaction, std::string_view workspace,
                              std::string_view name, bool paused) {
  TRY_SET(Compute compute, load_compute(transaction.db(), workspace, name));
  compute.paused = paused;
  TRY(transaction.run("UPDATE computes SET paused = ? WHERE id = ?", {paused, compute.id}));
  return compute;
}

Status delete_compute(db::Transaction& transaction, std::string_view workspace,
                      std::string_view name) {
  TRY_SET(const Compute compute, load_compute(transaction.db(), workspace, name));
  TRY(check_runs_over(transaction.db(), compute,
                      "compute '" + compute.spec.name + "' is not deleted"));
  TRY(transaction.run("DELETE FROM computes WHERE id = ?", {compute.id}));
  return {};
}

Result<TargetRuns> count_runs_on(db::Db& db, std::string_view queue) {
  TargetRuns runs;
  int64_t oldest = INT64_MAX;
  const auto count = [&](RunStatus status, int64_t& into) -> Status {
    // Interactive runs are never queued, so that counting a long queue reads the index alone.
    const bool waits = status == RunStatus::queued || status == RunStatus::not_started;
    TRY_SET(db::Statement row,
            db.query(waits ? "SELECT COUNT(*), MIN(number) FROM runs WHERE final = 0 AND "
                             "status = ? AND queue = ?"
                           : "SELECT COUNT(*), MIN(number) FROM runs WHERE final = 0 AND "
                             "status = ? AND queue = ? AND interactive = 0",
                     {to_string(status), queue}));
    TRY_SET(const bool any, row.next());
    ENSURE(any);
    into += row.integer(0);
    if (row.integer(0) > 0) oldest = std::min(oldest, row.integer(1));
    return {};
  };
  for (const RunStatus status : {RunStatus::not_started, RunStatus::queued}) {
    TRY(count(status, runs.queued));
  }
  for (const RunStatus status :
       {RunStatus::provisioning, RunStatus::preparing, RunStatus::starting, RunStatus::running,
        RunStatus::finalizing, RunStatus::cancel_requested}) {
    TRY(count(status, runs.live));
  }
  if (oldest == INT64_MAX) return runs;
  TRY_SET(db::Statement row, db.query("SELECT id FROM runs WHERE number = ?", {oldest}));
  TRY_SET(const bool any, row.next());
  ENSURE(any);
  runs.first = row.text(0);
  return runs;
}

}  // namespace trainyard::store
