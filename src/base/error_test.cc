#include "base/error.h"

#include <doctest/doctest.h>

#include <cerrno>

namespace trainyard {
namespace {

TEST_CASE("every kind has a name of its own and is found again by it") {
  for (const ErrorKind kind :
       {ErrorKind::invalid, ErrorKind::denied, ErrorKind::not_found, ErrorKind::conflict,
        ErrorKind::unavailable, ErrorKind::no_space, ErrorKind::cancelled, ErrorKind::internal}) {
    CHECK(error_kind_from(to_string(kind)) == kind);
  }
  CHECK(to_string(ErrorKind::not_found) == "not_found");
  CHECK(error_kind_from("a kind of a later version") == ErrorKind::internal);
}

TEST_CASE("an errno becomes the kind its caller can react to") {
  CHECK(errno_error(ENOENT, "x").kind == ErrorKind::not_found);
  CHECK(errno_error(EACCES, "x").kind == ErrorKind::denied);
  CHECK(errno_error(EROFS, "x").kind == ErrorKind::denied);
  CHECK(errno_error(ENOSPC, "x").kind == ErrorKind::no_space);
  CHECK(errno_error(EDQUOT, "x").kind == ErrorKind::no_space);
  CHECK(errno_error(EEXIST, "x").kind == ErrorKind::conflict);
  CHECK(errno_error(ENAMETOOLONG, "x").kind == ErrorKind::invalid);
  CHECK(errno_error(ECONNREFUSED, "x").kind == ErrorKind::unavailable);
  CHECK(errno_error(ENOENT, "open /x").message == "open /x: No such file or directory");
}

TEST_CASE("what we were doing stands in front, outermost first") {
  Error error{ErrorKind::denied, "open /x: Permission denied", "Ask somebody."};
  const Error outer = std::move(error).within("stage cifar").within("start run");
  CHECK(outer.message == "start run: stage cifar: open /x: Permission denied");
  CHECK(outer.kind == ErrorKind::denied);
  CHECK(outer.hint == "Ask somebody.");
}

TEST_CASE("an error in one line has its hint behind it, where it has one") {
  CHECK(told({ErrorKind::denied, "open /x: Permission denied", "Ask somebody."}) ==
        "open /x: Permission denied (Ask somebody.)");
  CHECK(told({ErrorKind::denied, "open /x: Permission denied", ""}) ==
        "open /x: Permission denied");
}

}  // namespace
}  // namespace trainyard
