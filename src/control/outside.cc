// What people and programs elsewhere change of a run: its labels, and an interactive run's end.
#include "control/all_runs.h"
#include "model/limits.h"
#include "store/labels.h"

namespace trainyard::control {
namespace {

Status apply_changes(const LabelChanges& changes, Labels& labels) {
  for (const auto& [key, value] : changes.tags) {
    if (value) {
      labels.tags[key] = *value;
    } else {
      labels.tags.erase(key);
    }
  }
  for (const auto& [key, value] : changes.properties) {
    const auto [held, fresh] = labels.properties.emplace(key, value);
    if (!fresh && held->second != value) {
      return fail(ErrorKind::conflict,
                  "property '" + key + "' is '" + held->second + "': properties are written once");
    }
  }
  if (changes.display_name) labels.display_name = *changes.display_name;
  if (changes.description) labels.description = *changes.description;
  TRY(limits::check_pair("run", labels.display_name, ""));
  if (labels.description.size() > limits::kDescriptionBytes) {
    return fail(ErrorKind::invalid, "the description is longer than " +
                                        std::to_string(limits::kDescriptionBytes) + " bytes");
  }
  TRY(limits::check_pairs("tag", labels.tags, limits::kTags));
  return limits::check_pairs("property", labels.properties, limits::kProperties);
}

}  // namespace

Result<Run> AllRuns::update(const RunId& id, const LabelChanges& changes) {
  const auto change = [&](db::Transaction& transaction) -> Status {
    TRY_SET(store::RunHead head, store::run_head(transaction.db(), id));
    TRY_SET(Labels labels, store::load_labels(transaction.db(), head.number));
    TRY(apply_changes(changes, labels));
    TRY(store::save_labels(transaction, head.number, labels));
    if (changes.archived) TRY(store::save_archived(transaction, head, *changes.archived));
    return store::save_run(transaction, head);
  };
  TRY(parts_.store.write(Durable::yes, change));
  if (parts_.changed) parts_.changed(id);
  return run(id);
}

Status AllRuns::add_output(const RunId& id, const store::PendingOutput& output) {
  const auto change = [&](db::Transaction& transaction) -> Status {
    TRY_SET(const store::RunHead head, store::run_head(transaction.db(), id));
    if (!head.life.interactive || is_final(head.life.status)) {
      return fail(
          ErrorKind::conflict,
          "run " + id.value + " takes no outputs: it is over, or its supervisor keeps them");
    }
    return store::add_pending_output(transaction, head.number, output);
  };
  return parts_.store.write(Durable::yes, change);
}

Status AllRuns::set_outputs(const RunId& id, std::string_view tree,
                            const std::vector<store::PendingOutput>& added) {
  const auto change = [&](db::Transaction& transaction) -> Status {
    TRY_SET(store::RunHead head, store::run_head(transaction.db(), id));
    head.outputs = tree;
    TRY(store::remove_pending_outputs(transaction, head.number, added));
    return store::save_run(transaction, head);
  };
  TRY(parts_.store.write(Durable::yes, change));
  if (parts_.changed) parts_.changed(id);
  return {};
}

Result<Run> AllRuns::end(const RunId& id, RunStatus status, std::string_view error) {
  std::optional<Applied> applied;
  const auto change = [&](db::Transaction& transaction) -> Status {
    TRY_SET(store::RunHead head, store::run_head(transaction.db(), id));
    TRY_SET(applied, apply(transaction, head, EndedOutside{status, std::string(error)},
                           {.at = parts_.clock.wall()}));
    return {};
  };
  TRY(parts_.store.write(Durable::yes, change));
  settle(*applied);
  return run(id);
}

}  // namespace trainyard::control
