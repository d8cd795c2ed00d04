#include "cli/console.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "base/fd.h"

using namespace trainyard;
using namespace trainyard::cli;

TEST_CASE("each line of a rank follows its number, whatever pieces it comes in") {
  const std::string text = "one\n\nthree\nlast";
  for (size_t piece = 1; piece <= text.size(); ++piece) {
    LinePrefixer lines("[3] ");
    std::string out;
    for (size_t at = 0; at < text.size(); at += piece) lines.add(text.substr(at, piece), out);
    CHECK(out == "[3] one\n[3] \n[3] three\n");
    lines.finish(out);
    CHECK(out == "[3] one\n[3] \n[3] three\n[3] last\n");
    lines.finish(out);
    CHECK(out.ends_with("last\n"));
  }
}

TEST_CASE("a line without an end does not grow our memory for ever") {
  LinePrefixer lines("[0] ");
  std::string out;
  const std::string piece(256 * 1024, 'x');
  for (int i = 0; i < 8; ++i) lines.add(piece, out);
  CHECK(out.size() > 1024 * 1024);
  CHECK(out.starts_with("[0] xxx"));
}

TEST_CASE("an output nobody reads is told apart from one that fails") {
  signal(SIGPIPE, SIG_IGN);
  int ends[2];
  REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
  const Fd write_end(ends[1]);
  CHECK(write_output(write_end.get(), "x"));
  ::close(ends[0]);
  const Status closed = write_output(write_end.get(), "x");
  REQUIRE_FALSE(closed);
  CHECK(closed.error().kind == ErrorKind::cancelled);
  const Fd full(open("/dev/full", O_WRONLY | O_CLOEXEC));
  const Status no_space = write_output(full.get(), "x");
  REQUIRE_FALSE(no_space);
  CHECK(no_space.error().kind == ErrorKind::no_space);
}
