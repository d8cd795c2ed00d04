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
      [](RunSpec& s) { s.secrets = {"no name"}; },
      [](RunSpec& s) {
        s.secrets = {"KEY"};
        s.environment_variables["KEY"] = "seen";
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
