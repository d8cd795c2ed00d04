#include "cli/exit.h"

#include <doctest/doctest.h>

using namespace trainyard;
using namespace trainyard::cli;

TEST_CASE("every kind of error has the contract's exit code") {
  CHECK(exit_code(ErrorKind::invalid) == 2);
  CHECK(exit_code(ErrorKind::denied) == 3);
  CHECK(exit_code(ErrorKind::not_found) == 4);
  CHECK(exit_code(ErrorKind::conflict) == 5);
  CHECK(exit_code(ErrorKind::unavailable) == 6);
  CHECK(exit_code(ErrorKind::no_space) == 6);
  CHECK(exit_code(ErrorKind::cancelled) == 130);
  CHECK(exit_code(ErrorKind::internal) == 70);
}

TEST_CASE("an error is one line, and what to do about it stands under it") {
  CHECK(format_error({ErrorKind::invalid, "run x: unknown", ""}) == "error: run x: unknown\n");
  CHECK(format_error({ErrorKind::invalid, "a\nb\x1b[2J", "Do this.\nOr that."}) ==
        "error: a b [2J\n       Do this.\n       Or that.\n");
}
