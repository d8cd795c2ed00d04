#pragma once

#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "http/client.h"
#include "model/assignment.h"

namespace trainyard::supervisor {

// The name that this node was given, by us or by Slurm, since nodes may share a host's; else the
// host's.
std::string node_name(const Assignment& assignment);

// The address by which this machine reaches a server: of several interfaces the one where the
// others are. Sends nothing.
Result<std::string> address_toward(const http::Address& server, milliseconds timeout);

// Ports behind each other that nobody uses, held so that nobody else finds them free until we are
// destroyed; no connection is taken there.
class HeldPorts {
 public:
  static Result<HeldPorts> take(const std::string& address, int count);
  int first() const { return first_; }

 private:
  int first_ = 0;
  std::vector<Fd> held_;
};

}  // namespace trainyard::supervisor
