#include "supervisor/outcome.h"

#include <doctest/doctest.h>

using namespace trainyard;
using namespace trainyard::supervisor;

TEST_CASE("the first rank to fail gives the exit code, whatever its number") {
  Facts facts{.ranks = 3, .ranks_started = true, .all_dead = true};
  facts.exits = {{1, 0, 0}, {2, 3, 0}, {0, 143, 15}};
  const AttemptEnd end = conclude(facts);
  CHECK(end.cause == EndCause::exited);
  CHECK(end.exit_code == 3);
  CHECK(end.rank == 2);
  CHECK(end.error == "rank 2 exited with code 3");
  REQUIRE(end.ranks.size() == 3);
  CHECK(end.ranks[0].rank == 0);
}

TEST_CASE("a signal is named") {
  CHECK(describe({0, 137, 9}) == "rank 0 was killed by signal 9 (SIGKILL)");
  CHECK(describe({4, 139, 11}) == "rank 4 was killed by signal 11 (SIGSEGV)");
  CHECK(describe({0, 168, 40}) == "rank 0 was killed by signal 40");
}

TEST_CASE("success says nothing") {
  Facts facts{.ranks_started = true, .all_dead = true};
  facts.exits = {{0, 0, 0}};
  facts.outputs = "ab";
  facts.cpu_seconds = 1.5;
  facts.memory_peak_bytes = 7;
  const AttemptEnd end = conclude(facts);
  CHECK(end.exit_code == 0);
  CHECK(end.rank == -1);
  CHECK(end.error.empty());
  CHECK(end.outputs == "ab");
  CHECK(end.cpu_seconds == 1.5);
  CHECK(end.memory_peak_bytes == 7);
  CHECK(end.ranks_started);
}

TEST_CASE("a stopped attempt has our cause, also when its ranks ended well") {
  for (const EndCause cause : {EndCause::canceled, EndCause::time_limit, EndCause::no_space}) {
    Facts facts{.ranks_started = true, .all_dead = true};
    facts.exits = {{0, 0, 0}};
    facts.stop = Stop{cause, "why"};
    const AttemptEnd end = conclude(facts);
    CHECK(end.cause == cause);
    CHECK(end.exit_code == 1);
    CHECK(end.error == "why");
  }
}

TEST_CASE("what could not be prepared keeps its code, what is lost says so first") {
  Facts facts;
  facts.prepare_failure =
      PrepareFailure{EndCause::prepare_failed, 127, "program 'x' was not found"};
  CHECK(conclude(facts).cause == EndCause::prepare_failed);
  CHECK(conclude(facts).exit_code == 127);
  CHECK_FALSE(conclude(facts).ranks_started);
  facts.lost = "its supervisor (pid 7) was killed";
  CHECK(conclude(facts).cause == EndCause::lost);
  CHECK(conclude(facts).error == "its supervisor (pid 7) was killed");
}

TEST_CASE("outputs that were not kept leave the exit code and are told") {
  Facts facts{.ranks_started = true, .all_dead = true};
  facts.exits = {{0, 0, 0}};
  facts.outputs_error = "outputs were not kept: x";
  CHECK(conclude(facts).exit_code == 0);
  CHECK(conclude(facts).error == "outputs were not kept: x");
  facts.exits = {{0, 2, 0}};
  CHECK(conclude(facts).error == "rank 0 exited with code 2; outputs were not kept: x");
}

TEST_CASE("of several ranks the failed one is named with its node and its last lines") {
  Facts facts{.ranks = 2, .ranks_started = true, .all_dead = true};
  facts.exits = {{4, 0, 0}, {5, 3, 0}};
  facts.node = "n3";
  facts.outputs_error = "outputs were not kept: x";
  facts.logs_error = "logs are not whole: y";
  facts.last_lines = "a\nb";
  CHECK(conclude(facts).error ==
        "rank 5 exited with code 3 on node n3; outputs were not kept: x; logs are not whole: y; "
        "its last lines:\na\nb");
  facts.stop = Stop{EndCause::peer_failed, "rank 0 on node n1 exited with code 1"};
  CHECK(conclude(facts).cause == EndCause::peer_failed);
  CHECK(conclude(facts).rank == -1);
  CHECK(conclude(facts).error.starts_with("rank 0 on node n1 exited with code 1; outputs"));
  CHECK(conclude(facts).error.find("last lines") == std::string::npos);
}

TEST_CASE("ranks that we stopped did not fail by themselves") {
  Facts facts{.ranks = 2, .ranks_started = true};
  facts.exits = {{0, 0, 0}};
  CHECK(first_failure(facts) == nullptr);
  facts.exits.push_back({1, 143, 15});
  REQUIRE(first_failure(facts) != nullptr);
  CHECK(first_failure(facts)->rank == 1);
  facts.stop = Stop{EndCause::canceled, "canceled"};
  CHECK(first_failure(facts) == nullptr);
}
