#include "supervisor/plan_ranks.h"

#include "base/variables.h"
#include "sdk/sdk.h"
#include "supervisor/contain.h"
#include "supervisor/distribution.h"

namespace trainyard::supervisor {
namespace {

RankFolders folders_of(const Context& context) {
  // What the engine started us with: of a job its modules, PATH and SLURM_…; nothing of Trainyard.
  RankFolders folders{.work = context.layout.work(), .node_variables = own_variables("TRAINYARD_")};
  // Without it a script that does not use it runs as well.
  folders.python = sdk::install(context.layout.python()).value_or(fs::path());
  return folders;
}

// Environments that other runs use too cannot be changed by this one's processes: of its own they
// have a layer for what they write.
Result<runtime::SharedRoot> share_environment(Context& context, const std::string& name) {
  const Layout& layout = context.layout;
  runtime::SharedRoot shared;
  const fs::path shelf = shelf_of(context.assignment.environments, layout.environments());
  std::error_code none;
  if (!fs::is_directory(shelf, none)) return shared;
  shared.shelf = shelf;
  const auto& held = context.environment.held;
  const bool files = held && (held->realised.kind == EnvironmentKind::venv ||
                              held->realised.kind == EnvironmentKind::conda);
  if (!files) return shared;
  shared.root = held->folder / "root";
  shared.layer = layout.environment_layer(name);
  if (name != kPreparation && !context.assignment.spec.preparation.empty()) {
    shared.below = layout.environment_layer(std::string(kPreparation));
  }
  TRY(remove_tree(shared.layer));
  TRY(make_dirs(shared.layer, 0700));
  return shared;
}

// `spec` has the command; `name` is the process's among those of the attempt.
Result<runtime::RankCommand> plan_process(Context& context, const RunSpec& spec,
                                          const std::string& name, const RankFolders& folders,
                                          Variables variables) {
  TRY(enter_environment(spec.environment, context.environment, context.layout.bin(), variables));
  std::vector<std::string> command = rank_command(spec, variables);
  if (context.environment.runtime) {
    if (spec.form == CommandForm::shell) command = shell_inside(command.back());
    const Contained process{name, folders.records, folders.python, variables};
    TRY_SET(command, contain(context, process, std::move(command)));
  } else if (!spec.environment.arguments.empty()) {
    TRY_SET(command, give_view(context, name, std::move(command), variables));
  }
  return runtime::RankCommand{std::move(command), std::move(variables)};
}

}  // namespace

Result<std::vector<runtime::RankCommand>> plan_ranks(Context& context) {
  const Assignment& assignment = context.assignment;
  const Layout& layout = context.layout;
  RankFolders folders = folders_of(context);
  RankPlace place{.node = assignment.node};
  if (!context.hosts.empty()) {
    place.hosts = context.hosts;
    folders.host_file = layout.hosts();
    TRY(write_file(layout.hosts(), host_file_text(assignment.spec, context.hosts), 0644));
  }
  std::vector<runtime::RankCommand> commands;
  for (int local = 0; local < context.facts.ranks; ++local) {
    place.local_rank = local;
    const int rank = context.global_rank(local);
    folders.records = layout.records(rank);
    Variables variables = rank_environment(assignment, place, folders, context.secrets->values);
    TRY_SET(runtime::RankCommand command,
            plan_process(context, assignment.spec, std::to_string(rank), folders,
                         std::move(variables)));
    commands.push_back(std::move(command));
  }
  if (!commands.empty()) {
    TRY_SET(commands.front().shared, share_environment(context, "ranks"));
  }
  return commands;
}

Result<runtime::RankCommand> plan_preparation(Context& context) {
  Assignment alone = context.assignment;
  RunSpec& spec = alone.spec;
  spec.command = {spec.preparation};
  spec.form = CommandForm::shell;
  spec.distribution.clear();
  spec.nodes = spec.processes_per_node = 1;
  spec.parameter_servers = 0;
  RankFolders folders = folders_of(context);
  folders.records = context.layout.records(context.global_rank(0));
  Variables variables = rank_environment(alone, {}, folders, context.secrets->values);
  if (context.assignment.spec.nodes > 1) {
    variables["NODE_RANK"] = std::to_string(context.assignment.node);
  }
  TRY_SET(runtime::RankCommand command,
          plan_process(context, spec, std::string(kPreparation), folders, std::move(variables)));
  TRY_SET(command.shared, share_environment(context, std::string(kPreparation)));
  return command;
}

}  // namespace trainyard::supervisor
