#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "http/client.h"
#include "model/machine.h"
#include "wire/json.h"

namespace trainyard::client {

// What a machine says to the server, one function a call. Not thread-safe, as its connection.
class MachineApi {
 public:
  explicit MachineApi(http::Client& client) : client_(client) {}

  // With a one-time token: the machine, with its "key" and "credential". `name` may be empty.
  Result<wire::Json> join(std::string_view uid, std::string_view name, const MachineFacts& facts);
  // With a person's token: their own machine, with its "key".
  Result<wire::Json> own(std::string_view uid, const MachineFacts& facts);
  Result<wire::Json> show(std::string_view key);
  Status leave(std::string_view key, bool force);
  // Waits up to `wait` for orders other than those seen; none: there were no new ones.
  Result<std::optional<MachineOrders>> poll(std::string_view key, const MachineReport& report,
                                            seconds wait);

 private:
  Result<wire::Json> call(http::Method method, std::string target, const wire::Json& body,
                          seconds wait = seconds(0));

  http::Client& client_;
};

}  // namespace trainyard::client
