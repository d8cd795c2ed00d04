#include "cli/connect.h"

#include <doctest/doctest.h>

#include <cstdlib>

#include "wire/json.h"

using namespace trainyard;
using namespace trainyard::cli;

TEST_CASE("flags go before variables, and the home's own server is the last choice") {
  setenv("TRAINYARD_SERVER", "http://elsewhere:1", 1);
  setenv("TRAINYARD_TOKEN", "secret", 1);
  setenv("TRAINYARD_HOME", "/somewhere", 1);
  CHECK(find_place("http://flag:2", "")->url == "http://flag:2");
  CHECK(find_place("http://flag:2", "/h")->url == "http://flag:2");
  CHECK(find_place("", "")->url == "http://elsewhere:1");
  CHECK(find_place("", "")->token == "secret");
  CHECK(find_place("", "/h")->url.empty());
  CHECK(find_place("", "/h")->home.root() == "/h");
  CHECK(find_place("", "/h")->token.empty());
  unsetenv("TRAINYARD_SERVER");
  CHECK_FALSE(find_place("", "")->remote());
  CHECK(find_place("", "")->home.root() == "/somewhere");
  unsetenv("TRAINYARD_TOKEN");
  unsetenv("TRAINYARD_HOME");
}

TEST_CASE("a server's words against starting reach us as they are") {
  CHECK(decode_ready("ok\n"));
  const Error why{ErrorKind::conflict, "home x: in use", "Stop it."};
  const Status not_ready = decode_ready(wire::dump(wire::error_to_json(why)) + "\n");
  REQUIRE_FALSE(not_ready);
  CHECK(not_ready.error().kind == ErrorKind::conflict);
  CHECK(not_ready.error().message == "home x: in use");
  CHECK(not_ready.error().hint == "Stop it.");
}

TEST_CASE("nobody listening is unavailable") {
  const TempDir dir;
  const Place place{Home(dir.path()), "", ""};
  const auto client = connect(place);
  REQUIRE_FALSE(client);
  CHECK(client.error().kind == ErrorKind::unavailable);
}
