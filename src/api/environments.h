#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <semaphore>
#include <string>
#include <string_view>
#include <thread>

#include "base/clock.h"
#include "base/log.h"
#include "blob/blob_store.h"
#include "env/build.h"
#include "env/engine_images.h"
#include "env/shelf.h"
#include "snapshot/tree.h"

namespace trainyard::api {

// Environments as they are made on this machine, each once for all runs that want it. Thread-safe.
class Environments {
 public:
  struct Wanted;
  // One that another machine has made: its files are blobs here, `tree` their list.
  struct Made {
    Realised realised;
    snapshot::Tree tree;  // Of realised.tree.
  };
  struct Parts {
    Clock& clock;
    Log& log;
    fs::path folder;
    blob::Store& blobs;
    env::Settings settings;
    uint64_t bytes_max = 0;  // Of the folder: those used longest ago go; 0: none do.
    // The value of a secret of a workspace, for a registry.
    std::function<Result<std::string>(std::string_view workspace, std::string_view name)> secret;
    // Makes it: env::build, but for tests.
    std::function<Result<Realised>(const Environment& environment, const fs::path& folder,
                                   const env::Settings& settings, env::Watcher& watcher)>
        build;
    // What programs of a build are confined by; empty: nothing, for tests.
    std::function<Result<env::Sandbox>()> sandbox = {};
    // Whether a user is an admin: theirs may be built where there is no sandbox.
    std::function<bool(const std::string& user)> trusts = {};
    // For nodes elsewhere: has it made by another machine, if that is to be so. Ends when it is.
    std::function<Result<std::optional<Made>>(const Wanted& wanted, env::Watcher& watcher)>
        build_elsewhere = {};
    // It is further; for who waits.
    std::function<void(const std::string& hash)> changed;
  };
  explicit Environments(Parts parts);
  ~Environments();  // Ends what is being made; nothing of it stays.

  // What is wanted of it.
  enum class Need {
    made,  // By a run on this machine.
    root,  // The same, of an image also its files.
    tree,  // By a node elsewhere: its files as a tree of blobs.
  };
  struct Wanted {
    Environment environment;
    std::string workspace;
    std::string user = {};
    Need need = Need::made;
    bool begins = false;   // Who asks for the first time: that it failed before is no answer.
    bool ahead = false;    // Nobody waits for it yet: it is made all the same.
    bool for_run = false;  // A run asks, and no person: see give_up().
    // The hash of the environment that this rebuild replaces in the workspace, once it is whole.
    std::string replaces = {};
    uint64_t log_from = 0;
  };
  struct Stand {
    enum class Is { building, ready, failed };
    Is is = Is::building;
    std::string progress;  // In words.
    std::string log;       // From `log_from` on.
    uint64_t log_next = 0;
    int64_t build = 0;  // Which of this server's builds; 0: none was needed.
    Error error;        // failed
    Realised realised;  // ready
  };
  // How far it is. Begins to make it where nobody did.
  Result<Stand> stand(const Wanted& wanted);

  // The last run that wanted it was canceled: what is being made is stopped, unless a person waits
  // for it too.
  void give_up(const std::string& hash);

  // Whether a node elsewhere could fetch it at once: a look at the shelf.
  bool is_packed(const Environment& environment) const;

  // What a run with it waits for, in words; empty: nothing, or nobody asked for it yet.
  std::string words(const Environment& environment);

  // The tree of a packed one; empty: it is not packed, or not here.
  std::string tree_of(const std::string& hash) const;
  // Trees of blobs that packed ones consist of.
  Result<std::vector<std::string>> trees() const;
  // Takes away those that nobody used since `before` and that are `unused`; what failed is logged.
  env::Shelf::Trimmed remove_idle(WallTime before,
                                  const std::function<bool(const std::string& hash)>& unused,
                                  bool dry_run);

  // The rebuild that a workspace uses in place of the environment of that hash; empty: none.
  std::string rebuild_of(std::string_view workspace, const std::string& hash) const;

  // What its hash has to know of this machine.
  Result<std::string> platform(const Recipe& recipe) const;

 private:
  class Job;

  Result<std::optional<env::Shelf::Held>> find(const Wanted& wanted);
  Result<Realised> make(Job& job);
  Result<std::optional<Realised>> make_elsewhere(Job& job);
  Result<Realised> carry_out(Job& job, const Wanted& wanted);
  void add_sandbox(env::Settings& settings, const Wanted& wanted, Job& job);
  void compile(const Environment& environment, const env::Shelf::Held& held);
  Result<Realised> make_tree(Job& job, const env::Shelf::Held& held);
  Status make_root(Job& job, const env::Shelf::Held& held, const env::Settings& settings);
  std::vector<std::string> kept_lock(const Environment& environment) const;
  void keep_lock(const Realised& realised, const Environment& environment) const;
  Status replace(const Wanted& wanted) const;
  void trim();

  const Parts parts_;
  const env::Shelf shelf_;
  env::EngineImages images_;
  std::atomic<bool> stopping_{false};
  std::counting_semaphore<> turns_;  // Builds at a time.
  std::mutex sandbox_mutex_;
  std::optional<env::Sandbox> sandbox_;  // Held by sandbox_mutex_; once it is known to work.
  std::mutex roots_;                     // One image is unpacked at a time.
  std::mutex mutex_;
  std::atomic<int64_t> builds_ = 0;                   // How many were begun.
  std::map<std::string, std::shared_ptr<Job>> jobs_;  // Held by mutex_; by need and hash.
};

std::string_view to_string(Environments::Need need);
Result<Environments::Need> need_from(std::string_view name);

// An environment by the first digits of its hash: "8f31c0".
std::string short_hash(std::string_view hash);

}  // namespace trainyard::api
