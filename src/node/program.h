#pragma once

#include <string_view>

#include "base/fd.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/result.h"

namespace trainyard::node {

// The program that nodes are given: trainyard-node, the supervisor alone, linked statically so that
// it starts on any Linux of this processor. It travels in the release binary.
struct Program {
  std::string_view bytes;
  Digest digest;
};

// The one in this binary; `not_found` in a build without it. The first call reads it through (some
// ms); thread-safe.
Result<Program> program();

// The program as a part of a file, namely of the running binary: sending it to many nodes at once
// costs no memory.
struct ProgramFile {
  Fd fd;
  uint64_t offset = 0;
  uint64_t size = 0;
};
Result<ProgramFile> open_program();

// Puts it into a folder of its own under `root`, unless it is there, and returns its path. It
// starts twice as fast as the whole binary. Supervisors that other builds have started need theirs.
enum class Others { kept, removed };
Result<fs::path> install_program(const fs::path& root, Others others);

}  // namespace trainyard::node
