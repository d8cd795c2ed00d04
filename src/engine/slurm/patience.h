#pragma once

#include "base/clock.h"

namespace trainyard::engine::slurm {

// How long things are waited for.
struct Patience {
  seconds look{1};                   // Between two looks at the queue while something is under way.
  milliseconds look_cancelled{250};  // And while somebody waits for a job to be cancelled.
  seconds look_idle{60};             // And when nothing is.
  seconds look_max{5};               // While Slurm does not answer, or is slow to.
  seconds retry_max{5};              // Between two tries at a submission.
  seconds full{20};                  // Before another, when Slurm has too many jobs.
  seconds missing{5};                // Of a job that Slurm does not show.
  seconds ended{3};                  // For the last report of a job that has ended.
  seconds ending{300};               // Of a job that does not get done with ending.
  seconds never{10};                 // Of a job that waits for what cannot be.
  seconds released{10};              // For a job whose attempt is over to end by itself.
  seconds orphan{30};                // For somebody to know a job of ours.
  seconds cancel_again{10};
  // For the job of the attempt before to be seen to end: Slurm's KillWait and a site's epilog.
  seconds settle{60};
  seconds alone{600};  // Without arrays, after Slurm refused one.
  seconds cut{600};    // For the next attempt of a run whose job others cancelled.
  // After a controller was away, what it cancels may be its own doing: it gives a number out twice,
  // and nodes that come back end the job that has it now.
  seconds confused{120};
  // Nodes are brought up by need: what cannot be for want of nodes may yet be.
  bool nodes_come = false;
  bool has_setup = false;  // A job runs the target's setup before its supervisor reports.
};

}  // namespace trainyard::engine::slurm
