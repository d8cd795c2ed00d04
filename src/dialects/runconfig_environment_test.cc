#include "dialects/runconfig_environment.h"

#include <doctest/doctest.h>

#include "base/file.h"

using namespace trainyard;
using namespace trainyard::dialects;
using Words = std::vector<std::string>;

namespace {

// A project with train.py, a conda and a requirements file, and one run configuration.
struct Project {
  explicit Project(std::string_view text) {
    put("train.py", "");
    put("aml_config/conda.yml",
        "channels: [conda-forge]\ndependencies:\n- python=3.11\n- pip:\n  - numpy\n"
        "  - azureml-defaults\n");
    put("requirements.txt", "pandas\n");
    put("Dockerfile", "FROM debian:12\n");
    put("aml_config/t.runconfig", "script: train.py\n" + std::string(text));
  }
  void put(const fs::path& file, std::string_view text) {
    REQUIRE(make_dirs((dir.path() / file).parent_path()));
    REQUIRE(write_file(dir.path() / file, text));
  }
  Result<Runconfig> load() const {
    return load_runconfig({.project = dir.path(), .name = "t", .words = {}});
  }
  TempDir dir;
};

Runconfig loaded(std::string_view text) {
  auto config = Project(text).load();
  REQUIRE_MESSAGE(config, config.error().message);
  return *std::move(config);
}
Environment environment_of(std::string_view text) { return loaded(text).spec.environment; }

std::string error_of(std::string_view text) {
  const auto config = Project(text).load();
  REQUIRE(!config);
  return config.error().message;
}

bool holds(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// Without the places they were read from.
Words plain(const Words& lines) {
  Words found;
  for (const std::string& line : lines) found.push_back(line.substr(0, line.find("  # ")));
  return found;
}

}  // namespace

TEST_CASE("without a word on what is installed a run uses what the machine has") {
  CHECK(environment_of("target: local\n") == Environment{});
  CHECK(environment_of("environment: {name: default-environment}\n") == Environment{});
  CHECK(environment_of("environment: {name: mine, python: {userManagedDependencies: false}}\n") ==
        Environment{});
  CHECK(
      environment_of("environment: {python: {userManagedDependencies: true, "
                     "interpreterPath: python, condaDependenciesFile: aml_config/conda.yml}}\n") ==
      Environment{});
}

TEST_CASE("an interpreter of the user's own is the environment's") {
  const Runconfig config = loaded(
      "environment: {python: {userManagedDependencies: true, interpreterPath: /opt/py/python}}\n");
  CHECK(config.spec.environment.recipe.kind == EnvironmentKind::system);
  CHECK(config.spec.environment.interpreter == "/opt/py/python");
  CHECK(config.spec.command.front() == "/opt/py/python");
}

TEST_CASE("a name alone is a registered or curated environment") {
  const Environment latest = environment_of("environment: {name: AzureML-Minimal}\n");
  CHECK(latest.name == "AzureML-Minimal");
  CHECK(latest.version.empty());
  CHECK(latest.recipe == Recipe{});
  CHECK(environment_of("environment: {name: mine, version: 3}\n").version == "3");
  CHECK(environment_of("environment: {name: mine, version: latest}\n").version.empty());
}

TEST_CASE("a conda file is found from the project or beside the run configuration") {
  for (const char* path : {"aml_config/conda.yml", "conda.yml"}) {
    const Environment made = environment_of(
        "environment: {python: {condaDependenciesFile: " + std::string(path) + "}}\n");
    CHECK(made.recipe.kind != EnvironmentKind::system);
    CHECK(made.recipe.python == "3.11");
    CHECK(plain(made.recipe.requirements) == Words{"numpy"});
    CHECK(plain(made.left_out) == Words{"azureml-defaults"});
  }
  CHECK(
      plain(environment_of("CondaDependenciesFile: aml_config/conda.yml\n").recipe.requirements) ==
      Words{"numpy"});
  CHECK(holds(error_of("environment:\n  python:\n    condaDependenciesFile: none.yml\n"),
              "t.runconfig:4: environment.python.condaDependenciesFile: there is no file "
              "'none.yml'"));
}

TEST_CASE("conda's packages may stand in the run configuration itself") {
  const Environment made = environment_of(
      "environment:\n  python:\n    condaDependencies:\n      dependencies:\n      - python=3.10\n"
      "      - pip: [tqdm]\n");
  CHECK(made.recipe.python == "3.10");
  CHECK(plain(made.recipe.requirements) == Words{"tqdm"});
}

TEST_CASE("an image, its packages, arguments and size of shared memory make a container") {
  const Environment made = environment_of(
      "environment:\n  docker:\n    enabled: true\n    baseImage: debian:12\n    shmSize: 4g\n"
      "    arguments: [-v, '/data:/data']\n  python:\n"
      "    condaDependenciesFile: aml_config/conda.yml\n");
  CHECK(made.recipe.kind == EnvironmentKind::container);
  CHECK(made.recipe.image == "debian:12");
  CHECK(plain(made.recipe.requirements) == Words{"numpy"});
  CHECK(made.shm_size == "4g");
  CHECK(made.arguments == Words{"-v", "/data:/data"});
}

TEST_CASE("docker is switched by the newer section where there is one") {
  const std::string image = "environment: {docker: {enabled: true, baseImage: debian}}\n";
  CHECK(environment_of(image).recipe.kind == EnvironmentKind::container);
  CHECK(environment_of(image + "docker: {useDocker: false}\n").recipe.kind ==
        EnvironmentKind::system);
  const Environment newer = environment_of(
      "environment: {docker: {enabled: false, baseImage: debian, arguments: [--ipc, host]}}\n"
      "docker: {useDocker: true, arguments: [--gpus, all], shmSize: 1g}\n");
  CHECK(newer.recipe.kind == EnvironmentKind::container);
  CHECK(newer.arguments == Words{"--gpus", "all"});
  CHECK(newer.shm_size == "1g");
}

TEST_CASE("arguments are kept without a container, for the run's own view of folders") {
  const Environment made =
      environment_of("environment: {docker: {enabled: false, arguments: [-v, '/a:/data']}}\n");
  CHECK(made.recipe.kind == EnvironmentKind::system);
  CHECK(made.arguments == Words{"-v", "/a:/data"});
}

TEST_CASE("a Dockerfile is its text, or the path of one") {
  CHECK(environment_of("environment: {docker: {enabled: true, baseDockerfile: Dockerfile}}\n")
            .recipe.dockerfile == "FROM debian:12\n");
  CHECK(environment_of("environment:\n  docker:\n    enabled: true\n    baseDockerfile: |\n"
                       "      FROM debian\n      RUN true\n")
            .recipe.dockerfile == "FROM debian\nRUN true\n");
  CHECK(holds(error_of("environment: {docker: {enabled: true, baseDockerfile: none}}\n"),
              "t.runconfig:2: environment.docker.baseDockerfile: there is no file 'none'"));
}

TEST_CASE("a registry's password is kept apart from the environment") {
  const Runconfig config = loaded(
      "environment: {docker: {enabled: true, baseImage: r.example/i, baseImageRegistry: {address: "
      "r.example, username: ada, password: hush}}}\n");
  CHECK(config.registry_password == "hush");
  CHECK(config.spec.environment.registry.address == "r.example");
  CHECK(config.spec.environment.registry.username == "ada");
  CHECK(config.spec.environment.registry.secret.empty());
  CHECK(holds(error_of("environment: {docker: {enabled: true, baseImage: i, baseImageRegistry: "
                       "{password: hush}}}\n"),
              "of which registry?"));
}

TEST_CASE("docker without an image warns, and the packages are installed on the machine") {
  const Runconfig config = loaded(
      "environment: {docker: {enabled: true}, python: {requirementsFile: requirements.txt}}\n");
  REQUIRE(config.warnings.size() == 1);
  CHECK(holds(config.warnings[0], "no image is named"));
  CHECK(config.spec.environment.recipe.kind == EnvironmentKind::venv);
  CHECK(plain(config.spec.environment.recipe.requirements) == Words{"pandas"});
}
