#include "dialects/runconfig_environment.h"

#include <doctest/doctest.h>

#include "base/file.h"

using namespace trainyard;
using namespace trainyard::dialects;
using Words = std::vector<std::string>;

namespace {

// A project with train.py, a conda and a requirements file, and one run configuration.
struct EnvironmentProject {
  explicit EnvironmentProject(std::string_view text) {
    put("train.py", "");
    put("aml_config/conda.yml",
        "channels: [conda-forge]\ndependencies:\n- python=3.11\n- pip:\n  - numpy\n"
        "  - trainyard\n");
    put("requirements.txt", "pandas\n");
    put("Dockerfile", "FROM debian:12\n");
    put("docker/D2", "FROM debian:12\n");
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
  auto config = EnvironmentProject(text).load();
  REQUIRE_MESSAGE(config, config.error().message);
  return *std::move(config);
}
Environment environment_of(std::string_view text) { return loaded(text).spec.environment; }

std::string error_of(std::string_view text) {
  const auto config = EnvironmentProject(text).load();
  REQUIRE(!config);
  return config.error().message;
}

// Without the places they were read from.
Words plain_words(const Words& lines) {
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

TEST_CASE("packages go upon a conda environment of the machine, which may be all there is") {
  TempDir conda;
  REQUIRE(make_dirs(conda.path() / "train/bin"));
  const std::string python = conda.path() / "train/bin/python";
  REQUIRE(write_file(python, "#!/bin/sh\n", 0755));
  const std::string base = "baseCondaEnvironment: " + (conda.path() / "train").string();
  for (const char* managed : {"false", "true"}) {
    const Runconfig alone =
        loaded("environment: {python: {userManagedDependencies: " + std::string(managed) + ", " +
               base + "}}\n");
    CHECK(alone.warnings.empty());
    CHECK(alone.spec.environment.recipe == Recipe{});
    CHECK(alone.spec.environment.interpreter == python);
    CHECK(alone.spec.command.front() == "python");
  }
  for (const char* file :
       {"condaDependenciesFile: aml_config/conda.yml", "requirementsFile: requirements.txt"}) {
    const Environment upon =
        environment_of("environment: {python: {" + base + ", " + std::string(file) + "}}\n");
    CHECK(upon.recipe.kind == EnvironmentKind::venv);
    CHECK(upon.recipe.python == python);
    CHECK(upon.recipe.requirements.size() == 1);
    CHECK(upon.interpreter.empty());
  }
}

TEST_CASE("a conda environment of the machine that cannot be used is told") {
  const Runconfig inside = loaded(
      "environment: {docker: {enabled: true, baseImage: i}, python: {baseCondaEnvironment: x}}\n");
  REQUIRE(inside.warnings.size() == 1);
  CHECK(inside.warnings[0].contains("has no effect (the image has a Python of its own)"));
  const Runconfig condas = loaded(
      "environment: {python: {baseCondaEnvironment: x, condaDependencies: {dependencies: "
      "[python=3.8, cudatoolkit]}}}\n");
  REQUIRE(condas.warnings.size() == 1);
  CHECK(condas.warnings[0].contains("into an environment of their own"));
  CHECK(error_of("environment: {python: {baseCondaEnvironment: /no/such/place}}\n")
            .contains("t.runconfig:2: environment.python.baseCondaEnvironment: there is no conda "
                      "environment '/no/such/place' on this machine"));
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
    CHECK(plain_words(made.recipe.requirements) == Words{"numpy"});
    CHECK(plain_words(made.left_out) == Words{"trainyard"});
  }
  CHECK(plain_words(
            environment_of("CondaDependenciesFile: aml_config/conda.yml\n").recipe.requirements) ==
        Words{"numpy"});
  CHECK(error_of("environment:\n  python:\n    condaDependenciesFile: none.yml\n")
            .contains("t.runconfig:4: environment.python.condaDependenciesFile: there is no file "
                      "'none.yml'"));
}

TEST_CASE("conda's packages may stand in the run configuration itself") {
  const Environment made = environment_of(
      "environment:\n  python:\n    condaDependencies:\n      dependencies:\n      - python=3.10\n"
      "      - pip: [tqdm]\n");
  CHECK(made.recipe.python == "3.10");
  CHECK(plain_words(made.recipe.requirements) == Words{"tqdm"});
}

TEST_CASE("an image, its packages, arguments and size of shared memory make a container") {
  const Environment made = environment_of(
      "environment:\n  docker:\n    enabled: true\n    baseImage: debian:12\n    shmSize: 4g\n"
      "    arguments: [-v, '/data:/data']\n  python:\n"
      "    condaDependenciesFile: aml_config/conda.yml\n");
  CHECK(made.recipe.kind == EnvironmentKind::container);
  CHECK(made.recipe.image == "debian:12");
  CHECK(plain_words(made.recipe.requirements) == Words{"numpy"});
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
  const EnvironmentProject folder(
      "environment: {docker: {enabled: true, buildContext: {location: docker, dockerfilePath: "
      "D2}}}\n");
  const auto config = folder.load();
  REQUIRE(config);
  CHECK(config->build == folder.dir.path() / "docker");
  CHECK(config->spec.environment.recipe.dockerfile == "D2");
  CHECK(error_of("environment: {docker: {enabled: true, buildContext: {location: none}}}\n")
            .contains("there is no folder 'none'"));
  CHECK(error_of("environment: {docker: {enabled: true, buildContext: {location: docker}}}\n")
            .contains("there is no 'Dockerfile'"));
  CHECK(error_of("environment: {docker: {enabled: true, baseImage: a, "
                 "buildContext: {location: docker}}}\n")
            .contains("keep one of them"));
  CHECK(error_of("environment: {docker: {enabled: true, baseDockerfile: none}}\n")
            .contains("t.runconfig:2: environment.docker.baseDockerfile: there is no file 'none'"));
}

TEST_CASE("a Dockerfile that copies files is built of the folder it lies in, any other of none") {
  EnvironmentProject project("environment: {docker: {enabled: true, baseDockerfile: docker/D2}}\n");
  CHECK(project.load()->build.empty());
  project.put("docker/D2", "FROM debian:12\nWORKDIR /app\ncopy . .\nCMD python main.py\n");
  CHECK(project.load()->build == project.dir.path() / "docker");
  project.put("docker/D2", "FROM debian:12 AS a\nRUN true\nFROM debian:12\nCOPY --from=a /x /x\n");
  CHECK(project.load()->build.empty());
}

TEST_CASE("an image needs no script: it has a command of its own") {
  EnvironmentProject project("");
  project.put("aml_config/t.runconfig", "environment: {docker: {enabled: true, baseImage: i}}\n");
  const auto config = project.load();
  REQUIRE(config);
  CHECK(config->spec.command.empty());
}

TEST_CASE("a registry's password is kept apart from the environment") {
  const Runconfig config = loaded(
      "environment: {docker: {enabled: true, baseImage: r.example/i, baseImageRegistry: {address: "
      "r.example, username: ada, password: hush}}}\n");
  CHECK(config.registry_password == "hush");
  CHECK(config.spec.environment.registry.address == "r.example");
  CHECK(config.spec.environment.registry.username == "ada");
  CHECK(config.spec.environment.registry.secret.empty());
  CHECK(error_of("environment: {docker: {enabled: true, baseImage: i, baseImageRegistry: "
                 "{password: hush}}}\n")
            .contains("of which registry?"));
}

TEST_CASE("a registry's address is joined to an image that names none") {
  const std::pair<const char*, const char*> cases[] = {
      {"team/i:1", "r.example/team/i:1"}, {"i:1", "r.example/i:1"},
      {"r.example/i:1", "r.example/i:1"}, {"other.example/i", "other.example/i"},
      {"localhost/i", "localhost/i"},     {"localhost:5000/i", "localhost:5000/i"},
  };
  for (const auto& [image, expected] : cases) {
    const Runconfig config =
        loaded("environment: {docker: {enabled: true, baseImage: '" + std::string(image) +
               "', baseImageRegistry: {address: 'https://r.example/'}}}\n");
    CHECK(config.spec.environment.recipe.image == expected);
  }
}

TEST_CASE("docker without an image warns, and the packages are installed on the machine") {
  const Runconfig config = loaded(
      "environment: {docker: {enabled: true}, python: {requirementsFile: requirements.txt}}\n");
  REQUIRE(config.warnings.size() == 1);
  CHECK(config.warnings[0].contains("no image is named"));
  CHECK(config.spec.environment.recipe.kind == EnvironmentKind::venv);
  CHECK(plain_words(config.spec.environment.recipe.requirements) == Words{"pandas"});
}
