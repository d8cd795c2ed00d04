#include <algorithm>

#include "base/hash.h"
#include "base/text.h"
#include "control/all_runs.h"
#include "model/environment_record.h"
#include "store/run_queries.h"
#include "store/warnings.h"
#include "store/workspaces.h"
#include "wire/json.h"

namespace trainyard::control {
namespace {

constexpr size_t kIdMax = 128;  // It becomes part of paths, the socket's among them.

Status check_id(const RunId& id) {
  TRY(check_name(id.value, "run id"));
  if (id.value.size() > kIdMax) {
    return fail(ErrorKind::invalid,
                "run id '" + id.value + "' is longer than " + std::to_string(kIdMax) + " bytes");
  }
  return {};
}

}  // namespace

// A submission may come again: the client lost our answer. Whether it is the same one is looked at
// first, so that a retry gets its run even if the machine or the disk has changed meanwhile.
Result<Submitted> AllRuns::submit(const Submission& submission) {
  TRY(check_id(submission.id));
  TRY(check_spec(submission.spec));
  // Of what was sent: a name may stand for something else when it is sent again.
  const std::string sent = wire::dump(wire::encode(submission.spec));
  const std::string spec_hash = sha256(sent).hex();
  std::optional<store::RunHead> known;
  const auto look = [&](db::Db& db) -> Status {
    TRY_SET(known, store::find_run_head(db, submission.id));
    return {};
  };
  TRY(parts_.store.read(look));
  if (known) return same_again(*known, spec_hash);
  if (!submission.spec.interactive) TRY(check_machine(submission.spec));
  Submission resolved = submission;
  EnvironmentUse use = use_of(submission.spec, submission.role);
  use.asked = submission.arrived;
  TRY_SET(resolved.spec.environment,
          resolve_environment(submission.spec.workspace, submission.spec.environment, use));
  TRY(check_resolved(resolved.spec));
  if (!submission.spec.interactive) TRY(check_python(resolved.spec));
  TRY(parts_.store.check_space());
  const bool same = resolved.spec.environment == submission.spec.environment;
  return add_run(resolved, same ? sent : wire::dump(wire::encode(resolved.spec)), spec_hash);
}

Result<Environment> AllRuns::resolve_environment(std::string_view workspace,
                                                 const Environment& asked,
                                                 const EnvironmentUse& use) {
  return resolve(parts_.store, workspace, asked, use, parts_.environment_rules);
}

// What could not be seen before the environment's name was looked up.
Status AllRuns::check_resolved(const RunSpec& spec) {
  const Recipe& recipe = spec.environment.recipe;
  if (spec.command.empty() && !spec.interactive && recipe.kind != EnvironmentKind::container) {
    return fail(ErrorKind::invalid,
                "there is no command, and environment " + label(spec.environment) +
                    " is no image that has one",
                "Put it after --, as in: trainyard submit -- python train.py");
  }
  // Looked at each time: no row keeps it from garbage collection until the run's own does.
  if (!recipe.context.empty()) TRY(parts_.snapshot_check(recipe.context));
  return {};
}

Result<Submitted> AllRuns::same_again(const store::RunHead& head, std::string_view spec_hash) {
  if (head.spec_hash != spec_hash) {
    return fail(ErrorKind::conflict, "run " + head.id.value + " exists with another spec",
                "An id is made anew for every submission; only a retry uses the same one.");
  }
  TRY_SET(Run found, run(head.id));
  return Submitted{std::move(found), false};
}

// What no machine of the target has is refused. What is not known of a cluster, it says itself.
Status AllRuns::check_machine(const RunSpec& spec) {
  const std::shared_ptr<engine::Engine> engine = engine_of(queue_of(spec));
  if (!engine) return std::unexpected(no_such_target(spec));
  engine::Capacity has = engine->capacity();
  if (has.cpus == 0 && spec.resources.gpus > 0) {
    engine->nodes();  // Waits a moment for a cluster's first look at its nodes.
    has = engine->capacity();
  }
  const std::string target = "target " + spec.target + " has ";
  if (spec.nodes > has.nodes) {
    return fail(ErrorKind::invalid, target + std::to_string(has.nodes) +
                                        (has.nodes == 1 ? " node, " : " nodes, ") +
                                        std::to_string(spec.nodes) + " were asked for");
  }
  TRY(check_gpus(spec, has));
  if (has.cpus > 0 && spec.resources.cpus > has.cpus) {
    return fail(ErrorKind::invalid, target + std::to_string(has.cpus) + " CPUs, " +
                                        std::to_string(spec.resources.cpus) + " were asked for");
  }
  if (has.memory_bytes > 0 && spec.resources.memory_bytes > has.memory_bytes) {
    return fail(ErrorKind::invalid,
                target + format_size(static_cast<uint64_t>(has.memory_bytes)) + " of memory, " +
                    format_size(static_cast<uint64_t>(spec.resources.memory_bytes)) +
                    " were asked for");
  }
  return {};
}

// A virtual environment made here needs a Python of its version on the machine that runs it.
Status AllRuns::check_python(const RunSpec& spec) {
  const std::string& platform = spec.environment.recipe.platform;
  if (platform.find("-cpython-") == std::string::npos) return {};
  const std::shared_ptr<engine::Engine> engine = engine_of(queue_of(spec));
  const std::vector<std::string> has =
      engine ? engine->capacity().pythons : std::vector<std::string>();
  if (has.empty() || std::ranges::find(has, platform) != has.end()) return {};
  const auto version = [](const std::string& of) { return of.substr(of.rfind('-') + 1); };
  std::vector<std::string> versions;
  for (const std::string& each : has) versions.push_back(version(each));
  return fail(ErrorKind::invalid,
              "the environment is made with Python " + version(platform) + ", and target " +
                  spec.target + " has " + join(versions, ", "),
              "Name a version that both have (python=), install Python " + version(platform) +
                  " there, or run in a container.");
}

Error AllRuns::no_such_target(const RunSpec& spec) {
  const std::string prefix = spec.workspace + "/";
  std::vector<std::string> names;
  for (const std::string& queue : open_queues()) {
    if (queue == kLocalQueue) names.push_back(queue);
    if (queue.starts_with(prefix)) names.push_back(queue.substr(prefix.size()));
  }
  const std::string near = nearest(spec.target, names);
  return {ErrorKind::not_found, "target '" + spec.target + "' does not exist",
          (near.empty() ? "" : "Did you mean '" + near + "'? ") +
              "Targets here: " + join(names, ", ") + "."};
}

Status AllRuns::check_gpus(const RunSpec& spec, const engine::Capacity& capacity) const {
  const auto has = static_cast<int>(capacity.gpus.size());
  // The nodes of a run on slots share the machine's.
  const int wanted = spec.resources.gpus * (capacity.slots > 0 ? spec.nodes : 1);
  // On `local` a wish for GPUs where there are none is warned of by the client, not refused. Of a
  // cluster whose nodes were not counted yet, Slurm says it.
  const bool known = capacity.cpus > 0;
  if (has == 0 && (spec.target == kLocalQueue || !known)) return {};
  if (wanted <= has) return {};
  return fail(ErrorKind::invalid, "target " + spec.target + " has " + std::to_string(has) +
                                      (has == 1 ? " GPU, " : " GPUs, ") + std::to_string(wanted) +
                                      " were asked for");
}

// Whether it is whole is looked at once; the answer is kept with the run's own commit.
Result<store::KnownSnapshot> AllRuns::find_snapshot(std::string_view tree) {
  if (tree.empty()) return store::KnownSnapshot{};
  std::optional<store::KnownSnapshot> known;
  const auto look = [&](db::Db& db) -> Status {
    TRY_SET(known, store::known_snapshot(db, tree));
    return {};
  };
  TRY(parts_.store.read(look));
  if (known) return *known;
  TRY_SET(const SnapshotSize size, parts_.snapshot_check(tree));
  return store::KnownSnapshot{size.files, size.bytes, true};
}

Result<Submitted> AllRuns::add_run(const Submission& submission, std::string_view spec_json,
                                   std::string_view spec_hash) {
  const RunSpec& spec = submission.spec;
  TRY_SET(store::KnownSnapshot snapshot, find_snapshot(spec.snapshot));
  const std::string queue = queue_of(spec);
  const std::string held = held_for(spec);
  const int64_t position = ledger_.with([&](Ledger& ledger) {
    const Ledger::Account& target = ledger.account(queue);
    return target.queued - target.held + 1;
  });
  const std::string reason =
      spec.interactive ? ""
      : !held.empty()  ? held_reason(spec.environment)
                       : queued_reason(spec.resources, queue_view(queue, position), spec.nodes);

  Run made;
  std::optional<store::RunHead> raced;
  std::optional<Applied> applied;
  bool forgotten = false;
  const auto change = [&](db::Transaction& transaction) -> Status {
    TRY_SET(raced, store::find_run_head(transaction.db(), submission.id));
    if (raced) return {};
    if (!spec.snapshot.empty() && !snapshot.checked) {
      TRY_SET(const auto still, store::known_snapshot(transaction.db(), spec.snapshot));
      forgotten = !still;
      if (forgotten) return {};
    }
    TRY_SET(Added added, insert(transaction, {.submission = submission,
                                              .spec_json = spec_json,
                                              .spec_hash = spec_hash,
                                              .snapshot = snapshot,
                                              .reason = reason,
                                              .held = held,
                                              .now = parts_.clock.wall()}));
    made = std::move(added.run);
    made.warnings = spec.environment.warnings;
    for (const std::string& text : made.warnings) {
      TRY(store::warn_run(transaction, made.number,
                          {.kind = "environment", .cause = text, .text = text}));
    }
    applied = std::move(added.applied);
    return {};
  };
  TRY(parts_.store.write(Durable::yes, change));
  if (forgotten) {
    // Garbage collection forgot the snapshot since we looked: its blobs may be gone.
    TRY_SET(snapshot, find_snapshot(spec.snapshot));
    snapshot.checked = true;
    TRY(parts_.store.write(Durable::yes, change));
  }
  if (raced) return same_again(*raced, spec_hash);
  if (!held.empty()) ledger_.with([&](Ledger& ledger) { ++ledger.account(queue).held; });
  settle(*applied);
  made.spec = spec;
  made.snapshot_files = snapshot.files;
  made.snapshot_bytes = snapshot.bytes;
  return Submitted{std::move(made), true};
}

}  // namespace trainyard::control
