#pragma once

#include "store/run_rows.h"
#include "store/store.h"
#include "wire/json.h"

// For tests and benches: runs made in bulk, without a control plane.
namespace trainyard::store {

inline RunSpec plain_spec() {
  RunSpec spec;
  spec.experiment = "history";
  spec.command = {"true"};
  spec.submit_environment = {{"PATH", "/usr/local/bin:/usr/bin:/bin"}, {"HOME", "/home/ada"}};
  return spec;
}

// A queued run, with its first two events.
inline Result<RunHead> add_queued_run(db::Transaction& transaction, const RunId& id,
                                      const RunSpec& spec, WallTime now) {
  TRY_SET(const int64_t experiment, get_or_create_experiment(transaction, 1, spec.experiment, now));
  const std::string json = wire::dump(wire::encode(spec));
  TRY_SET(RunHead head, insert_run(transaction, {.id = id,
                                                 .workspace_id = 1,
                                                 .experiment_id = experiment,
                                                 .spec = spec,
                                                 .spec_json = json,
                                                 .spec_hash = "",
                                                 .user = "ada",
                                                 .created = now}));
  TRY(add_event(transaction, head, {.at = now, .kind = "submitted"}));
  TRY(add_event(transaction, head, {.at = now, .kind = "queued"}));
  head.life.status = RunStatus::queued;
  TRY(save_run(transaction, head));
  return head;
}

// `count` completed runs with an attempt, events and a token each, as fast as SQL can.
Status add_finished_runs(Store& store, int count);

}  // namespace trainyard::store
