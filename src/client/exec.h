#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "http/client.h"

namespace trainyard::client {

// Changes what a command prints on its way to the server, chunk by chunk; after the last it hands
// out what it held back.
using PrintFilter = std::function<std::string(std::string_view bytes, bool last)>;

// Where and how commands run that the server orders for this node (`node exec`).
struct ExecSetting {
  fs::path folder;
  std::map<std::string, std::string> variables;
  std::function<PrintFilter()> make_filter = {};  // One for each command; none: as it is.
};

// Runs them, each on a thread of its own, and sends what they print as they print it. What still
// runs at the end of this object is killed. Thread-safe.
class ExecRunner {
 public:
  struct Options {
    http::Address address;
    std::string token;
    std::string url;    // "/api/v1/…/execs/": an id and "/take" or "/output" follow.
    std::string query;  // "node=0", or empty.
  };
  ExecRunner(Clock& clock, Options options) : clock_(clock), options_(std::move(options)) {}
  ~ExecRunner();

  // From now on they run; those offered before begin.
  void open(ExecSetting setting);
  // Ids; what was offered before is known.
  void offer(const std::vector<std::string>& ids);

 private:
  struct Running {
    std::optional<std::jthread> thread;  // The thread is the last to touch what is here.
    bool over = false;
  };

  void start(const std::string& id);  // Holds the lock.
  void run(const std::string& id, std::stop_token stop);
  int execute(const std::string& id, http::Client& client, const std::vector<std::string>& command,
              seconds timeout, std::stop_token stop, uint64_t& sent);
  Result<std::string> send(http::Client& client, const std::string& rest, std::string body);

  Clock& clock_;
  const Options options_;
  std::mutex mutex_;
  std::optional<ExecSetting> setting_;  // Held by mutex_, as all below.
  std::set<std::string> known_;
  std::vector<std::string> waiting_;
  std::map<std::string, Running> running_;
};

}  // namespace trainyard::client
