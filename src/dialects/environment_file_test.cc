#include "dialects/environment_file.h"

#include <doctest/doctest.h>

#include "dialects/job.h"

using namespace trainyard;
using namespace trainyard::dialects;
using Words = std::vector<std::string>;

namespace {

struct Folder {
  Folder() {
    put("conda.yml", "dependencies:\n- python=3.11\n- pip: [numpy]\n");
    put("docker/Dockerfile", "FROM debian:12\n");
    put("envs/env.yml", "name: mine\nimage: debian:12\nconda_file: ../conda.yml\n");
  }
  void put(const fs::path& file, std::string_view text) const {
    REQUIRE(make_dirs((dir.path() / file).parent_path()));
    REQUIRE(write_file(dir.path() / file, text));
  }
  // The environment of a job file.
  Result<Job> job(std::string_view environment) const {
    put("job.yml", "command: x\nenvironment: " + std::string(environment) + "\n");
    return load_job({dir.path() / "job.yml", {}, {}});
  }
  Environment of(std::string_view environment) const {
    auto loaded = job(environment);
    REQUIRE_MESSAGE(loaded, loaded.error().message);
    return loaded->spec.environment;
  }
  std::string error(std::string_view environment) const {
    const auto loaded = job(environment);
    REQUIRE(!loaded);
    return loaded.error().message;
  }
  TempDir dir;
};

// With the last part of the folder that it is built from as Recipe::context.
Environment round_trip(const Environment& environment, const std::vector<TextFile>& more = {}) {
  const TempDir dir;
  for (const TextFile& file : more) {
    REQUIRE(make_dirs((dir.path() / file.name).parent_path()));
    REQUIRE(write_file(dir.path() / file.name, file.text));
  }
  for (const TextFile& file : environment_files(environment)) {
    REQUIRE(write_file(dir.path() / file.name, file.text));
  }
  std::vector<std::string> warnings;
  auto draft = load_environment_folder(dir.path(), warnings);
  REQUIRE_MESSAGE(draft, draft.error().message);
  CHECK(warnings.empty());
  if (!draft->build.empty()) draft->environment.recipe.context = draft->build.filename();
  return draft->environment;
}

// Without the places they were read from.
Words plain(const Words& lines) {
  Words found;
  for (const std::string& line : lines) found.push_back(line.substr(0, line.find("  # ")));
  return found;
}

}  // namespace

TEST_CASE("a job names its environment in all spellings") {
  const Folder folder;
  CHECK(folder.of("azureml:mine:3").name == "mine");
  CHECK(folder.of("azureml:mine:3").version == "3");
  CHECK(folder.of("azureml:mine@latest").version.empty());
  CHECK(folder.of("sklearn").name == "sklearn");
  CHECK(folder.of("azureml://registries/azureml/environments/sklearn-1.5/labels/latest").name ==
        "sklearn-1.5");
  CHECK(folder.of("{name: mine, version: 2}").version == "2");
  CHECK(folder.of("system") == Environment{});
  CHECK(folder.of("") == Environment{});
}

TEST_CASE("a job's environment may be another file, from its own folder") {
  const Folder folder;
  for (const char* value : {"file:./envs/env.yml", "./envs/env.yml", "envs/env.yml"}) {
    const Environment made = folder.of(value);
    CHECK(made.recipe.kind == EnvironmentKind::container);
    CHECK(made.recipe.image == "debian:12");
    CHECK(plain(made.recipe.requirements) == Words{"numpy"});
  }
  CHECK(folder.error("file:none.yml").contains("job.yml:2: environment: there is no file"));
  folder.put("bad.yml", "image: [1]\n");
  CHECK(folder.error("file:bad.yml").contains("bad.yml:1: environment.image: must be a text"));
}

TEST_CASE("a job's environment may be written there: image, packages, build folder") {
  const Folder folder;
  CHECK(folder.of("{image: debian}").recipe.image == "debian");
  CHECK(plain(folder.of("{image: debian, conda_file: conda.yml}").recipe.requirements) ==
        Words{"numpy"});
  CHECK(folder.of("{conda_file: conda.yml}").recipe.kind != EnvironmentKind::container);
  CHECK(plain(folder.of("{image: debian, conda_file: {dependencies: [pip: [tqdm]]}}")
                  .recipe.requirements) == Words{"tqdm"});
  const auto built = folder.job("{build: {path: docker}}");
  REQUIRE(built);
  CHECK(built->spec.environment.recipe.kind == EnvironmentKind::container);
  CHECK(built->spec.environment.recipe.dockerfile == "Dockerfile");
  CHECK(built->build == folder.dir.path() / "docker");
  CHECK(folder.error("{build: {path: none}}").contains("job.yml:2: environment: build.path"));
  CHECK(folder.error("{build: {path: docker, dockerfile_path: D2}}").contains("there is no 'D2'"));
  CHECK(folder.error("{build: {}}").contains("build.path: is missing"));
  CHECK(folder.error("{image: a, build: {path: docker}}").contains("keep one of them"));
  CHECK(
      folder.error("{build: {path: docker}, conda_file: conda.yml}").contains("in the Dockerfile"));
  CHECK(folder.error("{image: a, conda_file: none.yml}").contains("there is no file 'none.yml'"));
}

