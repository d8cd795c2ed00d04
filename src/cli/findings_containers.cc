#include <algorithm>

#include "base/variables.h"
#include "cli/findings.h"
#include "container/bubblewrap.h"
#include "container/engine_api.h"

namespace trainyard::cli {
// Not having one is no fault: who runs no containers needs none.
Finding look_at_container_engine() {
  const auto engine = container::find_engine({}, own_variables());
  const auto is_there = [](const std::string& socket) {
    std::error_code none;
    return fs::is_socket(socket, none);
  };
  if (!engine && std::ranges::any_of(container::engine_sockets(own_variables()), is_there)) {
    return {Grade::warn, "containers", engine.error().message, engine.error().hint};
  }
  if (!engine) {
    return {Grade::ok, "containers",
            "neither docker nor podman answers; images run by bubblewrap where that works", ""};
  }
  return {Grade::ok, "containers", std::string(engine->name()) + " at " + engine->socket, ""};
}

Finding look_at_bubblewrap() {
  const auto found = container::find_bubblewrap();
  if (!found) {
    return {Grade::ok, "bubblewrap",
            "not here; containers need docker or podman, and paths of a run's own need it", ""};
  }
  if (const Status works = container::try_bubblewrap(found->bwrap); !works) {
    return {
        Grade::warn, "bubblewrap", works.error().message,
        works.error().hint.empty() ? "See docs/environments/bubblewrap.md." : works.error().hint};
  }
  return {Grade::ok, "bubblewrap", found->bwrap, ""};
}

}  // namespace trainyard::cli
