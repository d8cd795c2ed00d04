#pragma once

#include "base/file.h"

namespace trainyard::supervisor {

// What the process that carries an attempt exits with.
inline constexpr int kExitDone = 0;    // The attempt is over and the server knows it.
inline constexpr int kExitFailed = 1;  // It is not: another supervisor must take over.
inline constexpr int kExitBusy = 75;   // Another supervisor is at work in this folder.
// The server was away for longer than what is unsent is kept back; it is in the folder.
inline constexpr int kExitUnsent = 76;

// Where others of the same account can read the node's files, the token is not among them: it is a
// line of our standard input.
enum class TokenFrom { assignment, standard_input };
// To collect: the folder is a copy of one that a node left. Nothing of it runs here, so nothing is
// looked for to be killed; what it says of processes and containers is not heeded.
enum class Purpose { carry, collect };

// Carries the attempt whose assignment lies in `folder`, from its code to its last report; returns
// an exit code. Where an earlier supervisor died, it ends that one's attempt instead: kills what is
// left, sends what was not sent, says how it ended. To be called by main() with no thread running.
// TRAINYARD_ISOLATION=sweep in our environment does without a PID namespace, for tests.
int supervise(const fs::path& folder, TokenFrom token_from = TokenFrom::assignment,
              Purpose purpose = Purpose::carry);

}  // namespace trainyard::supervisor
