#pragma once

#include "base/file.h"
#include "base/id.h"

namespace trainyard {

// Everything Trainyard keeps, drawn once. TRAINYARD_HOME, or ~/.trainyard.
//
//   trainyard.db            metadata (SQLite, WAL); also -wal and -shm
//   lock                    held by the server: host, pid, boot id, port
//   server.json             the port, kept over restarts; read by nobody but the server
//   socket                  the Unix socket, 0600
//   reserve                 space given up when the disk is full, so that final states can be
//   written blobs/ab/cdef…          bytes by their SHA-256 tmp/                    half-written
//   blobs; emptied at start runs/RUN/               what a run keeps beside the database
//     console-0.log         rank 0's two outputs by arrival, attempts following each other
//     console-0.idx         where it switches between stdout and stderr
//     system.log            what Trainyard itself did
//     files/N               the run's logs/ files, named in the database
//   node/RUN.ATTEMPT/       the local engine's node: an attempt's supervisor at work
//   node/RUN.ATTEMPT-N/     the same for node N of an attempt that has several here
//   log/server.log          our own log, rotated
//   cache/                  the command line's snapshot cache
//   environments/           realised environments by their hash (env/shelf.h)
//   secrets.key             what secrets are sealed with, 0600
//   node/.python/HASH/      the Python package for runs on this machine
class Home {
 public:
  explicit Home(fs::path root) : root_(std::move(root)) {}

  const fs::path& root() const { return root_; }
  fs::path database() const { return root_ / "trainyard.db"; }
  fs::path lock() const { return root_ / "lock"; }
  fs::path server_file() const { return root_ / "server.json"; }
  fs::path socket() const { return root_ / "socket"; }
  fs::path reserve() const { return root_ / "reserve"; }
  fs::path blobs() const { return root_ / "blobs"; }
  fs::path tmp() const { return root_ / "tmp"; }
  fs::path runs() const { return root_ / "runs"; }
  fs::path run(const RunId& run) const { return runs() / run.value; }
  fs::path node() const { return root_ / "node"; }
  fs::path attempt(const AttemptId& attempt, int number = 0) const {
    return node() / (attempt.str() + (number == 0 ? "" : "-" + std::to_string(number)));
  }
  fs::path log() const { return root_ / "log" / "server.log"; }
  fs::path cache() const { return root_ / "cache"; }
  fs::path environments() const { return root_ / "environments"; }
  fs::path secrets_key() const { return root_ / "secrets.key"; }

 private:
  fs::path root_;
};

// `flag` (may be empty), else $TRAINYARD_HOME, else ~/.trainyard; made absolute.
Result<Home> find_home(std::string_view flag);

// Makes the folders, all 0700; refuses a home on a network file system, with advice.
Status prepare_home(const Home& home);

// Takes from others whatever rights they have to the home: 0700 for its folders, 0600 for its files
// that hold secrets. A root that is shared on purpose, with the sticky bit, or that is another
// account's stays as it is.
struct Tightened {
  fs::path path;
  unsigned mode = 0;  // As it was.
  std::string error;  // Why it still is so; empty: it is not.
};
std::vector<Tightened> tighten_home(const Home& home);

// The name of the network file system with this statfs(2) magic, or empty for one of this machine.
std::string_view network_file_system(uint64_t magic);

}  // namespace trainyard
