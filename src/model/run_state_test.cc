#include "model/run_state.h"

#include <doctest/doctest.h>

#include <map>

using namespace trainyard;

namespace {

constexpr int kAttempt = 2;

RunLife life_in(RunStatus status) {
  RunLife life;
  life.status = status;
  life.attempt = status <= RunStatus::queued ? 0 : kAttempt;
  life.cancel_asked = status == RunStatus::cancel_requested;
  return life;
}

AttemptEnd end_of(EndCause cause, int code = 0, bool ranks_started = true) {
  AttemptEnd end;
  end.cause = cause;
  end.exit_code = code;
  end.ranks_started = ranks_started;
  end.error = code == 0 ? "" : "rank 0 exited with code " + std::to_string(code);
  return end;
}

struct NamedEvent {
  const char* name;
  RunEvent event;
};

const NamedEvent kEvents[] = {
    {"enqueued", Enqueued{}},
    {"claimed", Claimed{}},
    {"place failed", PlaceFailed{kAttempt, "no"}},
    {"preparing", Reported{kAttempt, ReportKind::preparing}},
    {"starting", Reported{kAttempt, ReportKind::starting}},
    {"running", Reported{kAttempt, ReportKind::running}},
    {"finalizing", Reported{kAttempt, ReportKind::finalizing}},
    {"sample", Reported{kAttempt, ReportKind::sample}},
    {"exit 0", Ended{kAttempt, end_of(EndCause::exited)}},
    {"exit 3", Ended{kAttempt, end_of(EndCause::exited, 3)}},
    {"canceled", Ended{kAttempt, end_of(EndCause::canceled)}},
    {"time limit", Ended{kAttempt, end_of(EndCause::time_limit)}},
    {"no space", Ended{kAttempt, end_of(EndCause::no_space)}},
    {"lost early", Ended{kAttempt, end_of(EndCause::lost, 0, false)}},
    {"lost late", Ended{kAttempt, end_of(EndCause::lost)}},
    {"cancel", CancelAsked{"ada"}},
    {"unprepared", Unprepared{"environment: no such package"}},
};

// Rows: events as above; columns: statuses in their order. '-' is a conflict, else the first
// letters of what the run becomes: Q P(rovisioning) R(eparing is 'r') …
//   N not started, Q queued, V provisioning, P preparing, S starting, R running, F finalizing,
//   X cancel requested, C completed, E failed, K canceled
const std::map<std::string, std::string> kTable = {
    //                 NQVPSRFXCEK
    {"enqueued", "Q----------"},   {"claimed", "-V---------"},    {"place failed", "--QQQQQK---"},
    {"preparing", "--PPSRFX---"},  {"starting", "--SSSRFX---"},   {"running", "--RRRRFX---"},
    {"finalizing", "--FFFFFX---"}, {"sample", "--VPSRFX---"},     {"exit 0", "--CCCCCC---"},
    {"exit 3", "--EEEEEE---"},     {"canceled", "--KKKKKK---"},   {"time limit", "--KKKKKK---"},
    {"no space", "--EEEEEK---"},   {"lost early", "--QQQQQK---"}, {"lost late", "--EEEEEK---"},
    {"cancel", "KKXXXXXX---"},     {"unprepared", "-E---------"},
};

constexpr std::string_view kLetters = "NQVPSRFXCEK";

}  // namespace

TEST_CASE("every event in every status leads where the table says") {
  for (const auto& [name, event] : kEvents) {
    const std::string& row = kTable.at(name);
    REQUIRE(row.size() == kLetters.size());
    for (size_t column = 0; column < kLetters.size(); ++column) {
      CAPTURE(name);
      const RunLife before = life_in(static_cast<RunStatus>(column));
      CAPTURE(to_string(before.status));
      const Result<Step> step = advance(before, event);
      if (row[column] == '-') {
        REQUIRE(!step);
        CHECK(step.error().kind == ErrorKind::conflict);
        continue;
      }
      REQUIRE(step);
      CHECK(kLetters[static_cast<size_t>(step->life.status)] == row[column]);
      CHECK(is_final(step->life.status) == step->life.exit_code.has_value());
    }
  }
}

