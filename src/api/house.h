#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "api/execs.h"
#include "api/pins.h"
#include "api/reach.h"
#include "api/run_watch.h"
#include "api/slow_lane.h"
#include "api/trees.h"
#include "base/clock.h"
#include "base/home.h"
#include "base/log.h"
#include "blob/blob_store.h"
#include "control/control.h"
#include "http/server.h"
#include "logs/log_store.h"
#include "seal/box.h"
#include "store/store.h"

namespace trainyard::api {

class Collector;
class Environments;
class Gate;
class Machines;
class Shells;
class Targets;

// What the server knows of itself; set before it opens.
struct Facts {
  std::string url;
  std::string socket;
  std::string host;
  int pid = 0;
  WallTime started{};
  bool loopback = false;      // Nobody on another machine can reach us.
  bool server_target = true;  // This machine is a target for others than its own account.
  // On loopback, requests over TCP must name one of `hosts`: a page of a stranger's whose name was
  // made to point here names another.
  bool check_host = true;
  std::vector<std::string> hosts = {"127.0.0.1", "localhost", "[::1]"};
};

// A token for the owner of the socket, made when first asked for.
struct OwnToken {
  std::string secret;
  WallTime expires{};
};

// All that the routes work with. Handed to every handler; each part is thread-safe.
class House {
 public:
  struct Parts {
    Clock& clock;
    Log& log;
    const Home& home;
    store::Store& store;
    blob::Store& blobs;
    logs::LogStore& logs;
  };
  explicit House(Parts parts);
  ~House();

  // The routes answer 503 until then. `stop` asks the server to end; it returns at once.
  void open(control::Control& opened_control, http::Server& opened_server, Facts known,
            std::function<void()> stop);
  static constexpr std::string_view kOpenKey = "open";  // Of requests that wait for open().
  static constexpr std::string_view kSlowKey = "slow";  // Of those that wait for `slow_lane`.
  bool is_open() const { return open_.load(std::memory_order_acquire); }

  // From now on nothing is parked: what waits answers with what there is, and commands on clusters
  // are ended.
  void stop_waiting();
  bool stopping() const { return stopping_; }

  // Wakes who reads the run's state.
  void run_changed(const RunId& run);
  // Forgets what is in memory of all runs.
  void runs_changed() { watch.all_changed(); }
  // Wakes who reads its console and files.
  void run_printed(const RunId& run);
  // Adds a line to the server's own log of the run, system_logs/server.txt.
  void add_note(const RunId& run, std::string_view line);
  // What the run printed and put out outlives the power. A disk that cannot is noted in our log: it
  // must not keep a run from ending.
  void seal(const RunId& run);

  // The name of a system user; `look_up` is asked once each.
  std::string system_name(unsigned uid, std::string (*look_up)(unsigned));

  // What seals secrets; its key is made when it is first needed. It stays until the end.
  Result<const seal::Box*> box();
  // The same, for signatures: no secret has to pass through this process for them.
  Result<const seal::Box*> signer();

  // Keys of parked requests: `state` is notified when the run changes, `output` when it prints too.
  static std::string state_key(const RunId& run) { return "state/" + run.value; }
  static std::string output_key(const RunId& run) { return "output/" + run.value; }
  // The key that readers of a node command's output wait for.
  static std::string exec_key(std::string_view id) { return "exec/" + std::string(id); }
  // Of who waits for an environment.
  static std::string environment_key(std::string_view hash) {
    return "environment/" + std::string(hash);
  }
  // The key that requests wait for while the server reads an image file.
  static std::string image_key(std::string_view image) { return "image/" + std::string(image); }
  // Of a machine that waits for orders.
  static std::string machine_key(std::string_view key) { return "machine/" + std::string(key); }

  Clock& clock;
  Log& log;
  const Home home;
  store::Store& store;
  blob::Store& blobs;
  logs::LogStore& logs;
  Trees trees;
  TreeDigests tree_digests;
  Claims claims;
  RunWatch watch;
  SlowLane slow_lane;
  Guarded<OwnToken> own_token;
  // One backup, check or collection at a time: a backup must not miss what a collection removes.
  std::mutex upkeep;
  Pins pins;
  Execs execs;
  // Files of interactive runs that are not in a tree yet, by run (api/outputs.h). The lock is held
  // while a tree is made.
  Guarded<std::map<std::string, int64_t>> outputs;

  // Valid once open.
  control::Control* control = nullptr;
  Targets* targets = nullptr;            // None in tests without engines.
  Machines* machines = nullptr;          // The same.
  Environments* environments = nullptr;  // The same.
  Gate* gate = nullptr;                  // The same.
  Collector* collector = nullptr;        // The same.
  http::Server* server = nullptr;
  std::unique_ptr<Shells> shells;
  Facts facts;
  std::function<void()> request_stop;

 private:
  std::atomic<bool> open_{false};
  std::atomic<bool> stopping_{false};
  std::mutex notes_;  // One line at a time.
  Guarded<std::map<unsigned, std::string>> system_names_;
  Guarded<std::optional<seal::Box>> box_;
};

}  // namespace trainyard::api
