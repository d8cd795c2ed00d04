#include "api/run_watch.h"

#include <doctest/doctest.h>

namespace trainyard::api {
namespace {

const RunId kRun{"calm-finch-2"};

struct Source {
  Run run;
  int looks = 0;
  std::function<void()> during;

  RunWatch::Look look() {
    return [this](const RunId&) -> Result<Run> {
      ++looks;
      Run seen = run;
      if (during) during();
      return seen;
    };
  }
};

TEST_CASE("a run is looked up once until it changes") {
  Source source;
  source.run.life.status = RunStatus::running;
  source.run.version = 3;
  RunWatch watch(source.look());
  CHECK_FALSE(watch.knows(kRun));
  CHECK(watch.glance(kRun).value()->version == 3);
  CHECK(watch.glance(kRun).value()->version == 3);
  CHECK(source.looks == 1);
  CHECK(watch.knows(kRun));
  source.run.version = 4;
  watch.changed(kRun);
  CHECK(watch.glance(kRun).value()->version == 4);
  CHECK(source.looks == 2);
}

TEST_CASE("what changed while it was looked up is not kept") {
  Source source;
  source.run.life.status = RunStatus::running;
  RunWatch watch(source.look());
  source.during = [&] {
    source.run.version = 9;
    watch.changed(kRun);
  };
  CHECK(watch.glance(kRun).value()->version == 0);
  source.during = {};
  CHECK(watch.glance(kRun).value()->version == 9);
}

TEST_CASE("a run that waits is looked up each time, for its reason changes with others") {
  Source source;
  source.run.life.status = RunStatus::queued;
  RunWatch watch(source.look());
  source.run.reason = "position 2";
  CHECK(watch.glance(kRun).value()->reason == "position 2");
  source.run.reason = "position 1";
  CHECK(watch.glance(kRun).value()->reason == "position 1");
}

TEST_CASE("only the newest attempt of a run that is placed and not over may write") {
  struct Row {
    RunStatus status;
    int attempt;
    bool live;
  };
  const Row rows[] = {
      {RunStatus::not_started, 2, false}, {RunStatus::queued, 2, false},
      {RunStatus::provisioning, 2, true}, {RunStatus::preparing, 2, true},
      {RunStatus::starting, 2, true},     {RunStatus::running, 2, true},
      {RunStatus::finalizing, 2, true},   {RunStatus::cancel_requested, 2, true},
      {RunStatus::completed, 2, false},   {RunStatus::failed, 2, false},
      {RunStatus::canceled, 2, false},    {RunStatus::running, 3, false},
      {RunStatus::running, 1, false},
  };
  for (const Row& row : rows) {
    CAPTURE(static_cast<int>(row.status));
    const Glance glance{.status = row.status, .attempt = row.attempt};
    const Status live = check_live(glance, {kRun, 2});
    CHECK(live.has_value() == row.live);
    if (!live) CHECK(live.error().kind == ErrorKind::conflict);
  }
}

}  // namespace
}  // namespace trainyard::api
