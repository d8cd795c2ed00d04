#include "node/program.h"

#include <doctest/doctest.h>

namespace trainyard::node {
namespace {

TEST_CASE("a build without the program for nodes says so, and what to do") {
  const auto program = node::program();
  const auto file = open_program();
  if (program) {  // The release build; tests/e2e/lab.py starts it.
    CHECK(
        program->bytes.starts_with("\x7f"
                                   "ELF"));
    CHECK(file.value().size == program->bytes.size());
    return;
  }
  CHECK(program.error().kind == ErrorKind::not_found);
  CHECK(program.error().message == "this build of Trainyard carries no program for nodes");
  CHECK(program.error().hint.find("make build") != std::string::npos);
  CHECK(file.error().kind == ErrorKind::not_found);
}

TEST_CASE("the program is installed once, and other builds' are removed when no run needs them") {
  TempDir dir;
  const fs::path other = dir.path() / "0123456789abcdef";
  REQUIRE(make_dirs(other));
  const auto first = install_program(dir.path(), Others::kept);
  if (!program()) {
    CHECK(first.error().kind == ErrorKind::not_found);
    return;
  }
  REQUIRE(first);
  CHECK(fs::exists(other));
  CHECK(fs::file_size(*first) == program()->bytes.size());
  REQUIRE(write_file(*first, "half"));
  CHECK(install_program(dir.path(), Others::removed).value() == *first);
  CHECK(fs::file_size(*first) == program()->bytes.size());
  CHECK(!fs::exists(other));
}

}  // namespace
}  // namespace trainyard::node
