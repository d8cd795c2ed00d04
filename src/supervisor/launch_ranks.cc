#include "supervisor/mpi_place.h"
#include "supervisor/plan_ranks.h"
#include "supervisor/steps.h"

namespace trainyard::supervisor {

// Says the word: init stands ready since we were started, and answers to watch_ranks().
Status launch_ranks(Context& context) {
  TRY_SET(std::vector<runtime::RankCommand> commands, plan_ranks(context));
  context.files_before = working_files(context.layout.work());
  context.ports.reset();
  place_ranks(context);
  // Before the word: whoever reads the journal later must not believe that nothing ran.
  context.report(ReportKind::starting);
  if (!commands.empty()) {
    // What it starts is of the attempt, and ends with it.
    Variables variables = commands.front().environment;
    variables[std::string(runtime::kMarkVariable)] = context.ranks->leftovers().mark;
    context.open_execs({context.layout.work(), std::move(variables)});
  }
  TRY(context.ranks->start(std::move(commands)));
  context.facts.ranks_started = true;
  return {};
}

}  // namespace trainyard::supervisor
