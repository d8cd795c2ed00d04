#include "supervisor/environment.h"

#include <doctest/doctest.h>

using namespace trainyard;
using namespace trainyard::supervisor;

namespace {

// Somebody's own Python, below a folder of its own.
struct OwnPython {
  TempDir dir;
  fs::path file = dir.path() / "env" / "bin" / "python";

  OwnPython() {
    REQUIRE(make_dirs(file.parent_path()));
    REQUIRE(write_file(file, "#!/bin/sh\n", 0755));
  }
  Variables enter(const fs::path& interpreter) const {
    Environment environment;
    environment.interpreter = interpreter;
    Variables variables = {{"PATH", "/bin"}, {"PYTHONHOME", "/elsewhere"}};
    REQUIRE(enter_environment(environment, {}, dir.path() / "links", variables));
    return variables;
  }
};

}  // namespace

TEST_CASE("an interpreter of one's own is python, whatever its file is called") {
  const OwnPython own;
  const fs::path other = own.file.parent_path() / "python9.9";
  fs::rename(own.file, other);
  const fs::path links = own.dir.path() / "links";
  CHECK(own.enter(other).at("PATH") == links.string() + ":/bin");
  for (const char* name : {"python", "python3"}) CHECK(fs::read_symlink(links / name) == other);
}

TEST_CASE("an interpreter of a conda or virtual environment brings its programs along") {
  const OwnPython own;
  const fs::path prefix = own.file.parent_path().parent_path();
  const std::string path = own.file.parent_path().string() + ":/bin";
  CHECK(own.enter(own.file).at("PATH") != path);
  REQUIRE(write_file(prefix / "pyvenv.cfg", ""));
  Variables variables = own.enter(own.file);
  CHECK(variables.at("PATH") == path);
  CHECK(variables.at("VIRTUAL_ENV") == prefix.string());
  CHECK_FALSE(variables.contains("PYTHONHOME"));
  REQUIRE(make_dirs(prefix / "conda-meta"));
  variables = own.enter(own.file);
  CHECK(variables.at("PATH") == path);
  CHECK(variables.at("CONDA_PREFIX") == prefix.string());
}

TEST_CASE("an interpreter that is not there is told") {
  Environment environment;
  environment.interpreter = "/no/such/python";
  Variables variables;
  const Status entered = enter_environment(environment, {}, "/tmp", variables);
  REQUIRE_FALSE(entered);
  CHECK(entered.error().message.contains("the interpreter /no/such/python"));
}
