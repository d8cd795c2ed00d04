#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"
#include "model/machine.h"

namespace trainyard::engine {

struct JoinedOptions {
  std::string name;  // Of the machine, for people.
  Clock& clock;
  MachineFacts facts;             // As it said last.
  std::function<void()> changed;  // There are new orders. Called without a lock.
  seconds away{45};               // Silent for so long, it is not there.
};

// A machine that pulls its work from us: the server's half of a local engine elsewhere. What the
// control plane wants becomes orders, told whole each time the machine asks, so that nothing need
// be kept: a server that was restarted hears from the machine what it holds. A machine that is away
// keeps what it has; waits_for() says how long it was not heard of. Thread-safe.
class Joined : public Engine {
 public:
  explicit Joined(JoinedOptions options);

  Capacity capacity() const override;
  Status place(const Assignment& assignment) override;
  Status recover(const AttemptId& attempt) override;
  Placement inspect(const AttemptId& attempt) override;
  std::string waits_for(const AttemptId& attempt) override;
  std::string absence_words() override;
  // Asks for it. `unavailable` until the machine says that it is gone.
  Status kill(const AttemptId& attempt) override;
  Status release(const AttemptId& attempt) override;
  void on_gone(Gone gone) override;

  // ---- the machine's side ----
  // Takes what it says; what it no longer holds, or says is over, is gone. The same again says the
  // same; one that a later one has overtaken says nothing.
  enum class Taken { stale, same, changed };  // changed: what the machine has.
  Taken take(const MachineReport& report);
  // What it is to have, as it is now; none when it has carried out the newest orders already.
  std::optional<MachineOrders> orders(const MachineReport& report);
  // The same, for one that has them all already.
  MachineOrders orders();
  // Since its last report; none: it has not reported since we began.
  std::optional<microseconds> silence();
  // Silent for so long; none: it is there.
  std::optional<microseconds> absence();
  // It will not come back: all that is placed there ends.
  void abandon(const std::string& why);

 private:
  struct Placed {
    std::optional<Assignment> assignment;  // Until the machine holds it.
    bool live = true;
    bool kill = false;
  };
  using Told = std::vector<std::pair<AttemptId, Going>>;

  // Held by the caller.
  bool overtaken(const MachineReport& report);
  void note(const AttemptId& attempt, Placed& placed, Going going, Told& told);
  void tell(const Told& told);
  void bump();

  const JoinedOptions options_;
  mutable std::mutex mutex_;
  MachineFacts facts_;  // Held by mutex_, as all below.
  std::map<AttemptId, Placed> placed_;
  int64_t version_;
  SteadyTime heard_;
  std::string session_;  // Of the newest report.
  int64_t number_ = 0;
  std::set<std::string> past_;  // Sessions before it.

  std::mutex gone_mutex_;
  Gone gone_;  // Held by gone_mutex_.
};

}  // namespace trainyard::engine
