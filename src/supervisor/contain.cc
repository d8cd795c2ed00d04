#include "supervisor/contain.h"

#include <fcntl.h>

#include <cstdlib>

#include "base/process.h"
#include "container/arguments.h"
#include "container/bubblewrap.h"
#include "container/docker_runtime.h"
#include "container/engine_api.h"
#include "container/private_view.h"

namespace trainyard::supervisor {
namespace {

Result<std::unique_ptr<container::Runtime>> by_engine(const std::string& program,
                                                      const Variables& variables) {
  TRY_SET(container::EngineAddress engine, container::find_engine({}, variables));
  return std::make_unique<container::DockerRuntime>(program, std::move(engine));
}

// What it needs of the attempt is seen inside under the same names: variables hold there too.
Result<std::vector<container::Bind>> binds_of(Context& context, const Contained& process) {
  const Layout& layout = context.layout;
  std::vector<container::Bind> binds = {{layout.work(), layout.work()}};
  // Made before, or an engine would make a folder of it.
  TRY_SET(const Fd records, open_file(process.records, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  binds.push_back({process.records, process.records});
  if (!process.python.empty()) binds.push_back({process.python, process.python, true});
  if (!context.hosts.empty()) binds.push_back({layout.hosts(), layout.hosts(), true});
  return binds;
}

// Every rank has a number of its own; each node has a preparation.
std::string container_name(const Assignment& assignment, const std::string& process) {
  const std::string name = "trainyard-" + assignment.id().str() + "-" + process;
  return process == kPreparation ? name + "-" + std::to_string(assignment.node) : name;
}

std::string parent_slash(std::string folder) {
  if (folder.empty()) folder = "/";
  return folder.ends_with('/') ? folder : folder + "/";
}

}  // namespace

Result<std::unique_ptr<container::Runtime>> open_runtime(const Variables& variables) {
  TRY_SET(const fs::path program, self_path());
  const auto chosen = variables.find(container::kRuntimeVariable);
  const std::string choice = chosen != variables.end() ? chosen->second : "";
  if (choice == "docker" || choice == "podman") return by_engine(program, variables);
  if (choice == "bubblewrap") return container::Bubblewrap::open(program);
  if (!choice.empty()) {
    return fail(ErrorKind::invalid,
                std::string(container::kRuntimeVariable) + " is '" + choice + "'",
                "It may be docker, podman or bubblewrap.");
  }
  auto engine = by_engine(program, variables);
  if (engine) return engine;
  auto without = container::Bubblewrap::open(program);
  if (without) return without;
  return fail(
      ErrorKind::unavailable,
      "no container can run here: " + engine.error().message + "; " + without.error().message,
      engine.error().hint + " Or: " + without.error().hint);
}

Variables runtime_variables(const Assignment& assignment) {
  Variables variables = assignment.spec.environment_variables;
  for (const char* name :
       {container::kRuntimeVariable, "DOCKER_HOST", "CONTAINER_HOST", "XDG_RUNTIME_DIR"}) {
    const char* value = std::getenv(name);
    if (value != nullptr) variables.emplace(name, value);
  }
  return variables;
}

void remove_containers(Context& context, const std::string& mark) {
  if (!context.environment.runtime) return;
  const Status removed = context.environment.runtime->remove_leftovers(mark);
  if (!removed) context.log.line("containers may be left: " + removed.error().message);
  if (context.assignment.spec.preparation.empty()) return;
  if (const Status gone = context.environment.runtime->remove_kept(mark); !gone) {
    context.log.line("an image may be left: " + gone.error().message);
  }
}

Result<std::vector<std::string>> contain(Context& context, const Contained& process,
                                         std::vector<std::string> words) {
  const Assignment& assignment = context.assignment;
  const Environment& environment = assignment.spec.environment;
  const env::Shelf::Held& held = *context.environment.held;
  const Layout& layout = context.layout;
  container::Plan plan;
  plan.image = context.environment.image;
  plan.root = held.folder / "root";
  plan.config = held.realised.config;
  plan.command = std::move(words);
  TRY_SET(plan.binds, binds_of(context, process));
  if (plan.command.empty()) {
    // In the image's own folder; what it puts out there is kept all the same.
    const std::string folder = parent_slash(plan.config.folder);
    plan.binds.push_back({layout.outputs(), folder + "outputs"});
    plan.binds.push_back({layout.logs(), folder + "logs"});
  } else {
    plan.folder = layout.work();
  }
  for (const auto& [name, value] : process.variables) plan.variables.push_back(name);
  TRY_SET(plan.arguments, container::resolve_binds(environment.arguments, environment.host_paths));
  plan.shm_size = environment.shm_size;
  plan.memory_bytes = assignment.spec.resources.memory_bytes;
  plan.gpus = !assignment.gpus.empty();
  plan.name = container_name(assignment, process.name);
  plan.mark = context.ranks->leftovers().mark;
  // What it installs is for the ranks.
  if (!assignment.spec.preparation.empty()) {
    plan.kept = process.name == kPreparation;
    if (!plan.kept) plan.upon = container_name(assignment, std::string(kPreparation));
  }
  plan.grace_s = assignment.spec.grace_s;
  plan.note = layout.note(process.name);
  plan.process = layout.process(process.name);
  return context.environment.runtime->command(plan, layout.container(process.name));
}

Result<std::vector<std::string>> give_view(Context& context, const std::string& name,
                                           std::vector<std::string> words, Variables& variables) {
  const Environment& environment = context.assignment.spec.environment;
  TRY_SET(const std::vector<std::string> resolved,
          container::resolve_binds(environment.arguments, environment.host_paths));
  TRY_SET(const container::Arguments arguments, container::parse_arguments(resolved));
  for (const container::Arguments::Variable& variable : arguments.variables) {
    if (variable.value) variables[variable.name] = *variable.value;
  }
  if (arguments.binds.empty()) return words;
  TRY_SET(const fs::path program, self_path());
  return container::private_view_command(program, arguments.binds, words, context.layout.work(),
                                         context.layout.container(name), context.layout.note(name));
}

std::vector<std::string> shell_inside(const std::string& text) {
  return {"sh", "-c",
          "if command -v bash >/dev/null 2>&1; then exec bash -c \"$0\"; fi; eval \"$0\"", text};
}

}  // namespace trainyard::supervisor
