#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/fake_clock.h"
#include "base/guarded.h"
#include "control/control.h"
#include "engine/fake.h"
#include "store/history.h"

// For this room's tests: a server without a network, on a machine without processes.
namespace trainyard::control {

using engine::FakeEngine;

inline constexpr int64_t kGb = int64_t{1} << 30;

// A machine of two CPUs, and what happens on it as the test says.
struct Yard {
  TempDir dir;
  FakeClock clock;
  NullLog log;
  FakeEngine engine;
  std::unique_ptr<store::Store> store;
  std::unique_ptr<Control> control;
  Guarded<std::multiset<std::string>> changed;
  Guarded<std::vector<std::string>> notes;
  int snapshot_checks = 0;
  int merges = 0;

  fs::path reserve;                    // None unless a test sets one.
  EnvironmentReady environment_ready;  // The same; heard of at the next start.
  EnvironmentWords environment_words;

  explicit Yard(engine::Capacity capacity = {.cpus = 2, .memory_bytes = 16 * kGb})
      : engine(std::move(capacity)) {
    start();
  }

  void start() {
    auto opened = store::Store::open(dir.path() / "trainyard.db", clock, {.reserve = reserve});
    REQUIRE(opened);
    store = *std::move(opened);
    control = Control::create(
        {.clock = clock,
         .store = *store,
         .engine = engine,
         .log = log,
         .addresses = {"/socket", "http://here", "/blobs"},
         .snapshot_check = [this](std::string_view tree) -> Result<control::SnapshotSize> {
           ++snapshot_checks;
           if (tree == "missing") {
             return fail(ErrorKind::not_found, "snapshot missing");
           }
           return control::SnapshotSize{3, 41};
         },
         .merge_outputs = [this](const auto& outputs) -> Result<control::MergedOutputs> {
           ++merges;
           std::string all = outputs.before;
           for (const NodeOutputs& node : outputs.nodes)
             all += std::to_string(node.node) + node.tree;
           return control::MergedOutputs{all, "1 output differs"};
         },
         .environment_words = environment_words,
         .environment_ready = environment_ready,
         .note =
             [this](const RunId&, const std::string& line) {
               notes.with([&](auto& all) { all.push_back(line); });
             },
         .changed =
             [this](const RunId& id) { changed.with([&](auto& all) { all.insert(id.value); }); }});
    REQUIRE(control->recover());
  }
  void restart() {
    control.reset();
    store.reset();
    start();
  }

  static RunSpec spec(int cpus = 1) {
    RunSpec spec = store::plain_spec();
    spec.resources.cpus = cpus;
    return spec;
  }
  Run submit(const std::string& id, const RunSpec& of = spec()) {
    auto submitted = control->submit({RunId{id}, of, "ada"});
    REQUIRE_MESSAGE(submitted, (submitted ? "" : submitted.error().message));
    return submitted->run;
  }
  Run run(const std::string& id) {
    auto found = control->run(RunId{id});
    REQUIRE(found);
    return *found;
  }
  RunStatus status(const std::string& id) { return run(id).life.status; }
  Result<Orders> report(const std::string& id, int attempt, std::vector<Report> reports) {
    return control->report({{RunId{id}, attempt}}, reports);
  }
};

inline Report phase(int64_t seq, ReportKind kind) {
  return {.seq = seq, .after = seq - 1, .kind = kind};
}

inline Report ended(int64_t seq, EndCause cause = EndCause::exited, int exit_code = 0) {
  Report report{.seq = seq, .after = seq - 1, .kind = ReportKind::ended};
  report.end.cause = cause;
  report.end.exit_code = exit_code;
  report.end.ranks_started = true;
  report.end.cpu_seconds = 2.5;
  report.end.error = exit_code == 0 ? "" : "rank 0 exited with code 3";
  return report;
}

inline std::vector<Report> whole_life(int exit_code = 0) {
  return {phase(1, ReportKind::preparing), phase(2, ReportKind::starting),
          phase(3, ReportKind::running), phase(4, ReportKind::finalizing),
          ended(5, EndCause::exited, exit_code)};
}

inline std::vector<std::string> kinds(const Run& run) {
  std::vector<std::string> kinds;
  for (const RunEventRecord& event : run.events) kinds.push_back(event.kind);
  return kinds;
}

inline ErrorKind kind_of(const auto& result) {
  REQUIRE(!result);
  return result.error().kind;
}

using Words = std::vector<std::string>;

}  // namespace trainyard::control
