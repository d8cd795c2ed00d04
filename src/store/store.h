#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "model/run.h"

namespace trainyard::db {
class Db;
class Transaction;
}  // namespace trainyard::db

namespace trainyard::store {

struct RunFilter {
  std::string workspace;  // Empty: all.
  std::string experiment;
  std::string status;  // The contract's words, several by commas; empty: all.
  std::string target;
  std::string user;
  int64_t parent = 0;     // Only its children.
  bool children = false;  // Children too; else only those without a parent, or of `parent`.
  struct Tag {
    std::string name;
    std::optional<std::string> value;  // Any, where there is none.
  };
  std::vector<Tag> tags;  // Only runs that have all of them.
  enum class Archived { no, only, any };
  Archived archived = Archived::no;
  // only: those that can be restored by themselves, not with their parent, unless `children` says
  // all; any: what was deleted for good, too.
  enum class Deleted { no, only, any } deleted = Deleted::no;
  std::string named;  // Only runs whose id begins with this, or whose display name it is.
  int limit = 100;
  int64_t before = 0;           // Only runs with a smaller `number`; 0: from the newest.
  std::vector<int64_t> closed;  // Ids of workspaces whose runs are left out.
};

// How long a read may take, and which connections it may use: however many slow readers there are,
// others find a connection free.
enum class ReadKind {
  normal,     // At most 10 s, then `unavailable`.
  first_try,  // At most 10 ms of CPU, then `cancelled`: the caller reads again, with `slow`.
  slow,       // As long as `normal`, on connections that no other kind uses.
};

// Who a request comes from.
struct Identity {
  std::string user;
  Role role = Role::reader;
  std::optional<AttemptId> attempt;   // Set for an attempt's token.
  std::optional<int64_t> workspace;   // The only one it may enter: of an attempt, its run's.
  std::optional<int64_t> token;       // A user's token; none over the Unix socket.
  std::optional<WallTime> expires;    // When that token does,
  std::optional<Role> role_limit;     // and what it is limited to.
  std::optional<int64_t> node_token;  // Set for a one-time token of a machine that is to join.
  std::optional<int64_t> machine;     // Set for the credential of one that has.
  bool handover = false;              // A ticket of model/handover.h: good for that alone.
};

struct StoreOptions {
  fs::path reserve;  // Home::reserve(); empty: no space is kept for a full disk.
  bool sync = true;  // false: nothing waits for the disk; for simulations.
};

// The metadata. Reads go over a few read connections, any thread. Writes that come together are
// committed together (store/writer.h): eight clients cost one fdatasync, not eight.
class Store {
 public:
  // Opens, and brings an older home up to date; refuses a newer one (`conflict`). The workspace
  // `default` and the admin named after the system user are there from the start.
  static Result<std::unique_ptr<Store>> open(const fs::path& database, Clock& clock,
                                             const StoreOptions& options = {});
  virtual ~Store() = default;

  // Runs `change` inside the next commit and returns when that commit is done (durable: on disk, an
  // acknowledged submission outlives the power; not durable: outlives our crash only). An error
  // returned by `change` undoes that change alone. It may run on another caller's thread, and once
  // more if its first commit failed; it must not write() itself.
  virtual Status write(Durable durable, std::function<Status(db::Transaction&)> change) = 0;
  // Several reads that see one state (store/run_queries.h, store/run_rows.h).
  virtual Status read(const std::function<Status(db::Db&)>& look,
                      ReadKind kind = ReadKind::normal) = 0;

  // `no_space` while the reserve is given up: new runs are refused, those under way still end.
  virtual Status check_space() = 0;

  // The newest time on record, for MonotoneClock; the second before any Store is open (a file that
  // is not there: the beginning of time).
  virtual Result<WallTime> newest_time() = 0;
  static Result<WallTime> newest_time_of(const fs::path& database);

  // ---- reads ----
  virtual Result<Run> run(const RunId& id) = 0;  // With attempts and events.
  virtual Result<RunId> find_run(
      std::string_view beginning) = 0;  // not_found; conflict if several.
  virtual Result<std::vector<Run>> runs(const RunFilter& filter) = 0;  // Newest first.
  virtual Result<std::vector<Workspace>> workspaces() = 0;
  virtual Result<Workspace> workspace(std::string_view name) = 0;
  virtual Result<std::vector<Experiment>> experiments(std::string_view workspace) = 0;
  virtual Result<std::vector<User>> users() = 0;
  virtual Result<std::vector<Token>> tokens() = 0;

  // ---- users and tokens; each a commit of its own ----
  virtual Result<User> create_user(std::string_view name, Role role) = 0;  // conflict if there.
  virtual Status delete_user(std::string_view name) = 0;                   // Revokes its tokens.
  struct NewToken {
    Token token;
    std::string secret;  // Shown once; only its hash is kept.
  };
  // What bounds a token beside its user.
  struct TokenLimits {
    std::optional<int64_t> parent = {};  // The token that makes it: it ends with that one.
    std::optional<Role> role = {};       // At most this one.
  };
  virtual Result<NewToken> create_token(std::string_view user, std::string_view label,
                                        std::optional<WallTime> expires,
                                        const TokenLimits& limits) = 0;
  Result<NewToken> create_token(std::string_view user, std::string_view label,
                                std::optional<WallTime> expires) {
    return create_token(user, label, expires, {});
  }
  virtual Status revoke_token(int64_t id) = 0;  // And all that were made with it.
  // Whose secret this is; `denied` when unknown, expired or revoked. Fast: an index on the hash.
  virtual Result<Identity> identify(std::string_view secret) = 0;

  virtual Result<Workspace> create_workspace(const Workspace& workspace) = 0;  // conflict if there.
  virtual Status delete_workspace(std::string_view name) = 0;  // conflict while it has live runs.

  // ---- a run's logs/ and system files: their names, in order of arrival ----
  struct RunFile {
    int64_t number = 0;  // The name of the file under runs/RUN/files/.
    std::string path;
    // By this call: bytes that lie there are of a number that the database has lost.
    bool created = false;
  };
  virtual Result<std::vector<RunFile>> files(const RunId& run) = 0;
  virtual Result<RunFile> file(const RunId& run, std::string_view path) = 0;  // Made when new.

  // ---- the house ----
  virtual Status backup_to(const fs::path& database) = 0;  // A consistent copy, while we run.
  virtual Status check() = 0;                              // SQLite's own integrity check.
  virtual Result<int64_t> count_runs(RunStatus status) = 0;
};

}  // namespace trainyard::store
