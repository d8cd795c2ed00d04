#include "container/plan_file.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

namespace trainyard::container {

TEST_CASE("a plan is read from its file as it was written, by its owner alone") {
  const TempDir folder;
  const fs::path path = folder.path() / "plan.json";
  PlanFile file;
  file.plan.image = "sha256:12";
  file.plan.config = {.entrypoint = {"a"}, .command = {"b", "c"}, .variables = {"X=1"}};
  file.plan.command = {"python3", "-c", "print(\"\xc3\xa9\")"};
  file.plan.variables = {"PATH", "SECRET"};
  file.plan.binds = {{"/a", "/b", true}, {"/c", "/d", false}};
  file.plan.memory_bytes = int64_t{1} << 40;
  file.plan.gpus = true;
  file.plan.note = "/x/note";
  file.plan.process = "/x/process";
  file.engine = {.socket = "/s", .podman = true, .rootless = true, .api = "1.44"};
  REQUIRE(write_plan(file, path));
  const PlanFile read = read_plan(path).value();
  CHECK(read.plan == file.plan);
  CHECK(read.engine == file.engine);
  struct stat found{};
  REQUIRE(stat(path.c_str(), &found) == 0);
  CHECK((found.st_mode & 0777) == 0600);
}

TEST_CASE("a file that is no plan is refused by its name") {
  const TempDir folder;
  const fs::path path = folder.path() / "plan.json";
  for (const char* text : {"{}", "[]", "{\"command\": 1, \"engine\": {}}", "no json"}) {
    REQUIRE(write_file(path, text));
    CHECK(read_plan(path).error().kind == ErrorKind::invalid);
  }
  CHECK(read_plan(folder.path() / "none").error().kind == ErrorKind::not_found);
}

}  // namespace trainyard::container
