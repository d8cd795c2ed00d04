#include "container/docker_runtime.h"

#include "container/arguments.h"
#include "container/docker_config.h"
#include "container/plan_file.h"
#include "container/run_container.h"

namespace trainyard::container {

Result<std::vector<std::string>> DockerRuntime::command(const Plan& plan, const fs::path& file) {
  if (plan.image.empty()) return fail(ErrorKind::invalid, "the environment names no image");
  TRY(parse_arguments(plan.arguments));
  TRY(write_plan({.plan = plan, .engine = engine_}, file));
  return std::vector<std::string>{program_, std::string(kContainerProgram), file.string()};
}

Status DockerRuntime::remove_leftovers(const std::string& mark) {
  EngineApi api(engine_);
  TRY_SET(const std::vector<std::string> ids, api.list(std::string(kLabelMark) + "=" + mark));
  for (const std::string& id : ids) TRY(api.remove(id));
  return {};
}

}  // namespace trainyard::container
