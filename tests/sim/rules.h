#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "control/control.h"
#include "model/run.h"
#include "node.h"
#include "told.h"

namespace trainyard::sim {

// What must hold of every run at every moment, checked from outside: against what was read before
// and against what really happened on the nodes.
class Rules {
 public:
  explicit Rules(const engine::Capacity& capacity) : capacity_(capacity) {}

  // The first broken one, in words; empty: all hold.
  const std::string& broken() const { return broken_; }
  void expect(bool holds, const std::string& rule);

  using Nodes = std::map<AttemptId, Node>;
  // A run as it is read now.
  void check_run(const Run& run, const Nodes& nodes);
  // The server has said that it has this attempt's reports up to here.
  void acknowledged(const Node& node, int64_t seq);
  // Reports came and were not refused: the samples among them are taken.
  void sampled(const Node& node, const std::vector<Report>& reports);
  // The server's disk went back to a moment that it was not synced after: so did what was read.
  void go_back(const Rules& before);

  // ---- rules_machine.cc ----
  // The machine: nothing given out twice, no run on two nodes.
  void check_machine(const Nodes& nodes);
  void check_placed(const Assignment& assignment);
  // What the server counts as held and waiting is what the runs say.
  void check_load(const control::Control::Load& load);
  // A round of the scheduler, with every run that changed read before it and after. Nothing has
  // moved: there is nothing to check.
  void begin_round() { before_.clear(); }
  bool moved() const { return moved_; }
  enum class Pause { no, perhaps };  // Placing may rest for a moment: the engine has failed.
  void check_round(Pause pause);

  // ---- rules_told.cc ----
  using Series = std::map<std::string, std::vector<Point>>;
  // What a run told is there, once and in its order.
  void check_told(const Run& run, const Series& series, const Told& told, const Nodes& nodes);
  // None outlives its parent that nobody else carries.
  void check_children();

  bool is_over(const RunId& id) const { return over_.contains(id); }
  // As last read; 0: never.
  int64_t version(const RunId& id) const;
  // As last read, may this attempt still tell? Attempt 0: any program.
  bool may_tell(const AttemptId& attempt) const;

 private:
  // A run as it was last read, as far as the queue and the machine go.
  struct Seen {
    int64_t number = 0;
    int64_t version = 0;
    Priority priority = Priority::normal;
    Resources resources;
    RunStatus status = RunStatus::not_started;
    int attempt = 0;
    bool interactive = false;
    std::string parent;

    bool waits() const { return status == RunStatus::queued; }
    bool live() const {
      return !interactive && status > RunStatus::queued && status < RunStatus::completed;
    }
  };
  using AllSeen = std::map<RunId, Seen>;
  struct InQueue {
    RunId id;
    Seen seen;
  };

  void check_events(const Run& run);
  void check_attempts(const Run& run, const Nodes& nodes);
  void check_phases(const Run& run, const Node& node);
  void check_retries(const Run& run);
  void check_over(const Run& run, const Nodes& nodes);

  const Seen& before(const RunId& id) const;
  Resources held() const;
  // By priority, then first come.
  std::vector<InQueue> queue() const;
  bool lacks_gpus(const Resources& wants) const;
  bool fits(const Resources& wants) const;
  void check_overtaking(const InQueue& placed, const std::vector<InQueue>& waiting, bool settled);
  void check_told_by_gpus(const Run& run, const Series& series);

  const engine::Capacity capacity_;
  std::string broken_;
  AllSeen seen_;
  AllSeen before_;                         // The round, of those that were read since.
  bool moved_ = false;                     // Since a round found nothing to place.
  std::map<RunId, Run> over_;              // As first read when it was over.
  std::set<AttemptId> known_to_have_run_;  // The server was told that user code may have run.
  std::map<AttemptId, int64_t> acknowledged_;
  struct Sampled {
    int64_t number = 0;  // The last: a report's or a sample's own.
    std::vector<Report> reports;
  };
  std::map<AttemptId, Sampled> sampled_;
};

}  // namespace trainyard::sim
