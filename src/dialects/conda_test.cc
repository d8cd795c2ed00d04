#include "dialects/conda.h"

#include <doctest/doctest.h>

namespace trainyard::dialects {
namespace {

using Lines = std::vector<std::string>;

CondaFile parsed(std::string_view text) {
  auto found = parse_conda(text, "env.yml");
  REQUIRE_MESSAGE(found, found.error().message);
  return *std::move(found);
}

Error refused(std::string_view text) {
  const auto found = parse_conda(text, "env.yml");
  REQUIRE(!found);
  return found.error();
}

TEST_CASE("a file of conda's becomes a recipe, with places") {
  const CondaFile found = parsed(
      "name: project_environment\n"
      "channels:\n"
      "  - conda-forge\n"
      "  - defaults\n"
      "dependencies:\n"
      "  - python=3.8  # theirs\n"
      "  - numpy=1.19\n"
      "  - numpy=1.19\n"
      "  - conda-forge::pytorch >=1.7\n"
      "  - pip\n"
      "  - pip:\n"
      "      - trainyard==0.1\n"
      "      - --extra-index-url https://x/simple\n"
      "      - scikit-learn==0.23\n"
      "prefix: /home/somebody/miniconda3/envs/project_environment\n"
      "variables:\n"
      "  OMP_NUM_THREADS: 4\n");
  CHECK(found.name == "project_environment");
  const Recipe& recipe = found.environment.recipe;
  CHECK(recipe.kind == EnvironmentKind::conda);
  CHECK(recipe.python == "3.8");
  CHECK(recipe.channels == Lines{"conda-forge", "defaults"});
  CHECK(recipe.conda == Lines{"numpy=1.19  # env.yml:7", "conda-forge::pytorch >=1.7  # env.yml:9",
                              "pip  # env.yml:10"});
  CHECK(recipe.requirements == Lines{"scikit-learn==0.23  # env.yml:14"});
  CHECK(recipe.options == Lines{"--extra-index-url https://x/simple"});
  CHECK(found.environment.left_out == Lines{"trainyard==0.1"});
  CHECK(found.environment.variables.at("OMP_NUM_THREADS") == "4");
  CHECK(found.warnings.empty());
}

TEST_CASE("the version of Python is found in all ways to write it") {
  const std::pair<const char*, const char*> rows[] = {
      {"python", ""},
      {"python=3.8", "3.8"},
      {"python==3.8.10", "3.8.10"},
      {"python=3.8.10=h12debad_1", "3.8.10"},
      {"python 3.8.*", "3.8"},
      {"python>=3.8,<3.10", ">=3.8,<3.10"},
      {"conda-forge::python=3.11", "3.11"},
      {"python ~=3.9", "~=3.9"},
  };
  for (const auto& [text, version] : rows) {
    CAPTURE(text);
    CHECK(parsed("dependencies: ['" + std::string(text) + "']").environment.recipe.python ==
          version);
  }
}

TEST_CASE("what is wrong is told with its place") {
  CHECK(refused("").message == "env.yml:1: is empty");
  CHECK(refused("- a\n").message == "env.yml:1: must be a map of keys and values");
  CHECK(refused("name: x\n").message == "env.yml:1: there are no dependencies");
  CHECK(refused("dependencies: numpy\n").message == "env.yml:1: must be a list");
  CHECK(refused("dependencies:\n  - numpy\n  - [a]\n").message ==
        "env.yml:3: must be a text, or a map `pip:`");
  CHECK(refused("dependencies:\n  - npm:\n    - a\n").message ==
        "env.yml:2: 'npm:' is no kind of dependency");
  CHECK(refused("dependencies:\n  - pip:\n    - -e .\n")
            .message.starts_with("env.yml:3: an editable install"));
  CHECK(refused("variables: 3\ndependencies: []\n").message ==
        "env.yml:1: must be a map of names and values");
  CHECK(refused("dependencies:\n\t- a\n").message.starts_with("env.yml:2"));
}

TEST_CASE("keys that have no effect are named, a pip list may be empty") {
  const CondaFile found = parsed("dependencies:\n  - python\n  - pip:\nplatforms: [linux-64]\n");
  CHECK(found.warnings == Lines{"env.yml:4: 'platforms' has no effect here"});
  CHECK(found.environment.recipe.requirements.empty());
}

}  // namespace
}  // namespace trainyard::dialects
