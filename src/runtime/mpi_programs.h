#pragma once

#include <string>
#include <vector>

#include "runtime/mpi_command.h"

namespace trainyard::runtime {

// The programs of ours that carry MPI's ranks, each a subcommand of the binary and started by
// nobody but us:
//
//   mpi-launch            one a node, started by its supervisor: on the first node starts mpirun,
//                         on the others waits for its agent
//   mpi-agent HOST CMD…   started by mpirun in place of ssh
//   mpi-rank              started by mpirun in place of a rank's program, which it starts
//
// -1: it is none of them.
int mpi_program(const std::vector<std::string>& words);

// Of our own environment.
std::string mpi_variable(const char* name);  // Empty: not there.

int mpi_launch();
int mpi_agent(const std::vector<std::string>& words);
int mpi_rank();

}  // namespace trainyard::runtime
