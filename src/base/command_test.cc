#include "base/command.h"

#include <doctest/doctest.h>

#include <chrono>

namespace trainyard {
namespace {

TEST_CASE("a program's output is what it wrote, when it ended well") {
  CHECK(output_of({"printf", "a\\nb"}, seconds(10)).value() == "a\nb");
  CHECK(output_of({"/bin/sh", "-c", "echo said; exit 3"}, seconds(10)).error().message ==
        "/bin/sh ended with exit code 3");
  CHECK(output_of({"sh", "-c", "kill -9 $$"}, seconds(10)).error().message ==
        "sh was killed by signal 9");
}

TEST_CASE("a program that is not there is said to be missing") {
  CHECK(find_program("no-such-program-here").empty());
  const Error error = output_of({"no-such-program-here"}, seconds(1)).error();
  CHECK(error.kind == ErrorKind::not_found);
  CHECK(error.message == "there is no program no-such-program-here");
}

TEST_CASE("a program that does not end is ended at its time, talking or silent") {
  const auto began = std::chrono::steady_clock::now();
  CHECK(output_of({"sleep", "60"}, milliseconds(50)).error().message ==
        "sleep: it did not end in time");
  CHECK(output_of({"sh", "-c", "exec >&-; exec sleep 60"}, milliseconds(50)).error().message ==
        "sh: it did not end in time");
  CHECK(std::chrono::steady_clock::now() - began < seconds(30));
}

TEST_CASE("no more is kept of an output than the limit") {
  // Its pipe is closed then, and it dies of that or of its time.
  const auto text = output_of({"head", "-c", "3000000", "/dev/zero"}, milliseconds(500));
  CHECK((!text || text->size() <= 1024 * 1024 + 4096));
}

TEST_CASE("this test is linked dynamically") { CHECK(!statically_linked()); }

}  // namespace
}  // namespace trainyard
