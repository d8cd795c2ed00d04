#include "env/settle_python.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include "base/command.h"
#include "env/python.h"
#include "env/test_settings.h"

using namespace trainyard;
using namespace trainyard::env;

namespace {

// A virtual environment as it comes from a machine that has its Python elsewhere.
struct Fetched {
  TempDir dir;
  fs::path root = dir.path() / "root";
  Settings settings = test_settings(dir.path());
  Python python = find_python("", settings).value();

  Fetched() {
    REQUIRE(trainyard::output_of({python.file, "-m", "venv", "--without-pip", "--symlinks", root},
                                 milliseconds(60'000)));
    REQUIRE(write_file(root / "pyvenv.cfg", "home = /nowhere/bin\nversion = 3\n"));
    fs::remove(root / "bin" / "python");
    fs::create_symlink("/nowhere/bin/python3", root / "bin" / "python");
  }
};

}  // namespace

TEST_CASE("a virtual environment whose Python this machine has elsewhere stands on that one") {
  const Fetched venv;
  const auto changed = settle_python(venv.root, venv.python.platform(), venv.settings);
  REQUIRE(changed);
  CHECK(*changed);
  const auto said = trainyard::output_of(
      {venv.root / "bin" / "python", "-c", "import sys, json; print(sys.prefix, sys.base_prefix)"},
      milliseconds(60'000));
  REQUIRE(said);
  CHECK(said->starts_with(venv.root.string() + " "));
  CHECK(!settle_python(venv.root, venv.python.platform(), venv.settings).value_or(true));
}

TEST_CASE("where this machine has no Python of the version, it says which it has") {
  const Fetched venv;
  const auto changed = settle_python(venv.root, "linux-x86_64-cpython-3.99", venv.settings);
  REQUIRE(!changed);
  CHECK(changed.error().kind == ErrorKind::not_found);
  CHECK(changed.error().message.starts_with(
      "its Python, /nowhere/bin/python3, is not on this node: Python 3.99 is not here; here is "));
  CHECK(fs::read_symlink(venv.root / "bin" / "python") == "/nowhere/bin/python3");
}
