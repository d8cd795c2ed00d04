#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "model/report.h"
#include "runtime/ranks.h"
#include "supervisor/outcome.h"

namespace trainyard::supervisor {

// What the journal's records say. A record is a JSON object; unknown ones are passed over.
std::string begin_record(pid_t supervisor, std::string_view instance,
                         const runtime::Leftovers& leftovers);
// Where the supervisor that began was of an earlier version and had none.
std::string instance_record(std::string_view instance);
std::string report_record(const Report& report, SteadyTime steady, WallTime wall);
std::string exit_record(const RankExit& exit);
std::string stop_record(const Stop& stop);
std::string dead_record(const runtime::Usage& usage);
std::string failure_record(const PrepareFailure& failure, bool ranks_started);
std::string outputs_record(const Facts& facts, std::string_view epoch);

// An attempt as its journal has it.
struct History {
  bool begun = false;
  pid_t supervisor = 0;
  std::string instance;  // AttemptNode::instance: of the first supervisor and those that follow it.
  runtime::Leftovers leftovers;
  struct Told {
    Report report;
    SteadyTime steady;
    WallTime wall;
  };
  std::vector<Told> reports;  // Without samples. Each names the one before it.
  int64_t seq = 0;            // The highest given out, to a sample of an earlier version too.
  bool outputs_settled = false;
  std::string outputs_epoch;  // Orders::epoch when they were sent.
  Facts facts;

  bool told(ReportKind kind) const;
  // Whether the journal alone says how the attempt ended, now that nothing of it runs.
  bool conclusive(int ranks) const;
};
History read_history(const std::vector<std::string>& records);

}  // namespace trainyard::supervisor
