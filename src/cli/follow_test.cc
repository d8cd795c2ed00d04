#include "cli/follow.h"

#include <doctest/doctest.h>

#include "cli/run_view.h"

using namespace trainyard;
using namespace trainyard::cli;

TEST_CASE("the exit code is the run's own, and 1 where it has none") {
  CHECK(exit_code_of({.status = "Failed", .exit_code = 137}) == 137);
  CHECK(exit_code_of({.status = "Completed", .exit_code = 0}) == 0);
  CHECK(exit_code_of({.status = "Canceled"}) == 1);
  CHECK(exit_code_of({.status = "Completed"}) == 0);
}

TEST_CASE("times are told as people tell them") {
  const WallTime now = parse_time("2026-11-15T12:00:00Z").value();
  CHECK(ago(Json("2026-11-15T12:00:00.4Z"), now) == "just now");
  CHECK(ago(Json("2026-11-15T11:59:18Z"), now) == "42 s ago");
  CHECK(ago(Json("2026-11-15T11:51:00Z"), now) == "9 min ago");
  CHECK(ago(Json("2026-11-15T03:00:00Z"), now) == "9 h ago");
  CHECK(ago(Json("2026-11-10T12:00:00Z"), now) == "5 days ago");
  CHECK(ago(Json(), now).empty());
}

TEST_CASE("a run's details hold its command as a shell would take it, and its code") {
  const WallTime now = parse_time("2026-11-15T12:00:00Z").value();
  Json run = {{"id", "brisk-otter-1"},
              {"name", "brisk-otter-1"},
              {"status", "Failed"},
              {"exitCode", 3},
              {"command", {"python", "a b.py", "it's"}},
              {"createdAt", "2026-11-15T11:59:00Z"},
              {"startedAt", "2026-11-15T11:59:00Z"},
              {"endedAt", "2026-11-15T11:59:30Z"},
              {"snapshotId", "abcdef0123456789"}};
  run["snapshot"]["files"] = Json::array();
  for (int i = 0; i < 30; ++i) {
    run["snapshot"]["files"].push_back({{"path", "f" + std::to_string(i)}, {"size", 1}});
  }
  const std::string some = run_details(run, now, Files::some);
  CHECK(some.find("Failed, exit 3") != std::string::npos);
  CHECK(some.find("python 'a b.py' 'it'\\''s'") != std::string::npos);
  CHECK(some.find("f19") != std::string::npos);
  CHECK(some.find("f20") == std::string::npos);
  CHECK(some.find("10 more") != std::string::npos);
  CHECK(run_details(run, now, Files::all).find("f29") != std::string::npos);
  CHECK(run_row(run, now)[5] == "1 min ago");
}

TEST_CASE("a run's details say what it asked for beyond the ordinary") {
  const WallTime now = parse_time("2026-11-15T12:00:00Z").value();
  Json run = {{"id", "brisk-otter-1"},
              {"priority", "normal"},
              {"retries", 0},
              {"maxRetries", 0},
              {"secrets", Json::array()}};
  const std::string ordinary = run_details(run, now, Files::some);
  for (const char* word : {"priority", "retries", "secrets"}) {
    CHECK(ordinary.find(word) == std::string::npos);
  }
  run["priority"] = "high";
  run["retries"] = 1;
  run["maxRetries"] = 3;
  run["secrets"] = {"KEY", "OTHER"};
  const std::string more = run_details(run, now, Files::some);
  CHECK(more.find("priority  high\n") != std::string::npos);
  CHECK(more.find("retries   1 of 3\n") != std::string::npos);
  CHECK(more.find("secrets   KEY, OTHER\n") != std::string::npos);
}
