#include "sdk/sdk.h"
#include "supervisor/contain.h"
#include "supervisor/distribution.h"
#include "supervisor/mpi_place.h"
#include "supervisor/steps.h"

extern char** environ;

namespace trainyard::supervisor {
namespace {

// What the engine started us with: of a job its modules, PATH and SLURM_…; nothing of Trainyard.
Variables own_variables() {
  Variables found;
  for (char** pair = environ; *pair != nullptr; ++pair) {
    const std::string_view text = *pair;
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos || text.starts_with("TRAINYARD_")) continue;
    found.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return found;
}

Result<std::vector<runtime::RankCommand>> plan_ranks(Context& context) {
  const Assignment& assignment = context.assignment;
  const Layout& layout = context.layout;
  RankFolders folders{.work = layout.work(), .node_variables = own_variables()};
  // Without it a script that does not use it runs as well.
  folders.python = sdk::install(layout.python()).value_or(fs::path());
  RankPlace place{.node = assignment.node};
  if (!context.hosts.empty()) {
    place.hosts = context.hosts;
    folders.host_file = layout.hosts();
    TRY(write_file(layout.hosts(), host_file_text(assignment.spec, context.hosts), 0644));
  }
  std::vector<runtime::RankCommand> commands;
  for (int local = 0; local < context.facts.ranks; ++local) {
    place.local_rank = local;
    folders.records = layout.records(context.global_rank(local));
    Variables variables = rank_environment(assignment, place, folders, context.secrets->values);
    TRY(enter_environment(assignment.spec.environment, context.environment, layout.bin(),
                          variables));
    std::vector<std::string> command = rank_command(assignment.spec, variables);
    if (context.environment.runtime) {
      if (assignment.spec.form == CommandForm::shell) command = shell_inside(command.back());
      const Contained rank{local, folders.records, folders.python, variables};
      TRY_SET(command, contain(context, rank, std::move(command)));
    } else if (!assignment.spec.environment.arguments.empty()) {
      TRY_SET(command, give_view(context, local, std::move(command), variables));
    }
    commands.push_back({std::move(command), std::move(variables)});
  }
  return commands;
}

}  // namespace

// Says the word: init stands ready since we were started, and answers to watch_ranks().
Status launch_ranks(Context& context) {
  TRY_SET(std::vector<runtime::RankCommand> commands, plan_ranks(context));
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
