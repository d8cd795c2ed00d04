#include "container/docker_runtime.h"

#include "base/process.h"
#include "container/arguments.h"
#include "container/docker_config.h"
#include "container/plan_file.h"
#include "container/run_container.h"

namespace trainyard::container {

Result<std::vector<std::string>> DockerRuntime::command(const Plan& plan, const fs::path& file) {
  if (plan.image.empty()) return fail(ErrorKind::invalid, "the environment names no image");
  TRY(parse_arguments(plan.arguments));
  TRY(write_plan({.plan = plan, .engine = engine_, .account = own_account()}, file));
  return std::vector<std::string>{program_, std::string(kContainerProgram), file.string()};
}

Status DockerRuntime::remove_leftovers(const std::string& mark) {
  Status removed = remove_marked(engine_, mark);
  if (removed || removed.error().kind != ErrorKind::unavailable) return removed;
  // What the engine has started may go on without it: it is ended when the engine is back.
  TRY(spawn_unwatched({.command = {program_, std::string(kContainerProgram),
                                   std::string(kRemoveLater), engine_.socket, engine_.api, mark},
                       .folder = "/",
                       .new_session = true}));
  return fail(ErrorKind::unavailable,
              removed.error().message + "; they are removed when the engine answers again");
}

Status DockerRuntime::remove_kept(const std::string& mark) {
  EngineApi api(engine_);
  TRY_SET(const std::vector<std::string> ids,
          api.images_with(std::string(kLabelMark) + "=" + mark));
  for (const std::string& id : ids) TRY(api.remove_image(id));
  return {};
}

Result<std::optional<std::string>> DockerRuntime::find_image(
    const std::vector<std::string>& names) {
  EngineApi api(engine_);
  for (const std::string& name : names) {
    const auto image = api.image(name);
    if (image) return image->id;
    if (image.error().kind != ErrorKind::not_found) return std::unexpected(image.error());
  }
  return std::nullopt;
}

Result<std::string> DockerRuntime::load_root(const fs::path& root, const std::string& name) {
  return EngineApi(engine_).import_root(root, name);
}

}  // namespace trainyard::container
