#pragma once

#include <string>

#include "base/error.h"

namespace trainyard::cli {

inline constexpr int kExitOk = 0;
inline constexpr int kExitInvalid = 2;
inline constexpr int kExitUnavailable = 6;
inline constexpr int kExitBug = 70;
inline constexpr int kExitInterrupted = 130;
inline constexpr int kExitPipe = 141;  // As a shell has it for SIGPIPE: whoever read us went away.

// The contract's exit code for what went wrong.
int exit_code(ErrorKind kind);

// "error: what: why", then what to do about it, indented under it.
std::string format_error(const Error& error);

}  // namespace trainyard::cli
