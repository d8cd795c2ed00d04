#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <string>

#include "base/file.h"
#include "client/attempt.h"

namespace trainyard::supervisor {

// The files of logs/ as they grow, and our own system log: looked at from time to time, what is new
// is sent. A file that was cut or written anew is sent anew. Links are not followed. Used by one
// thread, the uplink's.
class LogFiles {
 public:
  struct Options {
    fs::path folder;               // Each file becomes `prefix` + its path in there.
    fs::path system_log;           // A file of ours;
    std::string system_name;       // and its name at the server.
    fs::path preparation;          // What the job's preparation prints; empty: it has none.
    std::string preparation_name;  // At the server.
    std::string prefix = "logs/";  // Ends with a slash.
    // Texts that nobody may read (seal::forms_of): covered on their way, as in the console. The end
    // of a file that may become one is held back until it does not, or the last look.
    std::vector<std::string> hidden;
  };
  explicit LogFiles(Options options);

  // Any thread. Our own log is sent once it is wanted: a short run of which there is nothing to
  // tell spares itself the request.
  void want_system_log() { system_log_wanted_ = true; }

  // Stats all files; what differs from what was sent is to be sent.
  enum class Last { no, yes };  // yes: nobody writes any more.
  void scan(Last last = Last::no);
  bool pending() const { return !queue_.empty(); }
  // The server may have less than it said: each file is compared with what it has, and sent from
  // there.
  void compare_all();
  // Sends one piece of one file. `buffer` is memory to use.
  Status send_next(client::AttemptApi& server, std::string& buffer);

 private:
  struct Tracked {
    fs::path local;
    bool queued = false;
    bool known = false;    // Sent at least once.
    bool doubted = false;  // Whether the server still has it is to be asked first.
    bool refused = false;  // The server does not take this name.
    uint64_t sent = 0;
    uint64_t held = 0;  // Behind that, what may become a hidden text.
    uint64_t inode = 0;
    int64_t changed_ns = 0;  // The newest change that was looked at.
    uint64_t guard = 0;      // Of the last bytes that were sent: still there, or written anew?
  };
  void look_at(const std::string& name, const fs::path& local);
  // Of an open file: whether what was sent of it is no longer its beginning.
  static bool begun_anew(int fd, const Tracked& file, uint64_t size, uint64_t inode);
  static uint64_t guard_of(int fd, uint64_t end);
  // Reads [from, end) into `buffer` as it may be sent; returns how much of its end is held back.
  Result<uint64_t> read_covered(int fd, uint64_t from, uint64_t end, std::string& buffer) const;
  static Status ask(client::AttemptApi& server, const std::string& name, Tracked& file, int fd,
                    std::string& buffer);
  void leave(const std::string& name);

  const Options options_;
  size_t hidden_longest_ = 0;
  bool last_ = false;
  std::atomic<bool> system_log_wanted_{false};
  std::map<std::string, Tracked> files_;
  std::deque<std::string> queue_;
};

}  // namespace trainyard::supervisor
