#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "base/clock.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/log.h"
#include "base/result.h"

namespace trainyard::engine::slurm {

struct TunnelOptions {
  std::string ssh;         // USER@LOGIN.
  std::string slurm_conf;  // There.
  std::string partition;   // Whose nodes report through it; empty: all.
  std::string path;        // Where ssh is looked for; empty: $PATH.
  fs::path folder;         // For its socket and its port; made 0700.
  std::string name;        // Its own among those of the folder: [A-Za-z0-9]{1,16}.
  uint16_t server_port = 0;
  std::string_view program;  // trainyard-node, which has the relay.
  std::string program_sha256;
  Clock& clock;
  Log& log;
  seconds retry_max{30};
};

// One ssh connection to a login node, kept and made again when it breaks. Slurm's commands share it
// by its control socket. Reports come back by it: nodes reach a relay on the login node, at an
// address that leads to them, and the relay a port that ssh forwards to our server's loopback. The
// relay is trainyard-node, put there once; it has the same port each time, also after a restart of
// ours, because the scripts of jobs that wait name it. Thread-safe.
class Tunnel {
 public:
  explicit Tunnel(TunnelOptions options);
  ~Tunnel();
  Tunnel(const Tunnel&) = delete;
  Tunnel& operator=(const Tunnel&) = delete;

  // Connects, on a thread of its own; `changed` is called there when what follows has changed.
  void start(std::function<void()> changed);
  // Ends it; `changed` is not called again.
  void stop();

  // Where nodes find the server; empty until it is known.
  std::string url() const;
  // Why there is no connection, and what to do; empty: there is one.
  std::string trouble() const;
  // For ssh's ControlPath.
  const fs::path& control() const { return control_; }

 private:
  class Talk;

  void keep(std::stop_token stop);
  Status connect();
  std::vector<std::string> words(std::vector<std::string> ssh) const;
  std::string script() const;
  fs::path port_file() const { return options_.folder / (options_.name + ".port"); }
  uint16_t kept_port() const;
  void forget_port();
  void came_up(const std::string& address, uint16_t port);
  void went_down(const Error& error);

  const TunnelOptions options_;
  std::unique_ptr<TempDir> short_;  // Where the folder's own path is too long for a socket.
  fs::path control_;
  std::map<std::string, std::string> environment_;
  const Fd stop_;
  std::function<void()> changed_;
  int taken_ = 0;  // The thread's: tries in a row that found the port in use.

  mutable std::mutex mutex_;
  std::string url_;  // Held by mutex_, as is this.
  std::string trouble_;
  std::jthread thread_;  // The last: it ends before what it uses.
};

}  // namespace trainyard::engine::slurm
