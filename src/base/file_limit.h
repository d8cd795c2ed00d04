#pragma once

#include <sys/resource.h>

namespace trainyard {

// How many files a process may have open, RLIMIT_NOFILE. We raise our own soft limit to the hard
// one; what spawn() and start_program() start gets back the one that we were given, for a program
// that uses select(2) or walks through all its descriptors is made for that one.
struct FileLimit {
  rlimit given{};  // As it was when we were started.
  rlimit now{};
};

// Raises it, for this process alone. May be called again. Thread-safe.
FileLimit raise_file_limit();

// In a child between fork and exec: the limit that we were given. Makes only system calls.
void give_back_file_limit();

}  // namespace trainyard
