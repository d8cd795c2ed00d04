#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/id.h"
#include "model/assignment.h"

namespace trainyard {

// What a machine says of itself.
struct MachineFacts {
  std::string host;
  std::string version;  // Of its Trainyard.
  int cpus = 0;
  int64_t memory_bytes = 0;
  std::vector<int> gpus;  // Device numbers.
  // The Pythons that virtual environments may stand on ("linux-x86_64-cpython-3.11"); empty: not
  // known.
  std::vector<std::string> pythons = {};

  bool operator==(const MachineFacts&) const = default;
};

// A machine that pulls its work from us: one that was joined, a target of a workspace by its name;
// or a person's own, whose `local` it is, and nobody else's.
struct Machine {
  int64_t id = 0;
  std::string key;        // Ours, for URLs and queues.
  std::string uid;        // Its own: made there once, and kept.
  std::string workspace;  // Empty for a person's own.
  std::string name;
  std::string owner;  // Who let it join; whose it is.
  bool personal = false;
  MachineFacts facts;
  WallTime joined{};
  std::optional<WallTime> heard;
};
std::string queue_of(const Machine& machine);

// A host's name as a target's: what the rule of names does not allow becomes '-'.
std::string name_from_host(std::string_view host);

// One attempt as its machine sees it.
struct HeldAttempt {
  AttemptId id;
  bool live = true;  // false: its supervisor has ended and will not report again.
  std::string why;
};

// What a machine says when it asks for orders: all that it holds.
struct MachineReport {
  // Of the process there, and counting from 1: one that was overtaken by the next says nothing.
  std::string session;
  int64_t number = 0;
  MachineFacts facts;
  int64_t seen = 0;  // The version of the orders it has carried out.
  std::vector<HeldAttempt> held;
  std::vector<std::string> execs;  // Those it knows of.
};

// What it is to have: all else it holds is to go. Said whole each time, so that no word is lost
// with a connection, a server or a machine.
struct MachineOrders {
  int64_t version = 0;
  std::vector<AttemptId> keep;
  std::vector<AttemptId> kill;     // At once: they do not answer.
  std::vector<Assignment> start;   // What it does not hold yet.
  std::vector<std::string> execs;  // Commands to run there (`node exec`), by their ids.
};

// "brisk-otter-x7k2m9qd.1", AttemptId::str().
std::optional<AttemptId> attempt_from(std::string_view text);

}  // namespace trainyard
