#include "dialects/conda_place.h"

#include <doctest/doctest.h>

#include <map>

using namespace trainyard;
using namespace trainyard::dialects;

namespace {

// A machine with conda in some folder.
struct CondaMachine {
  TempDir dir;
  std::map<std::string, std::string> variables = {{"HOME", (dir.path() / "home").string()}};

  fs::path add(const std::string& environment) {
    const fs::path folder = dir.path() / environment;
    REQUIRE(make_dirs(folder / "bin"));
    REQUIRE(write_file(folder / "bin" / "python", "#!/bin/sh\n", 0755));
    return folder;
  }
  Result<fs::path> find(const std::string& name) const {
    return find_conda_environment(name, [&](const char* key) {
      const auto found = variables.find(key);
      return found == variables.end() ? std::string() : found->second;
    });
  }
};

}  // namespace

TEST_CASE("a conda environment is found where conda, its variables or its installers put it") {
  CondaMachine machine;
  const fs::path own = machine.add("home/miniconda3/envs/train");
  CHECK(machine.find("train").value() == own);
  const fs::path entered = machine.add("elsewhere/envs/train");
  machine.variables["CONDA_PREFIX"] = (machine.dir.path() / "elsewhere/envs/other").string();
  CHECK(machine.find("train").value() == entered);
  REQUIRE(make_dirs(machine.dir.path() / "tool/condabin"));
  REQUIRE(write_file(machine.dir.path() / "tool/condabin/conda", "#!/bin/sh\n", 0755));
  const fs::path beside = machine.add("tool/envs/train");
  machine.variables["CONDA_EXE"] = (machine.dir.path() / "tool/condabin/conda").string();
  CHECK(machine.find("train").value() == beside);
  const fs::path told = machine.add("told/train");
  machine.variables["CONDA_ENVS_PATH"] = "/none:" + (machine.dir.path() / "told").string();
  CHECK(machine.find("train").value() == told);
}

TEST_CASE("conda's own environment is base, and a path is itself") {
  CondaMachine machine;
  const fs::path root = machine.add("home/anaconda3");
  CHECK(machine.find("base").value() == root);
  const fs::path mine = machine.add("home/mine");
  CHECK(machine.find("~/mine").value() == mine);
  CHECK(machine.find(mine.string()).value() == mine);
}

TEST_CASE("a conda environment that is nowhere is told with where it was looked for") {
  CondaMachine machine;
  const Error error = machine.find("train").error();
  CHECK(error.kind == ErrorKind::not_found);
  CHECK(error.message == "there is no conda environment 'train' on this machine");
  CHECK(error.hint.find((machine.dir.path() / "home/miniconda3/envs/train").string()) !=
        std::string::npos);
  CHECK(error.hint.find("conda create -n train python") != std::string::npos);
  // A folder of the name that has no Python is none.
  REQUIRE(make_dirs(machine.dir.path() / "home/miniconda3/envs/train/bin"));
  CHECK_FALSE(machine.find("train"));
}
