#include "api/execs.h"

#include <doctest/doctest.h>

namespace trainyard::api {
namespace {

const SteadyTime kNow{seconds(1000)};
const std::string kPlace = Execs::place_of(AttemptId{RunId{"calm-finch-1"}, 1}, 0);

std::string added(Execs& execs) {
  return execs.add({.place = kPlace, .command = {"hostname"}, .by = "ann"}, kNow).value();
}

TEST_CASE("a command is taken once, by who it is for") {
  Execs execs;
  const std::string id = added(execs);
  CHECK(execs.pending(kPlace) == std::vector{id});
  CHECK(execs.pending(Execs::place_of("box")).empty());
  CHECK_FALSE(execs.take(id, Execs::place_of("box")).has_value());
  const auto taken = execs.take(id, kPlace);
  REQUIRE(taken);
  CHECK(taken->command == std::vector<std::string>{"hostname"});
  CHECK(execs.pending(kPlace).empty());
  CHECK(execs.take(id, kPlace).error().kind == ErrorKind::conflict);
}

TEST_CASE("what it prints is read by offset, each byte once however often it was sent") {
  Execs execs;
  const std::string id = added(execs);
  CHECK(execs.append(id, kPlace, 0, "one\n", kNow) == 4);
  CHECK(execs.append(id, kPlace, 0, "one\n", kNow) == 4);
  CHECK(execs.append(id, kPlace, 2, "e\ntwo\n", kNow) == 8);
  CHECK(execs.read(id, 0)->bytes == "one\ntwo\n");
  CHECK(execs.read(id, 4)->bytes == "two\n");
  CHECK_FALSE(execs.read(id, 0)->over);
  REQUIRE(execs.end(id, kPlace, 7, kNow));
  CHECK(execs.read(id, 8)->over);
  CHECK(execs.read(id, 8)->code == 7);
}

TEST_CASE("output beyond its limit is cut, and the sender goes on") {
  Execs execs;
  const std::string id = added(execs);
  const std::string much(5 << 20, 'x');
  CHECK(execs.append(id, kPlace, 0, much, kNow) == much.size());
  CHECK(execs.read(id, 0)->bytes.size() == 4 << 20);
}

TEST_CASE("one that may still run is not forgotten") {
  Execs execs;
  const std::string id =
      execs.add({.place = kPlace, .command = {"x"}, .timeout_s = 3600, .by = ""}, kNow).value();
  REQUIRE(execs.add({.place = kPlace, .command = {}, .by = ""}, kNow + seconds(4000)));
  CHECK(execs.read(id, 0).has_value());
}

TEST_CASE("one that nobody wants any more is taken by nobody, and who runs it can see that") {
  Execs execs;
  const std::string id = added(execs);
  CHECK_FALSE(execs.stopped(id));
  REQUIRE(execs.stop(id));
  CHECK(execs.stopped(id));
  CHECK(execs.pending(kPlace).empty());
  CHECK(execs.stop("no-such-id").error().kind == ErrorKind::not_found);
}

TEST_CASE("why it did not run is kept with its end") {
  Execs execs;
  const std::string id = added(execs);
  REQUIRE(execs.end(id, kPlace, 0, kNow, Error{ErrorKind::unavailable, "n1 is down", {}}));
  REQUIRE(execs.read(id, 0)->error);
  CHECK(execs.read(id, 0)->error->message == "n1 is down");
}

TEST_CASE("commands that nobody asks about any more are forgotten") {
  Execs execs;
  const std::string id = added(execs);
  REQUIRE(execs.add({.place = kPlace, .command = {}, .by = ""}, kNow + seconds(661)));
  CHECK(execs.read(id, 0).error().kind == ErrorKind::not_found);
}

TEST_CASE("orders are news only where they have an id that is not known") {
  CHECK(Execs::all_known({}, ""));
  CHECK(Execs::all_known({"a", "b"}, "b,a"));
  CHECK_FALSE(Execs::all_known({"a", "c"}, "b,a"));
}

}  // namespace
}  // namespace trainyard::api
