#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/fake_clock.h"
#include "base/log.h"
#include "control/control.h"
#include "engine/fake.h"
#include "node.h"
#include "program.h"
#include "random.h"
#include "rules.h"
#include "store/store.h"
#include "told.h"

namespace trainyard::sim {

// A server, a machine, its supervisors and the network between them, for some hours of simulated
// time in which everything that can go wrong does: a seed tells what and when.
class World {
 public:
  explicit World(uint64_t seed);
  ~World();

  // Until every run is over. The broken rule, or empty.
  std::string live();

  struct Tally {
    int runs = 0;
    int steps = 0;
    int restarts = 0;
    int lost = 0;
    int reports = 0;
    int records = 0;
    int children = 0;
    int retries = 0;
    int fenced = 0;
    int rolled_back = 0;  // Restarts at which the database had lost what was not synced.
    std::map<RunStatus, int> ends;
  };
  const Tally& tally() const { return tally_; }

 private:
  struct Records {
    int rank = 0;
    Scribe::Piece piece;
  };
  struct Message {
    AttemptId attempt;
    std::vector<Report> reports;
    std::optional<Records> records;  // None: reports, perhaps of nothing: a heartbeat.
    std::string epoch = {};
    SteadyTime due{};
  };
  struct Planned {
    RunId id;
    RunSpec spec;
    SteadyTime due{};
  };

  // ---- the server ----
  void start_server();
  void stop_server(microseconds downtime);
  // ---- world_disk.cc: what a power failure leaves of the database ----
  struct Wal {
    std::string salt;  // Another one: it was begun anew.
    int64_t size = 0;
    int64_t database_ns = 0;  // When the database itself was last written.
    bool operator==(const Wal&) const = default;
  };
  Wal wal() const;
  // Around a change that is not synced.
  void begin_unsynced();
  void end_unsynced();
  bool can_roll_back() const;
  void roll_back();
  void tick();
  void submit(Planned planned);
  void check_changed();
  void check_open();
  void check_all();
  void check_told(const Run& run);

  // ---- supervisors, programs and the network ----
  void send(Node& node);
  void send(Scribe& scribe, bool mute);
  void post(Message message);
  void deliver(const Message& message);
  void deliver_reports(const Message& message);
  void deliver_records(const AttemptId& attempt, const Records& records);
  void answer(const Message& message, const Result<Orders>& orders);
  void end_node(Node& node, const std::string& why);
  void step(Program& program);
  void tell_once(const RunId& run);
  void end(Program& program);

  // ---- chance ----
  bool calm() const { return clock_.steady() >= quiet_; }
  void plan_runs();
  void choose_parent(RunSpec& spec);
  void fault();
  void kill_one();
  void cancel_one();
  void submit_again();
  Node* any_node();

  SteadyTime next_moment() const;
  void step();
  bool all_over() const;
  void settle_down();
  void say(const std::string& what) const;

  const bool trace_;
  Random random_;
  FakeClock clock_;
  NullLog log_;
  TempDir dir_;
  engine::FakeEngine engine_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<control::Control> control_;  // None while the server is down.
  SteadyTime server_back_{};
  SteadyTime next_tick_{};

  std::map<AttemptId, Node> nodes_;
  std::map<RunId, Program> programs_;
  std::vector<Message> network_;
  std::deque<Message> old_messages_;
  std::vector<Planned> planned_;
  std::vector<Planned> submitted_;
  SteadyTime next_fault_{};
  SteadyTime quiet_{};  // No more faults from here on: everything must come to its end.

  std::set<RunId> changed_;
  Told told_;
  Rules rules_;
  const bool old_nodes_;  // Some are of the version before; then the disk is sound.
  // The state before the first of the changes that are not synced; the last of all writes was one.
  struct Unsynced {
    Wal from;
    Wal to;
    Told told;
    Rules rules;
  };
  std::optional<Unsynced> unsynced_;
  Tally tally_;
};

}  // namespace trainyard::sim
