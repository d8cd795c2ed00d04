#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace trainyard::runtime {

// What an attempt's MPI processes and their supervisor say to each other on a node, a packet each,
// by a socket without a file: it works whatever the processes see of our folders, and nothing of it
// stays. Both ends are one binary, so a plain struct will do.
enum class MpiWord : int32_t {
  // To the supervisor.
  launcher,       // Hello; with the two descriptors it prints to.
  launch_failed,  // Nothing can be launched here; `text`.
  launch_ended,   // mpirun, or its daemon here, has ended; `number` is its exit code.
  rank,           // Hello of rank `number`.
  start_failed,   // Its program cannot be started: `number` is the errno, at `step`.
  stopped,        // mpirun wants it to end.
  ended,          // `number` is its wait status; `step` is 1 if it was told to end.
  // To a rank.
  plan,             // With three descriptors: its two outputs, and a handover.
  refused,          // It does not belong here; `text`.
  terminate_first,  // SIGTERM to its first process.
  terminate_group,  // SIGTERM to the rest of its process group.
};

struct MpiPacket {
  MpiWord word = MpiWord::launcher;
  int32_t number = 0;
  int32_t step = 0;
  char text[1024] = {};  // Ends with a NUL.
};
MpiPacket mpi_packet(MpiWord word, int32_t number = 0, std::string_view text = {});

// A name that nobody guesses; whoever is not of our user is refused besides.
std::string new_mpi_socket_name();
Result<Fd> listen_mpi(const std::string& name);
// None when nobody waits.
Result<Fd> accept_mpi(int listener);
Result<Fd> connect_mpi(const std::string& name);

Status send_mpi(int fd, const MpiPacket& packet, const std::vector<int>& fds = {});
struct MpiReceived {
  MpiPacket packet;
  std::vector<Fd> fds;
};
// Waits for it. `unavailable` when the other end is gone.
Result<MpiReceived> receive_mpi(int fd);

}  // namespace trainyard::runtime
