#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/id.h"
#include "http/client.h"
#include "model/environment.h"
#include "model/report.h"

namespace trainyard::client {

// What a supervisor says to the server about its attempt, one function a call (wire/urls.h). Every
// call may be repeated; an answer other than success is its Error: `conflict` when a newer attempt
// exists or the run is over. Not thread-safe, as its connection.
class AttemptApi {
 public:
  // For the supervisor of the attempt's node number `node`.
  AttemptApi(http::Client& client, AttemptId id, int node = 0)
      : client_(client), id_(std::move(id)), node_(node) {}

  // No report is a heartbeat. `instance` and `epoch` as in AttemptNode.
  Result<Orders> report(std::span<const Report> reports, std::string_view instance = {},
                        std::string_view epoch = {});
  // Waits up to `wait` for orders that say more than `known`: cancel, go or stop.
  Result<Orders> orders(const Orders& known, seconds wait);
  // Frames that begin at byte `from` of the rank's console. `frames` is empty afterwards and keeps
  // its memory. `Before::lost`: what lies before `from` cannot be sent any more.
  enum class Before { sent, lost };
  struct Kept {
    uint64_t size = 0;     // How many bytes the server has: go on from there.
    uint64_t durable = 0;  // Consoles: how many of them it has for good.
  };
  Result<Kept> console(int rank, uint64_t from, std::string& frames, Before before = Before::sent);
  // Bytes of a file from `from` on; `reset` begins it anew. Returns how many the server has.
  enum class Reset { no, yes };
  Result<uint64_t> file(std::string_view path, uint64_t from, std::string& bytes,
                        Reset reset = Reset::no);
  // Whole lines of a rank's records from byte `from` on. Returns how many bytes the server has.
  Result<uint64_t> records(int rank, uint64_t from, std::string& lines);
  // The values of the secrets that the run's spec names.
  Result<std::map<std::string, std::string>> secrets();
  // How far the run's environment is; asking has it made.
  struct EnvironmentStand {
    std::string state;  // "building", "ready", "failed"
    std::string progress;
    std::string log;
    uint64_t log_next = 0;
    Error error;
    Realised realised;
  };
  struct EnvironmentQuery {
    std::string_view need = "made";  // Or "root", "tree".
    bool begins = false;             // The first time that we ask.
    uint64_t log_from = 0;
    seconds wait{0};
  };
  Result<EnvironmentStand> environment(const EnvironmentQuery& query);

 private:
  Result<std::string> send(http::Method method, std::string target, std::string& body,
                           std::string_view type, milliseconds timeout);
  Result<Kept> send_bytes(std::string target, std::string& bytes);

  http::Client& client_;
  AttemptId id_;
  int node_;
};

}  // namespace trainyard::client
