#include "cli/run_names.h"

#include <doctest/doctest.h>

using namespace trainyard;
using namespace trainyard::cli;

namespace {

Json entry(const char* id, const char* name) {
  return {{"id", id}, {"name", name}, {"status", "Completed"}};
}

}  // namespace

TEST_CASE("an id wins, then the only run whose id begins so or that is called so") {
  const Json runs = {entry("calm-2", "best"), entry("calm-1", "calm-2"), entry("odd-1", "odd-1")};
  CHECK(choose_run("calm-2", runs)->value == "calm-2");
  CHECK(choose_run("best", runs)->value == "calm-2");
  CHECK(choose_run("odd", runs)->value == "odd-1");
  // A server that does not know the filter answers with other runs.
  CHECK(choose_run("brisk", runs).error().kind == ErrorKind::not_found);
}

TEST_CASE("a word that several runs fit is refused with the candidates") {
  const Json runs = {entry("calm-2", "calm"), entry("calm-1", "calm-1")};
  const auto chosen = choose_run("calm", runs);
  REQUIRE(!chosen);
  CHECK(chosen.error().kind == ErrorKind::conflict);
  CHECK(chosen.error().message ==
        "several runs have the id or name 'calm': calm-2 (calm, Completed), calm-1 (Completed)");
}
