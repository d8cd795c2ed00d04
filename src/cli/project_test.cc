#include "cli/project.h"

#include <doctest/doctest.h>

using namespace trainyard;
using namespace trainyard::cli;

namespace {

void put(const fs::path& path, std::string_view text) {
  REQUIRE(make_dirs(path.parent_path()));
  REQUIRE(write_file(path, text));
}

}  // namespace

TEST_CASE("a folder belongs to the workspace named beside it or above it") {
  const TempDir dir;
  const fs::path below = dir.path() / "models" / "model1";
  REQUIRE(make_dirs(below));
  put(dir.path() / ".azureml" / "config.json",
      R"({"subscription_id": "s", "resource_group": "g", "workspace_name": "w",
          "experiment_name": "e"})");
  for (const fs::path& folder : {dir.path(), below}) {
    const auto project = find_project(folder);
    REQUIRE(project);
    CHECK(project->workspace == "w");
    CHECK(project->experiment == "e");
    CHECK(project->subscription_id == "s");
    CHECK(project->resource_group == "g");
  }
  put(below / "aml_config" / "config.json", R"({"workspace_name": "nearer"})");
  CHECK(find_project(below)->workspace == "nearer");
  CHECK(find_project(below)->experiment.empty());
  put(below / ".azureml" / "config.json", R"({"workspace_name": "first"})");
  CHECK(find_project(below)->workspace == "first");
}

TEST_CASE("the older form of an attachment is a resource's path") {
  const TempDir dir;
  put(dir.path() / "aml_config" / "config.json",
      R"({"Id": null, "Scope": "/subscriptions/s/resourceGroups/g/providers/)"
      R"(Microsoft.MachineLearningServices/workspaces/w/projects/my exp"})");
  const auto project = find_project(dir.path());
  REQUIRE(project);
  CHECK(project->workspace == "w");
  CHECK(project->experiment == "my exp");
}

TEST_CASE("a config.json that is wrong is refused with its place") {
  const TempDir dir;
  const fs::path file = dir.path() / ".azureml" / "config.json";
  put(file, "{\n \"workspace_name\": \"w\",\n}");
  const auto broken = find_project(dir.path());
  REQUIRE_FALSE(broken);
  CHECK(broken.error().kind == ErrorKind::invalid);
  CHECK(broken.error().message.starts_with(file.string() + ":3: "));
  put(file, R"({"workspace_name": 3})");
  CHECK_FALSE(find_project(dir.path()));
  put(file, "[]");
  CHECK_FALSE(find_project(dir.path()));
}
