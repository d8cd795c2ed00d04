#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "client/attempt.h"
#include "supervisor/system_log.h"

namespace trainyard::supervisor {

// What the ranks' scripts told (wire/records.h), each rank in a file of its own that its processes
// append to. Looked at from time to time; whole lines that are new are sent, by their offset, so
// that the server counts none twice. Used by one thread, the uplink's.
class Records {
 public:
  // `hidden`: texts that nobody may read (seal::forms_of); they are covered on their way.
  // The first of `files` is that of `first_rank`.
  Records(std::vector<fs::path> files, SystemLog& log, std::vector<std::string> hidden = {},
          int first_rank = 0);

  // Stats all files.
  void scan();
  bool pending() const;
  // The server may have less than it said: it is asked, and all is sent from there.
  void compare_all();
  // Sends one piece of one file. `buffer` is memory to use.
  Status send_next(client::AttemptApi& server, std::string& buffer);

 private:
  struct Stream {
    fs::path file;
    uint64_t size = 0;
    uint64_t sent = 0;     // Bytes the server has taken.
    uint64_t stuck = 0;    // Up to here there is no whole line behind `sent`.
    bool doubted = false;  // Whether the server still has them is to be asked first.
    bool given_up = false;
    bool waits() const { return !given_up && (doubted || (size > sent && size > stuck)); }
  };

  std::vector<Stream> streams_;
  SystemLog& log_;
  const std::vector<std::string> hidden_;
  const int first_rank_;
};

}  // namespace trainyard::supervisor
