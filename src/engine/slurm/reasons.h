#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/slurm/queue_text.h"

namespace trainyard::engine::slurm {

// The nodes of one partition, counted.
struct Numbers {
  int total = 0;
  int idle = 0;
  int in_use = 0;
  int off = 0;  // Down, drained, not answering or powered off.
  bool known() const { return total > 0; }
};
// Of the partition of that name; empty: Slurm's default one.
Numbers count_nodes(const std::vector<Node>& nodes, std::string_view partition);

// Why a job waits, in words and numbers: "waits for 4 nodes: 1 idle of 6, 5 in use; Slurm expects
// it to start at 14:05 UTC". A reason that is not known is shown as Slurm says it.
// `has_setup`: a job runs the target's setup first.
std::string words_for(const Job& job, const Numbers& numbers, WallTime now, bool has_setup = false);

// Whether a job that waits for this will wait forever, unless somebody changes the cluster.
bool is_never(std::string_view reason);

// Whether nodes that come up may be what a job waits for, and not a license or an account's limit.
bool is_for_nodes(std::string_view reason);

// How a job ended, in words.
struct Ending {
  std::string words;
  bool evicted = false;  // The node was taken away, by whatever.
  bool stopped = false;  // It did not end by itself: the words say why.
};
Ending ending_of(const Job& job, std::string_view server_url);

}  // namespace trainyard::engine::slurm
