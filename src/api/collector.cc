#include "api/collector.h"

#include <sys/stat.h>

#include <algorithm>
#include <span>

#include "api/digest_set.h"
#include "api/environments.h"
#include "api/pace.h"
#include "base/hash.h"
#include "base/text.h"
#include "snapshot/tree.h"
#include "store/deletion.h"
#include "store/garbage.h"
#include "store/pending_outputs.h"

namespace trainyard::api {
namespace {

using wire::Json;

constexpr int kRunsPerTake = 200;  // Of a deleted workspace, in one commit.
constexpr int kRunsPerRead = 500;  // Of one read transaction, so that no reader is held up.
constexpr int kTreesPerRead = 5000;
constexpr size_t kFoldersPerRead = 500;
constexpr seconds kClockStep{300};  // A larger step of the machine's clock is distrusted.
// Realised environments that no run has used for so long and none names go.
constexpr std::chrono::hours kEnvironmentIdle{7 * 24};

std::unexpected<Error> stopped() {
  return fail(ErrorKind::cancelled, "the collection was stopped",
              "What is left goes with the next one.");
}

// The run of "RUN" or "RUN.ATTEMPT".
std::string run_of(const std::string& name) { return name.substr(0, name.rfind('.')); }

}  // namespace

// One collection.
class Collector::Pass {
 public:
  Pass(Collector& collector, Mode mode, const std::stop_token& stop)
      : collector_(collector), house_(collector.house_), mode_(mode), pace_(house_.clock, stop) {}

  Result<Json> run();
  // Deletes what is older than its workspace keeps runs.
  Status expire();
  // Removes rows and folders of what was deleted a week ago, or for good.
  Status purge();

 private:
  void phase(std::string_view name);
  Status expire_in(const Workspace& workspace);
  Status expire_run(const RunId& run, WallTime now);
  Status take_workspaces();
  Status finish_experiments();
  Status purge_rows(const store::PurgedRun& run, WallTime before);
  Status set_horizon();
  Status add_pending();
  Status add_runs(int64_t after);
  Status add_others();
  Status add_verified();
  Status mark();
  void mark_tree(const Digest& id);
  void note_damaged(const Digest& id, const std::string& why);
  Status sweep_blobs();
  Status sweep_folder(const fs::path& folder, std::string (*run_in)(const std::string&));
  void sweep_environments();
  bool is_old(const fs::path& path) const;
  bool removes() const { return mode_ == Mode::remove; }

