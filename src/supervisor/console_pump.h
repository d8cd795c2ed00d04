#pragma once

#include <poll.h>

#include <memory>
#include <string>
#include <vector>

#include "runtime/ranks.h"
#include "seal/masking.h"
#include "supervisor/spool.h"

namespace trainyard::supervisor {

// Carries what the ranks print from their pipes into their spools, in the order it arrives. One
// thread.
class ConsolePump {
 public:
  // `mask` hides what nobody may read; a copy for each pipe.
  ConsolePump(runtime::RankSet& ranks, std::vector<std::unique_ptr<Spool>>& spools,
              const seal::Mask& mask = {});

  // Adds an entry to `polled` for each pipe that is open.
  void add_to(std::vector<pollfd>& polled) const;
  // One reading from each pipe that has something, so that no rank starves another. True when
  // anything was kept.
  Result<bool> read_ready(const std::vector<pollfd>& polled, size_t first);
  // All that is left, once nobody writes any more.
  Status read_rest();
  // The disk is full: what is printed from now on is read and dropped, lest a rank hang in a write.
  void drop() { dropping_ = true; }

 private:
  struct Pipe {
    Fd fd;
    size_t rank = 0;
    char stream = 'o';
    seal::Mask mask;
  };
  // What the mask has held back, when nothing follows.
  Status flush(Pipe& pipe);
  // How much was read; 0 when there is nothing now.
  Result<size_t> read_once(Pipe& pipe);

  std::vector<Pipe> pipes_;
  std::vector<std::unique_ptr<Spool>>& spools_;
  std::vector<char> buffer_;
  bool dropping_ = false;
};

}  // namespace trainyard::supervisor
