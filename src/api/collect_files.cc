#include <sys/stat.h>

#include <algorithm>
#include <span>

#include "api/collector_pass.h"
#include "base/hash.h"
#include "base/text.h"
#include "snapshot/tree.h"
#include "store/garbage.h"
#include "store/pending_outputs.h"

// The files of a collection: marks what rows and trees name, and removes the rest.
namespace trainyard::api {
namespace {

constexpr int kTreesPerRead = 5000;
constexpr size_t kFoldersPerRead = 500;
// Realised environments that no run has used for so long and none names go.
constexpr std::chrono::hours kEnvironmentIdle{7 * 24};

// The run of "RUN" or "RUN.ATTEMPT".
std::string run_of(const std::string& name) { return name.substr(0, name.rfind('.')); }

}  // namespace

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
    if (!pace_.rest()) return collection_stopped();
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
    if (!pace_.rest()) return collection_stopped();
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
      if (!pace_.rest()) return collection_stopped();
    }
  }
}

Status Collector::Pass::mark() {
  for (const Digest& id : trees_) {
    mark_tree(id);
    if (!pace_.rest()) return collection_stopped();
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
      if (!pace_.rest()) return collection_stopped();
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
