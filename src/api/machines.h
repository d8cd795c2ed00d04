#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/guarded.h"
#include "base/log.h"
#include "control/control.h"
#include "engine/joined.h"
#include "model/machine.h"
#include "store/store.h"

namespace trainyard::api {

// The engines of the machines that pull their work: opened at start, and as machines come and go.
// Thread-safe.
class Machines {
 public:
  struct Parts {
    Clock& clock;
    Log& log;
    store::Store& store;
    control::Control& control;
    // Wakes the machine of this key, if it waits for orders.
    std::function<void(const std::string& key)> wake;
  };
  explicit Machines(Parts parts) : parts_(std::move(parts)) {}

  Status open_all();
  // A new one; one that is open stays as it is.
  void open(const Machine& machine);
  // It is deleted: what is live there ends.
  void close(const Machine& machine, const std::string& why);

  // Null: not open.
  std::shared_ptr<engine::Joined> find(std::string_view key);
  // What the machine says; `conflict` for a report that a later one has overtaken.
  Status take(const Machine& machine, engine::Joined& engine, const MachineReport& report);

 private:
  struct Open {
    std::shared_ptr<engine::Joined> engine;  // Shared: a call under way outlives its machine.
    SteadyTime noted{};                      // In the database.
  };

  Parts parts_;
  Guarded<std::map<std::string, Open, std::less<>>> open_;
};

// The machine of that key, read by itself.
Result<Machine> load_machine(store::Store& store, std::string_view key);

}  // namespace trainyard::api
