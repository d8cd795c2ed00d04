#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/id.h"
#include "http/client.h"
#include "model/environment_record.h"
#include "model/run.h"
#include "snapshot/tree.h"
#include "wire/json.h"

namespace trainyard::client {

using wire::Json;

std::string environment_url(std::string_view workspace, const EnvironmentName& name);

// A list's page: {"items": […], "next": cursor or null}.
struct Page {
  Json items = Json::array();
  std::string next;  // Empty: this was the last.
};

struct RunQuery {
  std::string workspace;  // Empty: all; here and below.
  std::string experiment;
  std::string status;
  std::string target;
  std::string user;
  std::string parent;
  std::string tag;       // "key" or "key=value".
  std::string tags;      // Several: a JSON object; null is any value.
  std::string archived;  // "no", "only" or "any"; empty: no.
  bool children = false;
  std::string deleted;  // "no" or "only"; empty: no.
  std::string named;    // Whose id begins with this, or whose display name it is.

  bool operator==(const RunQuery&) const = default;
};

// Where a reader of a run's console stands, and what it asks for.
struct FollowQuery {
  std::vector<uint64_t> from;  // Per rank; missing ones are 0.
  int64_t version = 0;         // Answer when the run's is above, even without console.
  int wait_s = 0;
  std::optional<int> rank;  // Only this one's console.
};

// The last frame of an answer to it.
struct FollowState {
  std::string status;
  std::string reason;
  int64_t version = 0;
  bool final = false;
  std::optional<int> exit_code;
  std::string error;
  std::vector<uint64_t> next;
  int attempt = 0;
  bool warned = false;  // The run has warnings to be shown.
  uint64_t bytes = 0;   // Console in this answer.
};

// Console bytes as they come; `stream` is 'o' or 'e'.
using ConsoleSink = std::function<Status(char stream, uint32_t rank, std::string_view bytes)>;

// Takes an answer's frames apart, in whatever pieces they come.
class FollowReader {
 public:
  explicit FollowReader(ConsoleSink sink) : sink_(std::move(sink)) {}
  Status feed(std::string_view bytes);
  // After the last byte. `unavailable` when the answer was cut short.
  Result<FollowState> finish();

 private:
  Status take(std::string_view bytes);

  ConsoleSink sink_;
  std::string head_;
  std::string state_;
  bool has_state_ = false;
  char kind_ = 0;
  uint32_t rank_ = 0;
  uint32_t left_ = 0;
  uint64_t bytes_ = 0;
};

// Part of a file of a run.
struct FilePart {
  uint64_t next = 0;
  bool final = false;  // Nothing will be added behind `next`.
};
using ByteSink = std::function<Status(std::string_view)>;

// One function per call of the API (wire/urls.h); an answer that is no success is its Error. Not
// thread-safe, as its connection, but for interrupt().
class Api {
 public:
  explicit Api(http::Client client) : client_(std::move(client)) {}

  http::Client& http() { return client_; }
  // Makes a call under way fail with `cancelled`. Any thread.
  void interrupt();
  // Called after each answer with one line about it: "GET /api/v1/runs: 200".
  void trace(std::function<void(std::string_view)> trace) { trace_ = std::move(trace); }
  // How to get to a server again when it died under a request; without it the request fails.
  void revive(std::function<Result<http::Client>()> revive) { revive_ = std::move(revive); }

  Result<Json> server(bool with_token);
  Status stop_server();
  Result<Json> backup(std::string_view folder, bool without_key);
  Result<Json> check(bool content);
  // How far a collection of garbage is; its report when it is done.
  Result<Json> begin_collection(bool dry_run);
  Result<Json> collection();
  Result<Json> version();

  Result<Json> users();
  Result<Json> create_user(std::string_view name, std::string_view role);
  Result<Json> update_user(std::string_view name, std::string_view role);
  Status delete_user(std::string_view name);
  Result<Json> tokens();
  // `lifetime_s` 0: it does not expire.
  struct TokenWanted {
    std::string user;  // Empty: the caller's.
    std::string label;
    std::string role;        // At most this; empty: the user's.
    int64_t lifetime_s = 0;  // 0: as long as the caller's own.
  };
  Result<Json> create_token(const TokenWanted& wanted);
  Status revoke_token(std::string_view id);

  Result<Json> workspaces();
  Result<Json> workspace(std::string_view name);
  Result<Json> create_workspace(const Workspace& workspace);
  // Where its environments are built; empty: on the server.
  // {"imageBuildCompute", "retentionSeconds", "access"}
  Result<Json> update_workspace(std::string_view workspace, const Json& changes);
  Status delete_workspace(std::string_view name);
  Result<Json> members(std::string_view workspace);
  Result<Json> set_member(std::string_view workspace, std::string_view user, std::string_view role);
  Status remove_member(std::string_view workspace, std::string_view user);
  Result<Json> experiments(std::string_view workspace);
  Result<Json> targets();

  Result<Json> secrets(std::string_view workspace);
  Result<Json> set_secret(std::string_view workspace, std::string_view name,
                          std::string_view value);
  Status delete_secret(std::string_view workspace, std::string_view name);