TEST_CASE("shared memory and docker's arguments are a job's resources") {
  const Folder folder;
  folder.put("job.yml",
             "command: x\nenvironment: {image: a}\nresources: {shm_size: 4g, docker_args: "
             "'--ipc host'}\n");
  const auto job = load_job({folder.dir.path() / "job.yml", {}, {}});
  REQUIRE(job);
  CHECK(job->spec.environment.shm_size == "4g");
  CHECK(job->spec.environment.arguments == Words{"--ipc host"});
}

TEST_CASE("an environment file has a name and says what is in it") {
  const Folder folder;
  std::vector<std::string> warnings;
  const auto draft = load_environment_file(folder.dir.path() / "envs/env.yml", warnings);
  REQUIRE(draft);
  CHECK(draft->environment.name == "mine");
  folder.put("empty.yml", "name: x\n");
  CHECK(!load_environment_file(folder.dir.path() / "empty.yml", warnings));
  folder.put("list.yml", "[1]\n");
  CHECK(!load_environment_file(folder.dir.path() / "list.yml", warnings));
}

TEST_CASE("what was downloaded and is registered again does the same") {
  Environment conda_one;
  conda_one.name = "mine";
  conda_one.recipe.kind = EnvironmentKind::conda;
  conda_one.recipe.python = "3.11";
  conda_one.recipe.channels = {"conda-forge"};
  conda_one.recipe.conda = {"openmpi=4"};
  conda_one.recipe.requirements = {"numpy==1.26 ; python_version > '3'"};
  conda_one.variables = {{"A", "1"}};
  CHECK(fingerprint(round_trip(conda_one)) == fingerprint(conda_one));

  Environment venv_one;
  venv_one.name = "mine";
  venv_one.recipe.kind = EnvironmentKind::venv;
  venv_one.recipe.requirements = {"numpy", "pandas>=2"};
  CHECK(fingerprint(round_trip(venv_one)) == fingerprint(venv_one));

  Environment image;
  image.name = "mine";
  image.recipe.kind = EnvironmentKind::container;
  image.recipe.image = "r.example/debian:12";
  image.arguments = {"--ipc", "host"};
  image.shm_size = "2g";
  image.registry = {"r.example", "ada", "registry-r.example-ada"};
  CHECK(fingerprint(round_trip(image)) == fingerprint(image));

  Environment built = image;
  built.recipe.image.clear();
  built.recipe.dockerfile = "FROM debian\nRUN true\n";
  CHECK(fingerprint(round_trip(built)) == fingerprint(built));

  for (const char* dockerfile : {"docker/Dockerfile", "FROM debian\nCOPY . /\n"}) {
    Environment folder = built;
    folder.recipe.dockerfile = dockerfile;
    folder.recipe.context = std::string(64, '1');
    // The folder itself is a tree of blobs: whoever captures it has the same again.
    Environment read = round_trip(folder, {{"context/docker/Dockerfile", "FROM debian\n"}});
    CHECK(read.recipe.context == "context");
    read.recipe.context = folder.recipe.context;
    CHECK(fingerprint(read) == fingerprint(folder));
  }

  Environment own;
  own.name = "mine";
  own.interpreter = "/opt/python";
  CHECK(fingerprint(round_trip(own)) == fingerprint(own));
}

TEST_CASE("a scaffold can be registered as it is") {
  const TempDir dir;
  for (const TextFile& file : scaffold_files("mine")) {
    REQUIRE(write_file(dir.path() / file.name, file.text));
  }
  std::vector<std::string> warnings;
  const auto draft = load_environment_folder(dir.path(), warnings);
  REQUIRE_MESSAGE(draft, draft.error().message);
  CHECK(draft->environment.name == "mine");
  CHECK(draft->environment.recipe.python == "3.11");
  CHECK(draft->environment.variables.size() == 1);
  CHECK(!load_environment_folder(dir.path() / "none", warnings));
}

TEST_CASE("packages of files that a client sent are those of its files") {
  SentFiles sent;
  Environment environment;
  environment.recipe.kind = EnvironmentKind::container;
  environment.recipe.image = "debian:12";
  std::vector<std::string> warnings;
  REQUIRE(add_sent_conda(sent, "./conda.yml", environment, warnings));
  CHECK(sent.missing == std::set<std::string>{"./conda.yml"});
  sent.missing.clear();
  sent.texts["conda.yml"] = "odd: 1\ndependencies:\n- python=3.11\n- pip: [-r more.txt]\n";
  REQUIRE(add_sent_conda(sent, "./conda.yml", environment, warnings));
  CHECK(sent.missing == std::set<std::string>{"more.txt"});
  sent.missing.clear();
  sent.texts["more.txt"] = "numpy\ntrainyard\n";
  warnings.clear();
  REQUIRE(add_sent_conda(sent, "./conda.yml", environment, warnings));
  REQUIRE(add_sent_requirements(sent, "more.txt", environment));
  CHECK(sent.missing.empty());
  CHECK(environment.recipe.kind == EnvironmentKind::container);
  CHECK(plain(environment.recipe.requirements).back() == "numpy");
  CHECK(environment.left_out.back() == "trainyard");
  CHECK(warnings.size() == 1);
  sent.texts["conda.yml"] = "[1]";
  CHECK(!add_sent_conda(sent, "conda.yml", environment, warnings));
}
