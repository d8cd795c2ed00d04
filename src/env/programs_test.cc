#include "env/programs.h"

#include <doctest/doctest.h>

#include "env/test_settings.h"

namespace trainyard::env {
namespace {

using Lines = std::vector<std::string>;

Program shell(const std::string& text) {
  return {{"/bin/sh", "-c", text}, {{"PATH", "/usr/bin:/bin"}, {"WHO", "us"}}, "/"};
}

TEST_CASE("both outputs come line by line, with the exit code") {
  Recorder recorder;
  Lines lines;
  const auto ended =
      run_program(shell("echo one $WHO; echo two >&2; printf 'three\\rfour'; exit 3"), recorder,
                  [&](std::string_view line) { lines.emplace_back(line); });
  REQUIRE(ended);
  CHECK(ended->exit_code == 3);
  CHECK(lines == Lines{"one us", "two", "three", "four"});
  const auto killed = run_program(shell("kill -9 $$"), recorder, [](std::string_view) {});
  CHECK(killed->exit_code == 137);
}

TEST_CASE("a program that is not there is an error") {
  Recorder recorder;
  CHECK(run_program({{"/no/such"}, {}, "/"}, recorder, [](std::string_view) {}).error().kind ==
        ErrorKind::not_found);
}

TEST_CASE("a stop ends the program and its children") {
  Recorder recorder;
  std::string child;
  recorder.stop = [&] { return !child.empty(); };
  const auto ended = run_program(shell("sleep 1000 & echo $!; wait"), recorder,
                                 [&](std::string_view line) { child = line; });
  REQUIRE(!ended);
  CHECK(ended.error().kind == ErrorKind::cancelled);
  CHECK(ends(child));
}

TEST_CASE("output is asked for within a time") {
  CHECK(output_of(shell("echo hello; echo no >&2"), milliseconds(10'000)).value() == "hello\n");
  CHECK(output_of(shell("exit 1"), milliseconds(10'000)).error().message ==
        "sh ended with exit code 1");
  CHECK(output_of(shell("sleep 1000"), milliseconds(50)).error().message ==
        "sh: it did not end in time");
}

TEST_CASE("a command is shown without the passwords of its URLs") {
  CHECK(
      shown({"/usr/bin/uv", "-i", "https://me:secret@index.example/simple/@x", "--find-links",
             "https://index.example/a@b", "me@host"}) ==
      "uv -i https://****@index.example/simple/@x --find-links https://index.example/a@b me@host");
}

TEST_CASE("programs are found by the PATH that is given") {
  const TempDir temp;
  write_program(temp.path() / "b" / "tool", "");
  REQUIRE(write_file(temp.path() / "tool", "no program"));
  const std::string path = temp.path().string() + ":" + (temp.path() / "b").string();
  CHECK(find_program("tool", {{"PATH", path}}) == temp.path() / "b" / "tool");
  CHECK(find_program("tool", {{"PATH", "b:."}}).empty());
  CHECK(!find_program("sh", {}).empty());
}

}  // namespace
}  // namespace trainyard::env
