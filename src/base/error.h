#pragma once

#include <string>
#include <string_view>

namespace trainyard {

// What the caller can do about a failure: one kind per reaction, never per cause. api/errors.cc
// maps a kind to an HTTP status, cli/exit.cc to an exit code, base/retry.h to a retry.
enum class ErrorKind {
  invalid,      // The caller sent something wrong; the same call will fail again.
  denied,       // The caller may not do this.
  not_found,    // The thing named does not exist.
  conflict,     // The thing exists in a state that forbids this.
  unavailable,  // A peer, disk or network did not answer; trying again may work.
  no_space,     // A disk is full: retrying does not help, freeing space does.
  cancelled,    // We were told to stop.
  internal,     // Our bug, or a disk that lies.
};

std::string_view to_string(ErrorKind kind);
// The reverse; what is not a kind is `internal`.
ErrorKind error_kind_from(std::string_view name);

struct Error {
  ErrorKind kind = ErrorKind::internal;
  std::string message;  // "open /data/x: No such file or directory", no final period.
  std::string hint;     // What to do about it, a sentence; may be empty.

  // Puts what we were doing in front: "stage dataset cifar: open ...".
  Error within(std::string_view doing) &&;
};

// In one line: what happened, and what to do.
std::string told(const Error& error);

// "DOING: No such file or directory", of the kind that fits `number` (ENOENT: not_found, EACCES:
// denied, ENOSPC: no_space, EINVAL and the like: invalid, else unavailable).
Error errno_error(int number, std::string_view doing);

}  // namespace trainyard
