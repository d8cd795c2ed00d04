#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"

// How mpirun reaches the other nodes of an attempt without ssh: its remote agent is ours, and talks
// to our launcher there. Each proves to the other that it holds the attempt's token, which itself
// never travels, and the command is covered by the proof.
//
//   launcher → agent   trainyard-mpi 1 NONCE
//   agent → launcher   PROOF NONCE SIZE, then the command
//   launcher → agent   ok PROOF            or: refused
//   launcher → agent   exit CODE           when it has ended
//
// An empty command means that there will be no more.
namespace trainyard::runtime {

struct MpiHost {
  std::string address;  // In digits, IPv4 or IPv6.
  uint16_t port = 0;    // Where its launcher listens.
  std::string name;     // Of the node; may be empty.
  bool operator==(const MpiHost&) const = default;
};

// "198.18.0.11/40001/n1,198.18.0.12/40100/n2"
std::string format_hosts(const std::vector<MpiHost>& hosts);
Result<std::vector<MpiHost>> parse_hosts(std::string_view text);

// The node that a person or mpirun means by its address, its name, or its name with a domain;
// nullptr: none.
const MpiHost* find_host(const std::vector<MpiHost>& hosts, std::string_view wanted);

std::string hmac_sha256(std::string_view key, std::string_view text);  // In hex digits.

// The launcher's end.
class MpiGate {
 public:
  static Result<MpiGate> open(uint16_t port, std::string token);
  int fd() const { return listener_.get(); }
  uint16_t port() const { return port_; }

  struct Asked {
    Fd agent;             // Stays open until finish().
    std::string command;  // Empty: there will be no more.
  };
  // Somebody has connected: hears them out, for a few seconds at most. `denied` when they cannot
  // prove themselves.
  Result<Asked> hear();
  static void finish(const Fd& agent, int code);

 private:
  MpiGate(Fd listener, uint16_t port, std::string token)
      : listener_(std::move(listener)), port_(port), token_(std::move(token)) {}
  Fd listener_;
  uint16_t port_;
  std::string token_;
};

// The agent's end: has a command run on a host and waits for its end; its exit code. A launcher
// that is not there yet is waited for, until `patience` is over.
Result<int> run_on(const MpiHost& host, const std::string& token, const std::string& command,
                   milliseconds patience);

}  // namespace trainyard::runtime
