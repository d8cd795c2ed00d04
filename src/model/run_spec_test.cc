#include "model/run_spec.h"

#include <doctest/doctest.h>

#include <functional>

using namespace trainyard;

namespace {

RunSpec good() {
  RunSpec spec;
  spec.experiment = "digits";
  spec.command = {"true"};
  return spec;
}

}  // namespace

TEST_CASE("a plain spec is good") { CHECK(check_spec(good())); }

TEST_CASE("a spec that cannot run is refused") {
  const std::function<void(RunSpec&)> faults[] = {
      [](RunSpec& s) { s.command.clear(); },
      [](RunSpec& s) { s.command = {""}; },
      [](RunSpec& s) { s.experiment.clear(); },
      [](RunSpec& s) { s.workspace = "../etc"; },
      [](RunSpec& s) { s.target = ".."; },
      [](RunSpec& s) { s.nodes = 0; },
      [](RunSpec& s) { s.processes_per_node = 0; },
      [](RunSpec& s) { s.processes_per_node = 100'000; },
      [](RunSpec& s) { s.resources.cpus = 0; },
      [](RunSpec& s) { s.resources.memory_bytes = -1; },
      [](RunSpec& s) { s.time_limit_s = -1; },
      [](RunSpec& s) { s.distribution = "carrier-pigeon"; },
      [](RunSpec& s) { s.environment_variables["A=B"] = "x"; },
      [](RunSpec& s) { s.command.push_back(std::string("a\0b", 3)); },
      [](RunSpec& s) { s.preparation = std::string("a\0b", 3); },
      [](RunSpec& s) { s.preparation = std::string(200'000, 'x'); },
      [](RunSpec& s) { s.secrets = {"no name"}; },
      [](RunSpec& s) {
        s.secrets = {"KEY"};
        s.environment_variables["KEY"] = "seen";
      },
      [](RunSpec& s) { s.environment_variables["A"] = std::string(200'000, 'x'); },
      [](RunSpec& s) { s.tags["a"] = std::string(100'000, 'x'); },
      [](RunSpec& s) { s.tags[std::string(5'000, 'x')] = "a"; },
      [](RunSpec& s) { s.parameters["a"] = std::string(100'000, 'x'); },
      [](RunSpec& s) {
        for (int i = 0; i < 10'001; ++i) s.tags[std::to_string(i)] = "";
      },
      [](RunSpec& s) {
        for (int i = 0; i < 10'001; ++i) s.environment_variables["A" + std::to_string(i)] = "";
      },
  };
  for (const auto& fault : faults) {
    RunSpec spec = good();
    fault(spec);
    const Status status = check_spec(spec);
    REQUIRE(!status);
    CHECK(status.error().kind == ErrorKind::invalid);
  }
}

TEST_CASE("a secret does not take the place of a variable that a rank needs") {
  RunSpec spec;
  spec.experiment = "e";
  spec.command = {"true"};
  for (const char* name : {"PATH", "HOME", "TRAINYARD_TOKEN", "AZUREML_RUN_ID", "a b"}) {
    CAPTURE(name);
    spec.secrets = {name};
    CHECK(!check_spec(spec));
  }
  spec.secrets = {"API_KEY", "PATHS"};
  CHECK(check_spec(spec));
}

TEST_CASE("ranks are numbered through, node after node") {
  const RunSpec spec{.nodes = 3, .processes_per_node = 2};
  CHECK(rank_count(spec) == 6);
  for (int node = 0; node < 3; ++node) {
    CHECK(ranks_on(spec, node) == 2);
    CHECK(first_rank(spec, node) == node * 2);
  }
}

TEST_CASE("parameter servers are dealt to the nodes one after another, behind their workers") {
  for (const int servers : {0, 1, 2, 3, 4, 7}) {
    const RunSpec spec{.nodes = 3, .processes_per_node = 2, .parameter_servers = servers};
    CHECK(rank_count(spec) == 6 + servers);
    int next = 0;
    for (int node = 0; node < 3; ++node) {
      CHECK(first_rank(spec, node) == next);
      CHECK(ranks_on(spec, node) >= 2 + servers / 3);
      next += ranks_on(spec, node);
    }
    CHECK(next == rank_count(spec));
  }
}

TEST_CASE("parameter servers are TensorFlow's alone") {
  RunSpec spec{.experiment = "e", .command = {"true"}, .parameter_servers = 1};
  CHECK_FALSE(check_spec(spec));
  spec.parameter_servers = -1;
  CHECK_FALSE(check_spec(spec));
}
