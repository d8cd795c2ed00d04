#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/id.h"
#include "model/report.h"
#include "model/run_spec.h"
#include "model/run_state.h"

namespace trainyard {

// One entry of a run's history. `kind` is "submitted", "queued", "provisioning", "preparing",
// "building", "built", "starting", "running", "finalizing", "lost", "cancel_requested", "ended".
struct RunEventRecord {
  int64_t seq = 0;  // Per run, from 1, without gaps.
  WallTime at{};
  int attempt = 0;
  std::string kind;
  std::string text;  // A plain sentence, or empty.
};

// One stretch of a run's time. Phases follow each other without gaps, from createdAt to endedAt.
struct Phase {
  std::string name;  // queue, provision, prepare, build, start, run, capture
  int attempt = 0;
  WallTime started{};
  std::optional<WallTime> ended;
  std::string text;  // Why it waited, or what was done: one plain sentence.
};

struct Attempt {
  int number = 0;
  std::string node;  // Names by commas, where there are several.
  WallTime placed{};
  std::optional<WallTime> started;  // When its ranks ran.
  std::optional<WallTime> ended;
  std::optional<AttemptEnd> end;
  double cpu_seconds = 0;
  int64_t memory_bytes = 0;
  int64_t memory_peak_bytes = 0;
  std::vector<int> gpus;  // Device numbers on its node.
};

// What of a run may be changed later.
struct Labels {
  std::string display_name;
  std::string description;
  std::map<std::string, std::string> tags;
  std::map<std::string, std::string> properties;  // Each written once.
  bool archived = false;
};

// One value that a run told of itself. A number, or the JSON of what is none.
struct Point {
  int64_t number = 0;  // From 0, in the order they came.
  WallTime at{};
  std::optional<int64_t> step;
  std::optional<double> value;
  std::string text;
};

// A metric of a run, and its latest point.
struct Metric {
  std::string name;
  std::string kind;  // scalar, list, row, table, image, doc
  int64_t points = 0;
  Point last;
};

// A run as it is read.
struct Run {
  RunId id;
  int64_t number = 0;   // Order of submission in this server.
  int64_t version = 0;  // Grows with every change; readers wait for it.
  RunSpec spec;
  std::string user;
  std::string workspace_id;
  std::string experiment_id;
  std::string subscription_id;
  std::string resource_group;
  RunLife life;
  std::string parent;  // A run's id; empty: none.
  Labels labels;
  std::map<std::string, std::string> parameters;  // The spec's, and what the script told.
  std::vector<Metric> metrics;
  // The hash of the environment that is made before it is given a place; empty: none is.
  std::string held;
  std::string reason;  // What it waits for or failed of, in words and numbers.
  WallTime created{};
  std::optional<WallTime> started;
  std::optional<WallTime> ended;
  std::optional<WallTime> deleted;  // Set in lists of deleted runs only.
  std::string outputs;              // The tree of outputs/; empty: none.
  int64_t snapshot_files = 0;
  int64_t snapshot_bytes = 0;
  std::vector<Attempt> attempts;       // Empty in lists.
  std::vector<RunEventRecord> events;  // Empty in lists.
  std::vector<std::string> warnings;   // The server's own, plain sentences. Empty in lists.
};

// The phases that `events` make, up to `now` for a run that is not over.
std::vector<Phase> timeline(const Run& run, WallTime now);

// ---- who ----

enum class Role { reader, submitter, admin };
std::string_view to_string(Role role);
Result<Role> role_from(std::string_view name);

struct User {
  int64_t id = 0;
  std::string name;
  Role role = Role::reader;
  WallTime created{};
};

struct Token {
  int64_t id = 0;
  std::string user;
  std::string kind;  // "user"; later "node".
  Role role = Role::reader;
  std::string label;
  WallTime created{};
  std::optional<WallTime> expires;
  std::optional<WallTime> revoked;
  std::optional<int64_t> parent;  // The token that made it; none: made over the Unix socket.
};

// Whom a workspace lets in.
enum class Access {
  everyone,  // Each with the role they have on the server.
  members,   // Members alone, each with their role in the workspace; and admins of the server.
};
std::string_view to_string(Access access);
Result<Access> access_from(std::string_view name);

struct Workspace {
  int64_t id = 0;
  std::string name;
  std::string subscription_id;
  std::string resource_group;
  std::string location;  // A word of scripts for Azure; kept and shown.
  std::string created_by;
  WallTime created{};
  // The compute where environments of runs for elsewhere are built; empty: the server's machine.
  std::string image_build_compute;
  Access access = Access::everyone;
  seconds retention{0};  // Runs that ended longer ago are deleted; 0: none are.
};
inline constexpr seconds kRetentionMin = std::chrono::hours(24);
inline constexpr seconds kRetentionMax = std::chrono::hours(24 * 36500);

struct Member {
  std::string user;
  Role role = Role::reader;
  std::string added_by;
  WallTime added{};
};

struct Experiment {
  int64_t id = 0;
  std::string workspace;
  std::string name;
  int64_t run_count = 0;
  WallTime created{};
};

}  // namespace trainyard