  Collector& collector_;
  House& house_;
  const Mode mode_;
  Pace pace_;
  WallTime before_{};  // Files with an older stamp may go; in the file system's time.
  int64_t last_run_ = 0;
  std::set<Digest> trees_;
  std::set<std::string> environments_;
  DigestSet used_;
  int64_t expired_ = 0;
  int64_t purged_ = 0;
  int64_t forgotten_ = 0;
  int64_t missing_trees_ = 0;
  int64_t damaged_trees_ = 0;
  blob::Sweep::Count blobs_;
  int64_t folders_ = 0;
  env::Shelf::Trimmed shelf_;
};

Collector::Collector(House& house, const CollectorOptions& options)
    : house_(house), options_(options) {}

Collector::~Collector() { stop(); }

void Collector::start() {
  // The first look at the clock: what is set from now on is noticed.
  if (const auto file_now = house_.blobs.file_time()) {
    static_cast<void>(check_clock(*file_now).has_value());
  }
  // What a killed server left of a purge.
  purge_soon();
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

void Collector::stop() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  {
    std::lock_guard lock(mutex_);
    current_.request_stop();
  }
  thread_.join();
}

Status Collector::begin(Mode mode) {
  std::lock_guard lock(mutex_);
  const bool busy = wanted_ || progress_.with([](Progress& now) { return now.running; });
  if (busy) return fail(ErrorKind::conflict, "a collection is under way");
  if (purging_) {
    current_.request_stop();  // The collection removes those rows too.
  } else if (std::unique_lock upkeep(house_.upkeep, std::try_to_lock); !upkeep) {
    return fail(ErrorKind::conflict, "a backup or a check is under way");
  }
  progress_.with([&](Progress& now) {
    now = Progress{.running = true, .asked = true, .mode = mode, .phase = "starting"};
  });
  wanted_ = mode;
  rung_.notify_all();
  return {};
}

void Collector::purge_soon() {
  std::lock_guard lock(mutex_);
  purge_at_ = house_.clock.steady();
  rung_.notify_all();
}

Json Collector::state() {
  return progress_.with([](Progress& now) {
    Json json = {{"running", now.running}, {"dryRun", now.mode == Mode::dry_run},
                 {"phase", now.phase},     {"looked", now.looked},
                 {"removed", now.removed}, {"bytes", now.bytes},
                 {"report", now.report}};
    json["error"] = now.error ? wire::error_to_json(*now.error)["error"] : Json();
    return json;
  });
}

bool Collector::interrupt() {
  std::lock_guard lock(mutex_);
  const bool ours =
      purging_ || progress_.with([](Progress& now) { return now.running && !now.asked; });
  if (ours) current_.request_stop();
  return ours;
}

void Collector::run(const std::stop_token& stop) {
  SteadyTime next = house_.clock.steady() + options_.first;
  while (true) {
    std::stop_token current;
    Mode mode = Mode::remove;
    {
      std::unique_lock lock(mutex_);
      const auto purge_due = [&] { return purge_at_ && *purge_at_ <= house_.clock.steady(); };
      const auto rung = [&] { return wanted_.has_value() || purge_due(); };
      SteadyTime until = options_.every == seconds(0) ? SteadyTime::max() : next;
      if (purge_at_) until = std::min(until, *purge_at_);
      if (until == SteadyTime::max()) {
        rung_.wait(lock, stop, [&] { return wanted_.has_value() || purge_at_.has_value(); });
      } else {
        rung_.wait_for(lock, stop, until - house_.clock.steady(), rung);
      }
      if (stop.stop_requested()) return;
      if (!wanted_ && purge_due()) {
        purge_at_.reset();
        purging_ = true;
        current_ = std::stop_source();
        current = current_.get_token();
        lock.unlock();
        const bool done = purge_once(current);
        lock.lock();
        purging_ = false;
        if (!done) purge_at_ = house_.clock.steady() + options_.busy_retry;
        continue;
      }
      const bool due = options_.every > seconds(0) && next <= house_.clock.steady();
      if (!wanted_ && !due) continue;
      mode = wanted_.value_or(Mode::remove);
      const bool asked = wanted_.has_value();
      progress_.with([&](Progress& now) {
        now = Progress{.running = true, .asked = asked, .mode = mode, .phase = "starting"};
      });
      wanted_.reset();
      current_ = std::stop_source();
      current = current_.get_token();
    }
    run_once(mode, current);
    next = house_.clock.steady() + options_.every;
  }
}

// False: a backup or a check goes first.
bool Collector::purge_once(const std::stop_token& stop) {
  const std::unique_lock upkeep(house_.upkeep, std::try_to_lock);
  if (!upkeep) return false;
  const Status purged = Pass(*this, Mode::remove, stop).purge();
  if (purged) return true;
  if (purged.error().kind == ErrorKind::cancelled) return false;
  house_.log.warn("deleted runs not removed", {{"error", purged.error().message}});
  return true;
}

void Collector::run_once(Mode mode, const std::stop_token& stop) {
  Result<Json> report = [&]() -> Result<Json> {
    // A backup or a check that is under way goes first.
    std::unique_lock upkeep(house_.upkeep, std::defer_lock);
    while (!upkeep.try_lock()) {
      const SteadyTime again = house_.clock.steady() + options_.busy_retry;
      if (house_.clock.sleep_until(again, stop)) return stopped();
    }
    return collect(mode, stop);
  }();
  if (!report && report.error().kind != ErrorKind::cancelled) {
    house_.log.warn("garbage not collected", {{"error", report.error().message}});
  }
  progress_.with([&](Progress& now) {
    now.running = false;
    now.phase = "done";
    if (report) {
      now.report = *std::move(report);
    } else {
      now.error = report.error();
    }
  });
}

// Ages of files are differences of the machine's clock. When that was set meanwhile, what was
// written a minute ago may look a year old.
Status Collector::check_clock(WallTime file_now) {
  const SteadyTime now = house_.clock.steady();
  const microseconds offset = file_now.time_since_epoch() - now.time_since_epoch();
  const bool set = clock_offset_ &&
                   (offset > *clock_offset_ + kClockStep || offset < *clock_offset_ - kClockStep);
  clock_offset_ = offset;
  if (set) distrust_until_ = now + options_.grace;
  if (now >= distrust_until_) return {};
  return fail(ErrorKind::unavailable,
              "the machine's clock was set while the server ran, so ages of files are not known",
              "Nothing is removed until " +
                  format_time(house_.clock.wall() + (distrust_until_ - now)) + ".");
}

Result<Json> Collector::collect(Mode mode, const std::stop_token& stop) {
  return Pass(*this, mode, stop).run();
}

void Collector::Pass::phase(std::string_view name) {
  collector_.progress_.with([&](Progress& now) { now.phase = name; });
}

Result<Json> Collector::Pass::run() {
  const SteadyTime began = house_.clock.steady();
  phase("removing deleted runs");
  TRY(expire());
  TRY(purge());
  phase("reading what is referred to");
  TRY(set_horizon());
  // Before the runs: a file leaves this list for the tree of its run.
  TRY(add_pending());
  TRY(add_runs(0));
  TRY(add_others());
  TRY(add_verified());
  // Runs that came meanwhile may have relied on a tree that was forgotten after them.
  TRY(add_runs(last_run_));
  phase("reading trees");
  TRY(mark());
  phase("removing blobs");
  TRY(sweep_blobs());
  phase("removing folders");
  TRY(sweep_folder(house_.home.runs(), [](const std::string& name) { return name; }));
  TRY(sweep_folder(house_.home.node(), run_of));
  sweep_environments();
  const auto took = std::chrono::duration_cast<milliseconds>(house_.clock.steady() - began);
  Json report = {{"dryRun", !removes()},
                 {"seconds", static_cast<double>(took.count()) / 1000},
                 {"expiredRuns", expired_},
                 {"removedRuns", purged_},
                 {"trees", trees_.size()},
                 {"missingTrees", missing_trees_},
                 {"damagedTrees", damaged_trees_},
                 {"blobs", blobs_.blobs},
                 {"removedBlobs", blobs_.removed},
                 {"removedBytes", blobs_.removed_bytes},
                 {"youngBlobs", blobs_.young},
                 {"youngBytes", blobs_.young_bytes},
                 {"forgottenSnapshots", forgotten_},
                 {"removedFolders", folders_},
                 {"removedEnvironments", shelf_.environments},
                 {"environmentBytes", shelf_.bytes}};
  if (removes()) house_.log.info("garbage collected", {{"report", wire::dump(report)}});
  return report;
}

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
      if (!pace_.rest()) return stopped();
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
      if (!pace_.rest()) return stopped();
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
    if (!pace_.rest()) return stopped();
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
      if (!pace_.rest()) return stopped();
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
    if (!pace_.rest()) return stopped();
  }
  if (purged == store::Purged::kept) return {};
  ++purged_;
  if (Status removed = house_.logs.remove(run.id); !removed) {
    house_.log.warn("logs not removed",
                    {{"run", run.id.value}, {"error", removed.error().message}});
  }
  return {};
}

