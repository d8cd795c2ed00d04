#include "wire/json.h"

#include <doctest/doctest.h>

#include <limits>

using namespace trainyard;
using wire::Json;

namespace {

RunSpec full_spec() {
  RunSpec spec;
  spec.workspace = "w";
  spec.experiment = "ünï";
  spec.display_name = "first try";
  spec.command = {"python", "train.py", "--lr", "0.1"};
  spec.preparation = "pip install . && echo ready";
  spec.snapshot = std::string(64, 'a');
  spec.processes_per_node = 4;
  spec.distribution = "pytorch";
  spec.resources = {2, 1 << 30, 1};
  spec.time_limit_s = 90;
  spec.environment_variables = {{"A", "1"}, {"B", ""}};
  spec.submit_environment = {{"PATH", "/bin"}};
  spec.tags = {{"k", "v"}};
  return spec;
}

}  // namespace

TEST_CASE("a member that is not there is null, of whatever is asked") {
  const Json json = {{"a", 1}, {"b", nullptr}};
  CHECK(wire::member(json, "a") == 1);
  CHECK(wire::member(json, "b").is_null());
  CHECK(wire::member(json, "c").is_null());
  CHECK(wire::member(Json::array({1}), "a").is_null());
  CHECK(wire::member(Json("text"), "a").is_null());
}

TEST_CASE("a spec survives the way there and back") {
  const RunSpec spec = full_spec();
  const Result<Json> json = wire::parse(wire::dump(wire::encode(spec)));
  REQUIRE(json);
  const Result<RunSpec> back = wire::decode_run_spec(*json);
  REQUIRE(back);
  CHECK(*back == spec);
}

TEST_CASE("a report of an end survives the way there and back") {
  Report report;
  report.seq = 7;
  report.age_us = 1500;
  report.kind = ReportKind::ended;
  report.end.cause = EndCause::time_limit;
  report.end.exit_code = 143;
  report.end.ranks = {{0, 143, 15}, {1, 0, 0}};
  report.end.cpu_seconds = 1.25;
  report.end.memory_peak_bytes = 1LL << 40;
  const Result<Report> back = wire::decode_report(wire::encode(report));
  REQUIRE(back);
  CHECK(*back == report);
}

TEST_CASE("fields added by a newer version are ignored, missing ones keep their default") {
  const Result<RunSpec> spec =
      wire::decode_run_spec(*wire::parse(R"({"command":["true"],"fromTheFuture":{"x":1}})"));
  REQUIRE(spec);
  CHECK(spec->workspace == "default");
  CHECK(spec->command == std::vector<std::string>{"true"});
}

TEST_CASE("a wrong type is refused and names its key") {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"command":"true"})", "command: must be a list"},
      {R"({"command":[1]})", "command: [0]: must be a string"},
      {R"({"nodes":"two"})", "nodes: must be a whole number"},
      {R"({"nodes":99999999999})", "nodes: must be a number in range"},
      {R"({"resources":{"cpus":1.5}})", "resources: cpus: must be a whole number"},
      {R"([])", "must be an object"},
  };
  for (const auto& [text, message] : cases) {
    CAPTURE(text);
    const Result<RunSpec> spec = wire::decode_run_spec(*wire::parse(text));
    REQUIRE(!spec);
    CHECK(spec.error().kind == ErrorKind::invalid);
    CHECK(spec.error().message == message);
  }
}

TEST_CASE("bad JSON is refused with its place") {
  const Result<Json> json = wire::parse("{\n  \"a\": nope\n}");
  REQUIRE(!json);
  CHECK(json.error().message.starts_with("line 2, column"));
}

TEST_CASE("what JSON cannot say is said in strings") {
  const Json json = {{"loss", std::numeric_limits<double>::quiet_NaN()},
                     {"list", {-std::numeric_limits<double>::infinity(), 1.5}}};
  CHECK(wire::dump(json) == R"({"loss":"NaN","list":["-Infinity",1.5]})");
  CHECK(wire::dump(Json("a\xff")) == "\"a\xef\xbf\xbd\"");
}

TEST_CASE("an error survives the way there and back") {
  const Error error{ErrorKind::no_space, "write: no space", "Free some."};
  const Error back = wire::error_from_answer(507, wire::dump(wire::error_to_json(error)));
  CHECK(back.kind == error.kind);
  CHECK(back.message == error.message);
  CHECK(back.hint == error.hint);
  CHECK(wire::error_from_answer(502, "<html>").kind == ErrorKind::unavailable);
  CHECK(wire::error_from_answer(404, "[]").kind == ErrorKind::not_found);
}

TEST_CASE("an entry of a list is bounded, whatever the run has") {
  Run run;
  run.id = RunId{"calm-finch-2"};
  run.spec = full_spec();
  for (int i = 0; i < 150; ++i) {
    const std::string name = "name-" + std::to_string(i);
    run.labels.tags[name] = "1";
    run.parameters[name] = "1";
    run.metrics.push_back({.name = name, .kind = "scalar", .points = 1, .last = {.value = 1}});
  }
  const Json whole = wire::run_to_json(run, WallTime{}, Json::object());
  const Json entry = wire::run_entry_to_json(run, WallTime{});
  for (const char* key : {"tags", "parameters", "metrics"}) {
    CHECK(whole[key].size() == 150);
    CHECK(entry[key].size() == 100);
  }
  for (const auto& [key, value] : whole.items()) {
    const bool left_out = key == "attempts" || key == "timeline" || key == "nodes" ||
                          key == "logFiles" || key == "warnings" || key == "environmentVariables";
    CHECK_MESSAGE(entry.contains(key) != left_out, key);
  }
}

TEST_CASE("a run's JSON has every key of the contract") {
  Run run;
  run.id = RunId{"calm-finch-2"};
  run.spec = full_spec();
  run.labels.display_name = "first try";
  const Json json = wire::run_to_json(run, WallTime{}, Json::object());
  for (const char* key :
       {"id",         "runId",       "name",       "experiment", "experimentName",
        "workspace",  "user",        "status",     "target",     "command",
        "createdAt",  "startedAt",   "endedAt",    "exitCode",   "error",
        "reason",     "tags",        "properties", "parameters", "metrics",
        "attempts",   "timeline",    "parentId",   "nodes",      "logFiles",
        "snapshotId", "environment", "inputs",     "nodeCount",  "processCountPerNode",
        "cost",       "studioUrl"}) {
    CHECK_MESSAGE(json.contains(key), key);
  }
  CHECK(json["name"] == "first try");
  CHECK(!json.dump().contains("/bin"));
}