TEST_CASE("a report of an older attempt is refused") {
  const RunLife life = life_in(RunStatus::running);
  for (const RunEvent& event :
       {RunEvent(Reported{kAttempt - 1, ReportKind::sample}),
        RunEvent(Ended{kAttempt - 1, end_of(EndCause::exited)}), RunEvent(PlaceFailed{1, "no"})}) {
    const Result<Step> step = advance(life, event);
    REQUIRE(!step);
    CHECK(step.error().kind == ErrorKind::conflict);
  }
}

TEST_CASE("an attempt lost before user code ran is made again, but not for ever") {
  RunLife life = life_in(RunStatus::queued);
  int attempts = 0;
  while (!is_final(life.status)) {
    const Result<Step> claimed = advance(life, Claimed{});
    REQUIRE(claimed);
    ++attempts;
    const Result<Step> ended =
        advance(claimed->life, Ended{claimed->life.attempt, end_of(EndCause::lost, 0, false)});
    REQUIRE(ended);
    life = ended->life;
    REQUIRE(attempts <= kLostEarlyMax);
  }
  CHECK(attempts == kLostEarlyMax);
  CHECK(life.status == RunStatus::failed);
  CHECK(life.exit_code == 1);
}

TEST_CASE("a failed run has its script's exit code, a canceled one has 1") {
  CHECK(advance(life_in(RunStatus::running), Ended{kAttempt, end_of(EndCause::exited, 42)})
            ->life.exit_code == 42);
  CHECK(advance(life_in(RunStatus::cancel_requested), Ended{kAttempt, end_of(EndCause::canceled)})
            ->life.exit_code == 1);
}

TEST_CASE("a script that says the run is to fail makes it Failed with that reason") {
  RunLife told = life_in(RunStatus::running);
  told.error = "no data";
  for (const int code : {0, 1, 42}) {
    const RunLife over = advance(told, Ended{kAttempt, end_of(EndCause::exited, code)})->life;
    CHECK(over.status == RunStatus::failed);
    CHECK(over.error == "no data");
    CHECK(over.exit_code == (code == 0 ? 1 : code));
  }
  // The next attempt starts without it.
  told.retry = {.max = 1, .causes = {"failed"}};
  const RunLife again = advance(told, Ended{kAttempt, end_of(EndCause::exited, 1)})->life;
  CHECK(again.status == RunStatus::queued);
  CHECK(again.error.empty());
  CHECK(advance(told, Ended{kAttempt, end_of(EndCause::evicted)})->life.error.empty());
}

TEST_CASE("an attempt that ended gives its resources back") {
  const Result<Step> step =
      advance(life_in(RunStatus::running), Ended{kAttempt, end_of(EndCause::exited)});
  REQUIRE(step);
  CHECK(step->actions == std::vector{RunAction::release});
}

TEST_CASE("a status has the contract's name, both ways") {
  for (size_t i = 0; i < kLetters.size(); ++i) {
    const auto status = static_cast<RunStatus>(i);
    const Result<RunStatus> back = run_status_from(to_string(status));
    REQUIRE(back);
    CHECK(*back == status);
  }
  CHECK(!run_status_from("Done"));
  CHECK(run_status_in_any_case("cancelrequested") == RunStatus::cancel_requested);
  CHECK(!run_status_in_any_case("done"));
}

namespace {

Ended ended_with(EndCause cause, int exit_code, int attempt = 1) {
  AttemptEnd end;
  end.cause = cause;
  end.exit_code = exit_code;
  end.ranks_started = true;
  end.error = "why";
  return {attempt, end};
}

RunLife running_with(RetryPolicy retry) {
  RunLife life{.status = RunStatus::running, .attempt = 1};
  life.retry = std::move(retry);
  return life;
}

}  // namespace

