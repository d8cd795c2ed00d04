#include "container/docker_runtime.h"

#include <doctest/doctest.h>

#include "base/text.h"
#include "container/plan_file.h"
#include "container/test_engine.h"
#include "container/unpack.h"

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

TEST_CASE("an image that was unpacked elsewhere is taken in, and found by its name from then on") {
  const TempDir dir;
  for (TestEngine* engine : {&TestEngine::docker(), &TestEngine::podman()}) {
    if (engine->socket.empty()) {
      MESSAGE(engine->skipped);
      continue;
    }
    EngineApi api(engine->address());
    const fs::path root = dir.path() / engine->address().name();
    const Unpacked unpacked = unpack_from_engine(api, "tiny", root, {}).value();
    REQUIRE(write_file(root / "added", "here\n"));
    DockerRuntime runtime("/bin/trainyard", engine->address());
    const std::string name = "trainyard/env:0123456789ab-0123456789ab";
    CHECK_FALSE(runtime.find_image({name, "no-such-image"}).value());
    const std::string id = runtime.load_root(root, name).value();
    CHECK(runtime.find_image({"no-such-image", name}).value() == id);
    CHECK(id != unpacked.id);
    CHECK(engine->cli({"run", "--rm", "--network=host", "--user", "1234", id, "sh", "-c",
                       "cat /added; stat -c %u:%a /bin/busybox; touch /tmp/x && echo written"}) ==
          "here\n0:755\nwritten\n");
    api.remove_image(id).value();
  }
}

TEST_CASE(
    "what a container changed is kept as an image without its variables, until it is removed") {
  for (TestEngine* engine : {&TestEngine::docker(), &TestEngine::podman()}) {
    if (engine->socket.empty()) {
      MESSAGE(engine->skipped);
      continue;
    }
    EngineApi api(engine->address());
    const std::string id(
        trim(engine->cli({"run", "-d", "--network=host", "--label", "trainyard.mark=kept", "-e",
                          "TOKEN=hush", "tiny", "sh", "-c", "echo here > /added"})));
    REQUIRE(api.wait(id).value() == 0);
    REQUIRE(api.commit(id, "trainyard-kept:test", {"TOKEN"}));
    REQUIRE(api.remove(id));
    const auto image = api.image("trainyard-kept:test").value();
    for (const std::string& variable : image.config.variables) CHECK(variable != "TOKEN=hush");
    CHECK(engine->cli({"run", "--rm", "--network=host", "-e", "TOKEN=mine", "trainyard-kept:test",
                       "sh", "-c", "cat /added; echo $TOKEN $FROM_IMAGE"}) == "here\nmine yes\n");
    DockerRuntime runtime("/bin/trainyard", engine->address());
    REQUIRE(runtime.remove_kept("another"));
    CHECK(api.image("trainyard-kept:test"));
    REQUIRE(runtime.remove_kept("kept"));
    CHECK(api.image("trainyard-kept:test").error().kind == ErrorKind::not_found);
    CHECK(api.image("tiny"));
    REQUIRE(runtime.remove_kept("kept"));
  }
}

}  // namespace trainyard::container
