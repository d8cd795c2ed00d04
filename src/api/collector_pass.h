#pragma once

#include <set>
#include <string>

#include "api/collector.h"
#include "api/digest_set.h"
#include "api/environments.h"
#include "api/pace.h"
#include "store/deletion.h"

namespace trainyard::api {

using wire::Json;

inline constexpr int kRunsPerRead = 500;  // Of one read transaction, so that no reader is held up.

inline std::unexpected<Error> collection_stopped() {
  return fail(ErrorKind::cancelled, "the collection was stopped",
              "What is left goes with the next one.");
}

// One collection: its rows in collect_rows.cc, its files in collect_files.cc.
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

}  // namespace trainyard::api
