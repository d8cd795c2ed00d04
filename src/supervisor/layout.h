#pragma once

#include "base/file.h"

namespace trainyard::supervisor {

// An attempt's folder on its node.
//
//   assignment.json       all we are told (0600)
//   lock                  held while we live (alive_lock.h)
//   journal               what we did
//   evicted               why the machine went down under us; else it is not there (agent/agent.cc)
//   hosts                 all nodes of the attempt, as Open MPI reads them
//   work/                 the writable copy of the code; the ranks' folder
//   spool/console-R.log   rank R's console on its way to the server, and console-R.idx
//   spool/system.txt      what we did, for people
//   spool/records-R       what rank R's script told, on its way to the server
//   preparation/          what the job's preparation prints, on its way to the server
//   container-R, note-R   rank R's container: what it is, and why it ended; of the preparation
//                         container-preparation and note-preparation
//   process-R             where an engine has it: its id and first process
//   environment-ranks     what the ranks write into their environment; environment-preparation
//   bin/                  `python`, where the user named an interpreter
//   tmp/                  blobs on their way
class Layout {
 public:
  explicit Layout(fs::path root) : root_(std::move(root)) {}
  const fs::path& root() const { return root_; }
  fs::path assignment() const { return root_ / "assignment.json"; }
  fs::path lock() const { return root_ / "lock"; }
  fs::path journal() const { return root_ / "journal"; }
  fs::path evicted() const { return root_ / "evicted"; }
  fs::path hosts() const { return root_ / "hosts"; }
  fs::path work() const { return root_ / "work"; }
  fs::path outputs() const { return work() / "outputs"; }
  fs::path logs() const { return work() / "logs"; }
  fs::path spool() const { return root_ / "spool"; }
  fs::path system_log() const { return spool() / "system.txt"; }
  fs::path records(int rank) const { return spool() / ("records-" + std::to_string(rank)); }
  // Shared by all attempts on this node.
  fs::path python() const { return root_.parent_path() / ".python"; }
  fs::path environments() const { return root_.parent_path() / ".environments"; }
  fs::path preparation() const { return root_ / "preparation"; }
  fs::path preparation_log() const { return preparation() / "console-0.log"; }
  // By the name of a process: what its container is, and why it ended where its exit code does not
  // say it.
  fs::path container(const std::string& name) const { return root_ / ("container-" + name); }
  fs::path note(const std::string& name) const { return root_ / ("note-" + name); }
  fs::path process(const std::string& name) const { return root_ / ("process-" + name); }
  // What a process and those it starts write into the environment that runs share.
  fs::path environment_layer(const std::string& name) const {
    return root_ / ("environment-" + name);
  }
  fs::path bin() const { return root_ / "bin"; }
  fs::path tmp() const { return root_ / "tmp"; }

 private:
  fs::path root_;
};

}  // namespace trainyard::supervisor