Status Collector::Pass::set_horizon() {
  TRY_SET(const WallTime file_now, house_.blobs.file_time());
  TRY(collector_.check_clock(file_now));
  microseconds age = collector_.options_.grace;
  std::optional<WallTime> finalizing;
  const auto look = [&](db::Db& db) -> Status {
    TRY_SET(finalizing, store::oldest_finalizing(db));
    return {};
  };
  TRY(house_.store.read(look));
  // A node that was cut off has sent its outputs and not yet said so, for as long as it takes.
  if (finalizing) age = std::max(age, house_.clock.wall() - *finalizing + blob::kStampAge);
  before_ = file_now - age;
  return {};
}

// Files of interactive runs that no tree names yet.
Status Collector::Pass::add_pending() {
  std::vector<int64_t> runs;
  const auto list = [&](db::Db& db) -> Status {
    TRY_SET(runs, store::runs_with_pending_outputs(db));
    return {};
  };
  TRY(house_.store.read(list));
  for (const int64_t run : runs) {
    std::vector<store::PendingOutput> outputs;
    const auto look = [&](db::Db& db) -> Status {
      TRY_SET(outputs, store::pending_outputs(db, run));
      return {};
    };
    TRY(house_.store.read(look));
    for (const store::PendingOutput& output : outputs) {
      if (const auto digest = Digest::from_hex(output.digest)) used_.add(*digest);
    }
    if (!pace_.rest()) return stopped();
  }
  return {};
}

