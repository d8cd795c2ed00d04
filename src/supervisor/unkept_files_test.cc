#include "supervisor/unkept_files.h"

#include <doctest/doctest.h>

namespace trainyard::supervisor {
namespace {

TEST_CASE("what a run wrote beside outputs/ is named, a new folder by its name alone") {
  TempDir dir;
  const auto write = [&](const char* path) {
    REQUIRE(make_dirs((dir.path() / path).parent_path()));
    REQUIRE(write_file(dir.path() / path, ""));
  };
  write("train.py");
  write("data/a.csv");
  const WorkingFiles before = *working_files(dir.path());
  CHECK(unkept_warning(before, before).empty());
  for (const char* path :
       {"outputs/m", "logs/x", "__pycache__/t.pyc", "data/__pycache__/u.pyc", ".cache/x"}) {
    write(path);
  }
  CHECK(unkept_warning(before, *working_files(dir.path())).empty());
  write("data/raw/c.csv");
  REQUIRE(write_file(dir.path() / "train.py", "changed"));
  for (const char* path : {"model.pkl", "data/b.csv", "plots/a.png", "plots/b.png"}) write(path);
  CHECK(unkept_warning(before, *working_files(dir.path())) ==
        "written outside outputs/ and not kept: data/b.csv, data/raw/, model.pkl, plots/, "
        "train.py; write to outputs/ what is to be kept");
}

TEST_CASE("at most ten names are listed, and the others counted") {
  WorkingFiles after;
  for (int i = 0; i < 25; ++i) after["f" + std::to_string(100 + i)] = {};
  const std::string warning = unkept_warning({}, after);
  CHECK(warning.contains("f109 and 15 more;"));
  CHECK(!warning.contains("f110"));
}

}  // namespace
}  // namespace trainyard::supervisor