  Result<Json> computes(std::string_view workspace);
  Result<Json> compute(std::string_view workspace, std::string_view name);
  Result<Json> compute_nodes(std::string_view workspace, std::string_view name);
  // What is there already, if it is the same.
  Result<Json> create_compute(std::string_view workspace, const ComputeSpec& spec);
  // `changes`: fields of a ComputeSpec by their names.
  Result<Json> change_compute(std::string_view workspace, std::string_view name,
                              const Json& changes);
  Result<Json> pause_compute(std::string_view workspace, std::string_view name, bool paused);
  Status delete_compute(std::string_view workspace, std::string_view name);
  Result<Json> sizes();
  // `changes`: fields of a VmSize by their names.
  Result<Json> set_size(std::string_view name, const Json& changes);
  Status delete_size(std::string_view name);

  // Registered ones: of each the latest, or all versions of the one named.
  Result<Json> environments(std::string_view workspace, std::string_view name, bool archived);
  // What the name stands for, registered or curated.
  Result<Json> environment(std::string_view workspace, const EnvironmentName& name);
  // An Environment's JSON, and beside it "description" and "base", a name it is put upon.
  Result<Json> register_environment(std::string_view workspace, const Json& environment);
  Status archive_environment(std::string_view workspace, const EnvironmentName& name,
                             bool archived);
  // What is deleted `now` cannot be restored.
  Status delete_environment(std::string_view workspace, const EnvironmentName& name, bool now);
  Result<Json> delete_experiment(std::string_view workspace, std::string_view name, bool now);
  Result<Json> restore_experiment(std::string_view workspace, std::string_view name);
  Result<Json> delete_run(const RunId& id, bool now);
  Result<Json> restore_run(const RunId& id);
  // How far it is: {"state", "progress", "log", "logNext", "error", "realised"}. Asking has it
  // made.
  struct StateQuery {
    bool begin = false;  // The first time: that it failed before is no answer.
    int64_t log_from = 0;
    int wait_s = 0;
    std::string rebuild = {};  // An id of the caller's: it is built although it is there.
  };
  Result<Json> environment_state(std::string_view workspace, const EnvironmentName& name,
                                 const StateQuery& query);
  Result<Json> curated_environments();
  // An Environment's JSON, and beside it "note".
  Result<Json> set_curated(std::string_view name, const Json& environment);
  Status delete_curated(std::string_view name);

  // What each role may ask of machines.
  Result<Json> policies();
  Result<Json> set_policy(std::string_view role, const Json& changes);

  // Machines that have joined the workspace, and one's own.
  Result<Json> machines(std::string_view workspace);
  // `lifetime_s` 0: a day.
  Result<Json> create_node_token(std::string_view workspace, std::string_view name,
                                 std::string_view label, int64_t lifetime_s);
  Status remove_machine(std::string_view key, bool force);
  // Runs a command on nodes: {"command", "node" or "all", "timeoutSeconds"}; a list of {"exec",
  // "node"}. `what`: "runs/ID", "machines/KEY" or "workspaces/W/computes/C".
  Result<Json> exec(std::string_view what, const Json& body);
  struct ExecPart {
    std::string bytes;
    uint64_t next = 0;
    bool taken = false;
    std::optional<int> exit_code;  // It has ended.
    std::optional<Error> error;    // Why it did not run, or not to its own end.
  };
  Status stop_exec(std::string_view exec);
  Result<ExecPart> exec_output(std::string_view exec, uint64_t from, int wait_s);

  // The run; not_found "snapshot …" when its tree must be uploaded first.
  Result<Json> submit(const RunId& id, const RunSpec& spec);
  Result<Page> runs(const RunQuery& query, int limit, std::string_view cursor);
  Result<Json> run(const RunId& id);
  Result<RunSpec> spec(const RunId& id);
  // {"tags", "properties", "displayName", "description", "archived"}; the run.
  Result<Json> update(const RunId& id, const Json& changes);
  Result<Json> metrics(const RunId& id);
  Result<Json> series(const RunId& id, std::string_view name, int64_t from, int limit);
  Result<Json> cancel(const RunId& id);
  // The run once its version is above `version`, or after `wait_s`.
  Result<Json> wait(const RunId& id, int64_t version, int wait_s);
  Result<FollowState> follow(const RunId& id, const FollowQuery& query, const ConsoleSink& sink);

  Result<Json> files(const RunId& id);
  Result<FilePart> file(const RunId& id, std::string_view path, uint64_t from, int wait_s,
                        const ByteSink& sink);
  // A stretch of a rank's console, in its byte space: its last lines, or what one attempt printed.
  struct Stretch {
    uint64_t begin = 0;
    uint64_t end = 0;
  };
  Result<Stretch> tail(const RunId& id, std::string_view console, int lines);
  Result<Stretch> attempt(const RunId& id, std::string_view console, int attempt);
  Result<snapshot::Tree> outputs(const RunId& id);
  Result<snapshot::Tree> snapshot(const RunId& id);

 private:
  Result<http::Response> send(const http::ClientRequest& request);
  Result<Json> call(http::Method method, std::string target);
  Result<Json> call(http::Method method, std::string target, const Json& body);
  Result<Json> all(const std::string& target);
  Result<Stretch> stretch(std::string target);
  Result<snapshot::Tree> tree(const RunId& id, std::string_view which);

  std::mutex mutex_;  // Of replacing client_ against interrupt().
  http::Client client_;
  std::function<void(std::string_view)> trace_;
  std::function<Result<http::Client>()> revive_;
};

}  // namespace trainyard::client
