#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/mpi_agent.h"

// What is said to an MPI's mpirun, and by which variables. No I/O.
namespace trainyard::runtime {

// The variables by which a supervisor tells its launcher, and that all of an attempt's processes on
// its node hand on. A rank's own program sees none of them.
inline constexpr const char* kMpiSocket = "TRAINYARD_MPI_SOCKET";    // mpi_words.h
inline constexpr const char* kMpiProgram = "TRAINYARD_MPI_PROGRAM";  // Our own, on this node.
inline constexpr const char* kMpiFolder = "TRAINYARD_MPI_FOLDER";    // Where ranks start.
inline constexpr const char* kMpiScratch = "TRAINYARD_MPI_SCRATCH";  // For MPI's own files.
inline constexpr const char* kMpiHosts = "TRAINYARD_MPI_HOSTS";      // format_hosts(); one: none.
inline constexpr const char* kMpiHostFile = "TRAINYARD_MPI_HOST_FILE";
inline constexpr const char* kMpiNode = "TRAINYARD_MPI_NODE";
inline constexpr const char* kMpiPerNode = "TRAINYARD_MPI_PER_NODE";
inline constexpr const char* kMpiGrace = "TRAINYARD_MPI_GRACE";  // Seconds.
inline constexpr const char* kMpiOwn = "TRAINYARD_MPI_OWN";      // 1: the command is an mpirun.
inline constexpr const char* kMpiToken = "TRAINYARD_TOKEN";      // The attempt's.

struct MpiPlace {
  std::vector<MpiHost> hosts;  // Empty: this node alone.
  int node = 0;
  int per_node = 1;
  int grace_s = 30;

  int nodes() const { return hosts.empty() ? 1 : static_cast<int>(hosts.size()); }
  int ranks() const { return nodes() * per_node; }
  // The nodes are several of one machine, each with a loopback address.
  bool one_machine() const { return !hosts.empty() && hosts[0].address.starts_with("127."); }
};

// Whose mpirun it is, by what it says of its version.
struct MpiKind {
  enum class Family { none, open_mpi, hydra, other };
  Family family = Family::none;
  int major = 0;     // Of Open MPI.
  std::string name;  // Its first line.
  bool operator==(const MpiKind&) const = default;
};
MpiKind mpi_kind(std::string_view version);

// "198.18.0.11 slots=2\n…", one line a node, in their order. On one machine the first is
// "localhost": Open MPI would start a daemon on any other loopback address.
std::string host_file(const MpiPlace& place);

using MpiVariables = std::map<std::string, std::string>;

// What mpirun is told by its variables: our agent, and nothing of a scheduler it might find. `cpus`
// are those of this node. What is in `variables` already, the job has set; it stays where it may.
void add_open_mpi_variables(const MpiKind& kind, const MpiPlace& place, int cpus,
                            MpiVariables& variables);
// Takes away by what mpirun would find out that it is in a job of a scheduler.
void hide_scheduler(MpiVariables& variables);

// The words: every rank through our own wrapper. `file` is mpirun's.
std::vector<std::string> open_mpi_command(const std::string& file, const MpiPlace& place,
                                          const std::string& host_file, bool root);

// Whether the words of a command are an mpirun already.
bool is_mpirun(const std::vector<std::string>& command);

// The variables of a rank: those of its supervisor, and over them what its MPI has set.
MpiVariables rank_variables(MpiVariables planned, const MpiVariables& own);

}  // namespace trainyard::runtime
