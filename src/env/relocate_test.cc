#include "env/relocate.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

namespace trainyard::env {
namespace {

constexpr std::string_view kBeside =
    "#!/bin/sh\n"
    "'''exec' \"$(dirname -- \"$(realpath -- \"$0\")\")\"/'python' \"$0\" \"$@\"\n"
    "' '''\n";

TEST_CASE("programs of the environment find the interpreter beside them, others stay") {
  const TempDir temp;
  const fs::path root = temp.path() / "root";
  const std::string python = (root / "bin" / "python3.11").string();
  REQUIRE(make_dirs(root / "bin"));
  const auto write = [&](const std::string& name, const std::string& text) {
    REQUIRE(write_file(root / "bin" / name, text, 0755));
  };
  write("plain", "#!" + python + "\nimport a\n");
  write("flags", "#!" + python + " -E\nimport a\n");
  write("long", "#!/bin/sh\n'''exec' \"" + python + "\" \"$0\" \"$@\"\n' '''\nimport a\n");
  write("shell", "#!/bin/sh\necho " + python + "\n");
  write("other", "#!/usr/bin/python3\nimport a\n");
  write("binary", std::string("\x7f"
                              "ELF\0\n",
                              6));
  write("empty", "");
  write("activate.fish", "set VIRTUAL_ENV x\n");
  write("activate", "# a\nVIRTUAL_ENV='" + root.string() + "'\nexport VIRTUAL_ENV\n");
  fs::create_symlink("/usr/bin/python3", root / "bin" / "python");
  REQUIRE(write_file(root / "pyvenv.cfg", "home = /usr/bin\ncommand = /usr/bin/python3 -m venv " +
                                              root.string() + "\n"));
  REQUIRE(make_relocatable(root));

  const auto read = [&](const std::string& name) { return read_file(root / "bin" / name).value(); };
  for (const char* name : {"plain", "flags", "long"}) {
    CAPTURE(name);
    CHECK(read(name) == std::string(kBeside) + "import a\n");
    struct stat about{};
    REQUIRE(::stat((root / "bin" / name).c_str(), &about) == 0);
    CHECK((about.st_mode & 0777) == 0755);
  }
  CHECK(read("shell") == "#!/bin/sh\necho " + python + "\n");
  CHECK(read("other") == "#!/usr/bin/python3\nimport a\n");
  CHECK(read("binary").size() == 6);
  CHECK(!fs::exists(root / "bin" / "activate.fish"));
  CHECK(read("activate").find(root.string()) == std::string::npos);
  CHECK(read("activate").ends_with("export VIRTUAL_ENV\n"));
  CHECK(fs::is_symlink(root / "bin" / "python"));
  CHECK(read_file(root / "pyvenv.cfg").value() == "home = /usr/bin\n");
}

}  // namespace
}  // namespace trainyard::env
