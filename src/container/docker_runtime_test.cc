#include "container/docker_runtime.h"

#include <doctest/doctest.h>

#include "base/text.h"
#include "container/plan_file.h"
#include "container/test_engine.h"

namespace trainyard::container {

TEST_CASE("a rank's words name a file with the plan and the engine") {
  const TempDir folder;
  const EngineAddress engine{.socket = "/x/sock", .podman = true};
  DockerRuntime runtime("/bin/trainyard", engine);
  CHECK(runtime.name() == "podman");
  Plan plan;
  plan.image = "tiny";
  plan.arguments = {"-v", "/a:/b"};
  const fs::path file = folder.path() / "plan";
  CHECK(runtime.command(plan, file).value() ==
        std::vector<std::string>{"/bin/trainyard", "container", file.string()});
  CHECK(read_plan(file).value().plan == plan);
  CHECK(read_plan(file).value().engine == engine);
  plan.arguments = {"--privileged"};
  CHECK(runtime.command(plan, file).error().kind == ErrorKind::invalid);
  plan = {};
  CHECK(runtime.command(plan, file).error().kind == ErrorKind::invalid);
}

TEST_CASE("what a killed supervisor left is ended by its mark, and nothing else") {
  for (TestEngine* engine : {&TestEngine::docker(), &TestEngine::podman()}) {
    if (engine->socket.empty()) {
      MESSAGE(engine->skipped);
      continue;
    }
    const auto start = [&](const std::string& mark) {
      return std::string(trim(engine->cli({"run", "-d", "--network=host", "--label",
                                           "trainyard.mark=" + mark, "tiny", "sleep", "300"})));
    };
    start("one");
    start("one");
    const std::string other = start("two");
    DockerRuntime runtime("/bin/trainyard", engine->address());
    REQUIRE(runtime.remove_leftovers("one"));
    EngineApi api(engine->address());
    CHECK(api.list("trainyard.mark=one").value().empty());
    CHECK(api.list("trainyard.mark=two").value() == std::vector<std::string>{other});
    CHECK(api.state(other).value().running);
    REQUIRE(runtime.remove_leftovers("one"));
    REQUIRE(runtime.remove_leftovers("two"));
    CHECK(api.state(other).error().kind == ErrorKind::not_found);
    CHECK(api.kill(other, 9));
    CHECK(api.remove(other));
  }
}

}  // namespace trainyard::container
