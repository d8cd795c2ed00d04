#include "env/python.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "env/test_settings.h"

namespace trainyard::env {
namespace {

// An interpreter that says it is of that version.
void write_python(const fs::path& file, const std::string& version) {
  write_program(file, "printf '" + version + "\\ncpython\\nx86_64\\n" + file.string() + "\\n'\n");
}

struct PythonMachine {
  TempDir temp;
  Settings settings;

  PythonMachine() {
    settings.variables = {
        {"PATH", (temp.path() / "bin").string() + ":" + (temp.path() / "other").string()},
        {"HOME", temp.path() / "home"}};
    settings.cache = temp.path() / "cache";
    write_python(temp.path() / "bin" / "python3", "3.11.2");
    write_python(temp.path() / "other" / "python3.9", "3.9.18");
    write_python(temp.path() / "home/.pyenv/versions/3.8.18/bin/python3", "3.8.18");
    write_python(temp.path() / "home/.pyenv/versions/3.8.2/bin/python3", "3.8.2");
    write_python(temp.path() / "home/.local/share/uv/python/cpython-3.12.1-linux/bin/python3",
                 "3.12.1");
  }

  std::string found(const std::string& asked) const {
    auto python = find_python(asked, settings);
    return python ? python->version : python.error().message;
  }
};

TEST_CASE("the Pythons of a machine are listed by their platforms") {
  TempDir dir;
  const Settings settings = test_settings(dir.path());
  const auto own = find_python("", settings);
  REQUIRE(own);
  const std::vector<std::string> all = python_platforms(settings);
  CHECK(std::ranges::count(all, own->platform()) == 1);
  CHECK(std::ranges::is_sorted(all));
}

TEST_CASE("versions are what was asked for") {
  CHECK(is_version("3.11.2", ""));
  CHECK(is_version("3.11.2", "3"));
  CHECK(is_version("3.11.2", "3.11"));
  CHECK(is_version("3.11.2", "3.11.2"));
  CHECK(is_version("3.11.2", "3.11.*"));
  CHECK(!is_version("3.11.2", "3.1"));
  CHECK(!is_version("3.1.2", "3.11"));
  CHECK(is_version("3.9.1", ">=3.8,<3.10"));
  CHECK(!is_version("3.10.0", ">=3.8,<3.10"));
  CHECK(is_version("3.8.0", "==3.8"));
  CHECK(!is_version("3.8.1", "!=3.8"));
  CHECK(is_version("3.9.5", "~=3.8"));
  CHECK(!is_version("3.9.5", "~=3.8.1"));
  CHECK(is_version("3.8.9", "<=3.8"));
  CHECK(!is_version("3.8.9", ">3.8"));
  CHECK(is_version("23.0.1", ">=22.3"));
  CHECK(!is_version("3.8", "what"));
}

TEST_CASE("an interpreter is found in PATH, then where pyenv and uv have theirs") {
  const PythonMachine machine;
  CHECK(machine.found("") == "3.11.2");
  CHECK(machine.found("3.11") == "3.11.2");
  CHECK(machine.found("3.9") == "3.9.18");
  CHECK(machine.found("3.8") == "3.8.18");
  CHECK(machine.found("3.8.2") == "3.8.2");
  CHECK(machine.found("3.12") == "3.12.1");
  CHECK(machine.found(">=3.8,<3.12") == "3.11.2");
  CHECK(machine.found("<3.9") == "3.8.18");
  CHECK(machine.found("<3.11") == "3.9.18");
  CHECK(machine.found(machine.temp.path() / "other" / "python3.9") == "3.9.18");
}

TEST_CASE("one that is not here is told with those that are, and how to get it") {
  const PythonMachine machine;
  const auto none = find_python("3.7", machine.settings);
  REQUIRE(!none);
  CHECK(none.error().kind == ErrorKind::not_found);
  CHECK(none.error().message ==
        "Python 3.7 is not here; here is 3.8.2, 3.8.18, 3.9.18, 3.11.2, 3.12.1");
  CHECK(none.error().hint.find("pyenv install 3.7") != std::string::npos);
  CHECK(find_python("/no/python", machine.settings).error().kind == ErrorKind::not_found);
  CHECK(find_python("bin/python", machine.settings).error().kind == ErrorKind::invalid);
  CHECK(find_python("latest", machine.settings).error().kind == ErrorKind::invalid);
}

TEST_CASE("a shim with nothing behind it, and what is no Python, are passed over") {
  const PythonMachine machine;
  write_program(machine.temp.path() / "bin" / "python3.9", "echo 'not found' >&2; exit 127\n");
  CHECK(machine.found("3.9") == "3.9.18");
  write_program(machine.temp.path() / "bin" / "python3.9", "echo hello\n");
  CHECK(machine.found("3.9") == "3.9.18");
  const auto wrong = find_python(machine.temp.path() / "bin" / "python3.9", machine.settings);
  REQUIRE(!wrong);
  CHECK(wrong.error().message.ends_with("python3.9 is no Python: it says 'hello'"));
}

TEST_CASE("the platform says what a hash has to know") {
  const PythonMachine machine;
  Recipe recipe;
  CHECK(platform_of(recipe, machine.settings).value().empty());
  recipe.kind = EnvironmentKind::venv;
  CHECK(platform_of(recipe, machine.settings).value() == "linux-x86_64-cpython-3.11");
  recipe.python = "3.8";
  CHECK(platform_of(recipe, machine.settings).value() == "linux-x86_64-cpython-3.8");
  recipe.python = "2.7";
  CHECK(platform_of(recipe, machine.settings).error().kind == ErrorKind::not_found);
  recipe.kind = EnvironmentKind::conda;
  recipe.python = "3.8.10";
  CHECK(platform_of(recipe, machine.settings).value() == "linux-x86_64-cpython-3.8");
  recipe.conda = {"cudatoolkit"};
  CHECK(platform_of(recipe, machine.settings).error().kind == ErrorKind::invalid);
  write_program(machine.temp.path() / "bin" / "micromamba", "exit 1\n");
  CHECK(platform_of(recipe, machine.settings).value().ends_with("-conda"));
  recipe.kind = EnvironmentKind::container;
  CHECK(platform_of(recipe, machine.settings).value().starts_with("linux-"));
}

TEST_CASE("a real interpreter is asked once, until its file changes") {
  const TempDir temp;
  Settings settings = test_settings(temp.path());
  settings.variables["PATH"] = "/usr/bin:/bin";
  const auto first = find_python("", settings);
  REQUIRE(first);
  REQUIRE(fs::exists(settings.cache / "pythons"));
  const fs::path kept = fs::directory_iterator(settings.cache / "pythons")->path();
  // What is kept is what is answered.
  REQUIRE(write_file(kept, "3.99.0\ncpython\nx86_64\n/usr/bin/python3\n"));
  CHECK(find_python("", settings)->version == "3.99.0");
  REQUIRE(write_file(kept, "broken"));
  CHECK(find_python("", settings)->version == first->version);
}

TEST_CASE("of an interpreter in a virtual environment the one that it stands on is used") {
  const TempDir temp;
  const Settings settings = test_settings(temp.path());
  const fs::path venv = temp.path() / "venv";
  REQUIRE(output_of(
      {{"/usr/bin/python3", "-m", "venv", "--without-pip", venv}, settings.variables, temp.path()},
      milliseconds(60'000)));
  const auto python = find_python(venv / "bin" / "python", settings);
  REQUIRE(python);
  CHECK(!python->file.string().starts_with(temp.path().string()));
}

}  // namespace
}  // namespace trainyard::env
