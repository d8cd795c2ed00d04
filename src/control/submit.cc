#include <algorithm>

#include "base/hash.h"
#include "base/text.h"
#include "control/all_runs.h"
#include "store/run_queries.h"
#include "store/workspaces.h"
#include "wire/json.h"

namespace trainyard::control {
namespace {

constexpr std::string_view kLocal = "local";
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
  const std::string spec_json = wire::dump(wire::encode(submission.spec));
  const std::string spec_hash = sha256(spec_json).hex();
  std::optional<store::RunHead> known;
  const auto look = [&](db::Db& db) -> Status {
    TRY_SET(known, store::find_run_head(db, submission.id));
    return {};
  };
  TRY(parts_.store.read(look));
  if (known) return same_again(*known, spec_hash);
  if (!submission.spec.interactive) TRY(check_machine(submission.spec));
  TRY(parts_.store.check_space());
  return add_run(submission, spec_json, spec_hash);
}

Result<Submitted> AllRuns::same_again(const store::RunHead& head, std::string_view spec_hash) {
  if (head.spec_hash != spec_hash) {
    return fail(ErrorKind::conflict, "run " + head.id.value + " exists with another spec",
                "An id is made anew for every submission; only a retry uses the same one.");
  }
  TRY_SET(Run found, run(head.id));
  return Submitted{std::move(found), false};
}

Status AllRuns::check_machine(const RunSpec& spec) const {
  if (spec.target != kLocal) {
    const std::string near = nearest(spec.target, std::vector{std::string(kLocal)});
    return fail(ErrorKind::not_found, "target '" + spec.target + "' does not exist",
                (near.empty() ? "" : "Did you mean '" + near + "'? ") +
                    std::string("Targets here: local."));
  }
  if (spec.nodes != 1) {
    return fail(ErrorKind::invalid,
                "target local has 1 node, " + std::to_string(spec.nodes) + " were asked for");
  }
  TRY(check_gpus(spec));
  const engine::Capacity has = parts_.engine.capacity();
  if (spec.resources.cpus > has.cpus) {
    return fail(ErrorKind::invalid, "target local has " + std::to_string(has.cpus) + " CPUs, " +
                                        std::to_string(spec.resources.cpus) + " were asked for");
  }
  if (spec.resources.memory_bytes > has.memory_bytes) {
    return fail(ErrorKind::invalid,
                "target local has " + format_size(static_cast<uint64_t>(has.memory_bytes)) +
                    " of memory, " +
                    format_size(static_cast<uint64_t>(spec.resources.memory_bytes)) +
                    " were asked for");
  }
  return {};
}

Status AllRuns::check_gpus(const RunSpec& spec) const {
  const auto has = static_cast<int>(parts_.engine.capacity().gpus.size());
  // On `local` a wish for GPUs where there are none is warned of by the client, not refused.
  if (has == 0 || spec.resources.gpus <= has) return {};
  return fail(ErrorKind::invalid, "target local has " + std::to_string(has) +
                                      (has == 1 ? " GPU, " : " GPUs, ") +
                                      std::to_string(spec.resources.gpus) + " were asked for");
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
  return store::KnownSnapshot{size.files, size.bytes};
}

Result<Submitted> AllRuns::add_run(const Submission& submission, std::string_view spec_json,
                                   std::string_view spec_hash) {
  const RunSpec& spec = submission.spec;
  TRY_SET(const store::KnownSnapshot snapshot, find_snapshot(spec.snapshot));
  const int64_t position = ledger_.with([](const Ledger& ledger) { return ledger.queued + 1; });
  const std::string reason =
      spec.interactive ? "" : queued_reason(spec.resources, queue_view(position));

  Run made;
  std::optional<store::RunHead> raced;
  std::optional<Applied> applied;
  const auto change = [&](db::Transaction& transaction) -> Status {
    TRY_SET(raced, store::find_run_head(transaction.db(), submission.id));
    if (raced) return {};
    TRY_SET(Added added, insert(transaction, {.submission = submission,
                                              .spec_json = spec_json,
                                              .spec_hash = spec_hash,
                                              .snapshot = snapshot,
                                              .reason = reason,
                                              .now = parts_.clock.wall()}));
    made = std::move(added.run);
    applied = std::move(added.applied);
    return {};
  };
  TRY(parts_.store.write(Durable::yes, change));
  if (raced) return same_again(*raced, spec_hash);
  settle(*applied);
  made.spec = spec;
  made.snapshot_files = snapshot.files;
  made.snapshot_bytes = snapshot.bytes;
  return Submitted{std::move(made), true};
}

}  // namespace trainyard::control
