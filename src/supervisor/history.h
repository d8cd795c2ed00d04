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
std::string begin_record(pid_t supervisor, const runtime::Leftovers& leftovers);
std::string report_record(const Report& report, SteadyTime steady, WallTime wall);
std::string exit_record(const RankExit& exit);
std::string stop_record(const Stop& stop);
std::string dead_record(const runtime::Usage& usage);
std::string failure_record(const PrepareFailure& failure, bool ranks_started);
std::string outputs_record(const Facts& facts);

// An attempt as its journal has it.
struct History {
  bool begun = false;
  pid_t supervisor = 0;
  runtime::Leftovers leftovers;
  struct Told {
    Report report;
    SteadyTime steady;
    WallTime wall;
  };
  std::vector<Told> reports;  // Samples left out: the next one says as much.
  int64_t seq = 0;            // The highest given out.
  bool outputs_settled = false;
  Facts facts;

  bool told(ReportKind kind) const;
  // Whether the journal alone says how the attempt ended, now that nothing of it runs.
  bool conclusive(int ranks) const;
};
History read_history(const std::vector<std::string>& records);

}  // namespace trainyard::supervisor
