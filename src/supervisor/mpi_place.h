#pragma once

#include <memory>

#include "supervisor/context.h"

namespace trainyard::supervisor {

// Where a run asks for MPI its ranks are mpirun's to start, else ours; to the steps they are alike.
Result<std::unique_ptr<runtime::RankSet>> prepare_ranks(const Assignment& assignment,
                                                        const runtime::RanksOptions& options);

// Tells them among which nodes they are; before they are started.
void place_ranks(Context& context);

// What the MPI of a supervisor that died has left on this node besides processes.
void remove_mpi_leftovers(const Assignment& assignment);

}  // namespace trainyard::supervisor