TEST_CASE("an attempt is made again for the causes asked for, as often as asked for") {
  struct Row {
    EndCause cause;
    const char* name;
    bool by_default;
  };
  const Row rows[] = {{EndCause::exited, "failed", true},
                      {EndCause::lost, "lost", true},
                      {EndCause::no_space, "no_space", false},
                      {EndCause::time_limit, "time_limit", false}};
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const auto step = advance(running_with({.max = 1}), ended_with(row.cause, 3));
    REQUIRE(step);
    CHECK((step->life.status == RunStatus::queued) == row.by_default);
    for (const Row& asked : rows) {
      const auto chosen =
          advance(running_with({.max = 2, .causes = {asked.name}}), ended_with(row.cause, 3));
      REQUIRE(chosen);
      const bool again = row.cause == asked.cause;
      CAPTURE(asked.name);
      CHECK((chosen->life.status == RunStatus::queued) == again);
      CHECK(chosen->life.retries == (again ? 1 : 0));
      if (again) {
        CHECK(chosen->actions == std::vector{RunAction::release, RunAction::requeue});
      }
    }
  }
}

TEST_CASE("retries run out, and are not made for success, cancel or a broken command") {
  RunLife life = running_with({.max = 2});
  for (int attempt = 1; attempt <= 2; ++attempt) {
    life = advance(life, ended_with(EndCause::exited, 1, attempt))->life;
    REQUIRE(life.status == RunStatus::queued);
    CHECK(life.retries == attempt);
    life = advance(life, Claimed{})->life;
    life.status = RunStatus::running;
  }
  CHECK(advance(life, ended_with(EndCause::exited, 7, 3))->life.status == RunStatus::failed);
  CHECK(advance(life, ended_with(EndCause::exited, 7, 3))->life.exit_code == 7);
  const RunLife fresh = running_with({.max = 2});
  CHECK(advance(fresh, ended_with(EndCause::exited, 0))->life.status == RunStatus::completed);
  CHECK(advance(fresh, ended_with(EndCause::canceled, 1))->life.status == RunStatus::canceled);
  CHECK(advance(fresh, ended_with(EndCause::prepare_failed, 127))->life.status ==
        RunStatus::failed);
  RunLife asked = fresh;
  asked.cancel_asked = true;
  CHECK(advance(asked, ended_with(EndCause::exited, 1))->life.status == RunStatus::failed);
  CHECK(advance(asked, ended_with(EndCause::lost, 1))->life.status == RunStatus::canceled);
}

TEST_CASE("an interactive run begins and ends by its program's word, or by a cancel at once") {
  RunLife life;
  CHECK_FALSE(advance(life, BegunOutside{}));
  life.interactive = true;
  life = advance(life, BegunOutside{})->life;
  CHECK(life.status == RunStatus::running);
  CHECK_FALSE(advance(life, BegunOutside{}));
  CHECK(advance(life, EndedOutside{RunStatus::completed, ""})->life.exit_code == 0);
  const RunLife failed = advance(life, EndedOutside{RunStatus::failed, "no"})->life;
  CHECK(failed.error == "no");
  CHECK(failed.exit_code == 1);
  CHECK_FALSE(advance(failed, EndedOutside{RunStatus::completed, ""}));
  CHECK_FALSE(advance(life, EndedOutside{RunStatus::running, ""}));
  CHECK(advance(life, CancelAsked{"ada"})->life.status == RunStatus::canceled);
  CHECK_FALSE(advance(RunLife{.status = RunStatus::running, .attempt = 1},
                      EndedOutside{RunStatus::completed, ""}));
}

TEST_CASE("a run that is canceled for a reason has that reason, however its attempt ends") {
  const CancelAsked event{.by = "ada", .why = "user 'sam' was deleted"};
  const RunLife queued{.status = RunStatus::queued};
  CHECK(advance(queued, event)->life.error == event.why);
  const RunLife live = advance(RunLife{.status = RunStatus::running, .attempt = 1}, event)->life;
  CHECK(live.status == RunStatus::cancel_requested);
  CHECK(live.error == event.why);
  for (const EndCause cause : {EndCause::lost, EndCause::evicted, EndCause::canceled,
                               EndCause::refused, EndCause::prepare_failed}) {
    CAPTURE(static_cast<int>(cause));
    AttemptEnd end;
    end.cause = cause;
    end.error = "something else";
    const RunLife over = advance(live, Ended{1, end})->life;
    CHECK(over.status == RunStatus::canceled);
    CHECK(over.error == event.why);
  }
  // Canceled by a person before, and then for a reason.
  const RunLife asked =
      advance(RunLife{.status = RunStatus::running, .attempt = 1}, CancelAsked{"sam"})->life;
  CHECK(advance(asked, event)->life.error == event.why);
}
