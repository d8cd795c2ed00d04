#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/context.h"
#include "cli/interrupt.h"

namespace trainyard::cli {

struct FollowOptions {
  std::optional<int> rank;     // Only this one's console.
  int ranks = 1;               // Of the run: several are told apart by their numbers.
  std::vector<uint64_t> from;  // Where to begin, per rank; empty: at the beginning.
  std::vector<uint64_t> to;    // Where to end, per rank; empty: at the end.
  int64_t version = 0;         // The newest we know of.
};

enum class Outcome { ended, detached, output_closed };

struct Followed {
  Outcome outcome = Outcome::ended;
  client::FollowState state;
  int ranks = 0;  // Whose consoles were shown; 0: none were.
};

// Streams a run's console to our outputs until the run is over, and says why it waits meanwhile.
// A server that goes away is found or started again, and the stream goes on where it stood.
Result<Followed> follow_run(Context& context, const RunId& id, const FollowOptions& options,
                            Interrupts& interrupts);

// Waits for the end without the console; `detached` by Ctrl-C at once.
Result<Followed> wait_for_run(Context& context, const RunId& id);

// The console so far, without waiting for more.
Status show_console(Context& context, const RunId& id, const FollowOptions& options);

// The words at the end and the exit code that goes with them; the last line is the contract's
// "run ID: STATUS, exit N". Prints the run where -o or -t asks for it.
Result<int> finish_followed(Context& context, const RunId& id, const Followed& followed);

// The same without printing the run.
Result<int> say_end(Context& context, const RunId& id, const Followed& followed);

// Ctrl-C's first words: the id, and what a second one does.
void say_interrupted(const Context& context, const RunId& id);

// The exit code of a run that is over.
int exit_code_of(const client::FollowState& state);

}  // namespace trainyard::cli
