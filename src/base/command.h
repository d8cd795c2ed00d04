#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "base/result.h"

namespace trainyard {

// Whether this program was linked statically. Such a one has no dynamic loader: it cannot load a
// library of the machine it runs on, nor may glibc do so for it (NSS).
bool statically_linked();

// The file of a program, by the PATH of our environment or, where there is none, the usual folders;
// empty when there is no such program.
fs::path find_program(std::string_view name);

// Starts a program that is to be waited for with waitpid(2); its stdin and stderr are /dev/null.
// `command[0]` is looked for by find_program().
Result<pid_t> start_program(std::vector<std::string> command, int stdout_fd);

// What a program says on stdout, once it has ended with 0. It is killed at the end of
// `timeout`; no more than a megabyte is kept.
Result<std::string> output_of(std::vector<std::string> command, milliseconds timeout);

}  // namespace trainyard
