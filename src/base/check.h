#pragma once

namespace trainyard {

// Prints the broken promise and aborts. A journal or the database recovers what was under way.
[[noreturn]] void ensure_failed(const char* what, const char* file, int line);

}  // namespace trainyard

// ENSURE(!attempt.ended);
// What must be true unless we have a bug; on in release. Never for what a user or a peer can cause.
#define ENSURE(condition) \
  ((condition) ? static_cast<void>(0) : ::trainyard::ensure_failed(#condition, __FILE__, __LINE__))