Status Collector::Pass::add_runs(int64_t after) {
  while (true) {
    store::References found;
    const auto look = [&](db::Db& db) -> Status {
      TRY_SET(found, store::run_references(db, after, kRunsPerRead));
      return {};
    };
    TRY(house_.store.read(look));
    if (found.last == 0) return {};
    after = last_run_ = found.last;
    for (const std::string& tree : found.trees) {
      if (const auto digest = Digest::from_hex(tree)) trees_.insert(*digest);
    }
    environments_.insert(found.environments.begin(), found.environments.end());
    if (!pace_.rest()) return stopped();
  }
}

Status Collector::Pass::add_others() {
  std::vector<std::string> trees;
  const auto look = [&](db::Db& db) -> Status {
    TRY_SET(trees, store::environment_trees(db));
    return {};
  };
  TRY(house_.store.read(look));
  if (house_.environments != nullptr) {
    TRY_SET(const std::vector<std::string> packed, house_.environments->trees());
    trees.insert(trees.end(), packed.begin(), packed.end());
  }
  const std::vector<std::string> pinned = house_.pins.live(house_.clock.steady());
  trees.insert(trees.end(), pinned.begin(), pinned.end());
  for (const std::string& tree : trees) {
    if (const auto digest = Digest::from_hex(tree)) trees_.insert(*digest);
  }
  return {};
}

// A submission of a verified tree looks at none of its blobs. So a tree is forgotten before its
// blobs go, which the submission's own transaction sees; those that are not forgotten are marked.
Status Collector::Pass::add_verified() {
  const WallTime before = house_.clock.wall() - collector_.options_.grace;
  std::string after;
  while (true) {
    std::vector<store::VerifiedTree> page;
    const auto look = [&](db::Db& db) -> Status {
      TRY_SET(page, store::verified_trees(db, after, kTreesPerRead));
      return {};
    };
    TRY(house_.store.read(look));
    if (page.empty()) return {};
    after = page.back().tree;
    for (const store::VerifiedTree& verified : page) {
      TRY_SET(const Digest digest, Digest::from_hex(verified.tree));
      if (trees_.contains(digest)) continue;
      bool forgotten = verified.at < before;
      if (forgotten && removes()) {
        const auto change = [&](db::Transaction& transaction) -> Status {
          TRY_SET(forgotten, store::forget_snapshot(transaction, verified.tree, before));
          return {};
        };
        // On disk before a blob goes: after a power cut nothing may rely on blobs that are gone.
        TRY(house_.store.write(Durable::yes, change));
      }
      if (forgotten) {
        ++forgotten_;
      } else {
        trees_.insert(digest);
      }
      if (!pace_.rest()) return stopped();
    }
  }
}

