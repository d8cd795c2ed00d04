#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "runtime/shared_root.h"

namespace trainyard::runtime {

struct RankCommand {
  std::vector<std::string> command;
  std::map<std::string, std::string> environment = {};  // All of it.
  SharedRoot shared = {};  // The same for all ranks of a node; the first one's is used.
  bool operator==(const RankCommand&) const = default;
};

// How commands and variables of any size come from the supervisor to init, which was forked long
// before they were known: by a file in memory that both hold, since secrets among them must not
// reach a disk.
Result<Fd> open_handover();
Status hand_over(int fd, const std::vector<RankCommand>& ranks);
Result<std::vector<RankCommand>> take_handover(int fd);

// The text in between: numbers of 8 bytes, and bytes after their count. Init and supervisor are one
// binary.
std::string encode(const std::vector<RankCommand>& ranks);
Result<std::vector<RankCommand>> decode(std::string_view text);

}  // namespace trainyard::runtime
