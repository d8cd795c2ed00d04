#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace trainyard::http {

struct RelayOptions {
  uint16_t port = 0;                // To listen on; 0: any.
  std::vector<std::string> toward;  // Listens on those of our addresses that lead to these hosts.
  std::string or_on;                // And if they lead nowhere, on this one.
  int control_fd = 0;               // Read for "PORT\n", and then for a sign of life.
  seconds silence_max{30};          // Ends after so long without one.
};

// Passes connections on to a port of this machine's loopback: on a login node, to the end of an ssh
// that leads to a server which nobody else can reach. The first line of control_fd is that port.
// Prints "ADDRESS PORT\n", where it listens, and goes on until control_fd is closed or silent: so
// it does not outlive a connection that broke without a word, and the next one finds the port free.
Status relay(const RelayOptions& options, int out_fd);

// Our own address on the way to a host; empty: there is no way.
std::string address_toward(const std::string& host);

}  // namespace trainyard::http