Status Collector::Pass::mark() {
  for (const Digest& id : trees_) {
    mark_tree(id);
    if (!pace_.rest()) return stopped();
  }
  used_.compact();
  return {};
}

void Collector::Pass::mark_tree(const Digest& id) {
  used_.add(id);
  const Result<std::string> text = house_.trees.text(id.hex());
  if (!text) {
    // An attempt may name what never was a tree: nothing, or a file too large for one.
    if (text.error().kind == ErrorKind::not_found) ++missing_trees_;
    const bool none =
        text.error().kind == ErrorKind::not_found || text.error().kind == ErrorKind::invalid;
    if (!none) note_damaged(id, text.error().message);
    return;
  }
  // One digit that has changed still makes a tree, and not the one that was kept.
  if (sha256(*text) != id) return note_damaged(id, "its content has changed");
  const Result<snapshot::Tree> tree = snapshot::decode(*text);
  if (!tree) return;  // An attempt may name a file that is no tree.
  for (const snapshot::Entry& entry : tree->entries) {
    using snapshot::EntryKind;
    if (entry.kind == EntryKind::file || entry.kind == EntryKind::executable) {
      used_.add(entry.digest);
    }
  }
}

void Collector::Pass::note_damaged(const Digest& id, const std::string& why) {
  ++damaged_trees_;
  house_.log.error("damaged tree: no blob is removed while it is referred to",
                   {{"tree", id.hex()}, {"error", why}});
}

Status Collector::Pass::sweep_blobs() {
  const auto proceed = [&](const blob::Sweep::Count& count) {
    collector_.progress_.with([&](Progress& now) {
      now.looked = count.blobs;
      now.removed = count.removed;
      now.bytes = count.removed_bytes;
    });
    return pace_.rest();
  };
  // What a damaged tree lists is not known: any blob may be of it.
  const auto used = [&](const Digest& digest) {
    return damaged_trees_ > 0 || used_.contains(digest);
  };
  TRY_SET(blobs_,
          house_.blobs.sweep(
              {.used = used, .before = before_, .dry_run = !removes(), .proceed = proceed}));
  return {};
}

// Folders of runs that are gone: their deletion was cut short.
Status Collector::Pass::sweep_folder(const fs::path& folder,
                                     std::string (*run_in)(const std::string&)) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename();
    if (!name.starts_with('.') && is_old(at->path())) names.push_back(name);
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return fail_errno(error.value(), "read " + folder.string());
  }
  for (size_t begin = 0; begin < names.size(); begin += kFoldersPerRead) {
    const auto part =
        std::span(names).subspan(begin).first(std::min(kFoldersPerRead, names.size() - begin));
    std::vector<std::string> gone;
    const auto look = [&](db::Db& db) -> Status {
      for (const std::string& name : part) {
        TRY_SET(const bool known, store::knows_run(db, run_in(name)));
        if (!known) gone.push_back(name);
      }
      return {};
    };
    TRY(house_.store.read(look));
    for (const std::string& name : gone) {
      ++folders_;
      if (removes()) TRY(remove_tree(folder / name));
      if (!pace_.rest()) return stopped();
    }
  }
  return {};
}

bool Collector::Pass::is_old(const fs::path& path) const {
  struct stat status{};
  return ::lstat(path.c_str(), &status) == 0 && WallTime(seconds(status.st_mtim.tv_sec)) < before_;
}

void Collector::Pass::sweep_environments() {
  if (house_.environments == nullptr) return;
  const auto unused = [&](const std::string& hash) { return !environments_.contains(hash); };
  const WallTime before = before_ + collector_.options_.grace - kEnvironmentIdle;
  shelf_ = house_.environments->remove_idle(before, unused, !removes());
}

}  // namespace trainyard::api
