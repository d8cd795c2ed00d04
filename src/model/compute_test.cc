#include "model/compute.h"

#include <doctest/doctest.h>

#include <functional>

using namespace trainyard;

TEST_CASE("a compute that can be is taken") {
  ComputeSpec spec{.name = "gpu-cluster"};
  CHECK(check_compute(spec));
  spec.ssh = "ada@login.example";
  spec.partition = "gpu";
  spec.sbatch = {"--gres=gpu:4", "-C fast"};
  spec.setup = "module load cuda\nmodule load openmpi";
  spec.max_nodes = 16;
  spec.min_nodes = 16;
  spec.node_up = "/opt/up --fast";
  spec.node_down = "/opt/down";
  CHECK(check_compute(spec));
}

TEST_CASE("what is wrong with a compute is named") {
  struct Row {
    std::function<void(ComputeSpec&)> change;
    const char* says;
  };
  const Row rows[] = {
      {[](auto& s) { s.name = ""; }, "compute"},
      {[](auto& s) { s.name = "local"; }, "from the start"},
      {[](auto& s) { s.engine = "kubernetes"; }, "engine 'kubernetes'"},
      {[](auto& s) { s.partition = "a b"; }, "partition 'a b'"},
      {[](auto& s) { s.partition = "--uid=0"; }, "partition '--uid=0'"},
      {[](auto& s) { s.ssh = "-oProxyCommand=x"; }, "ssh"},
      {[](auto& s) { s.sbatch = {"--a\n#SBATCH --b"}; }, "one line"},
      {[](auto& s) { s.sbatch = {"gpu"}; }, "no option"},
      {[](auto& s) { s.node_up = "/up"; }, "go together"},
      {[](auto& s) { s.max_nodes = 0; }, "max nodes"},
      {[](auto& s) { s.min_nodes = 2; }, "min nodes must be 0 to max nodes (1)"},
      {[](auto& s) { s.idle_seconds = -1; }, "idle"},
      {[](auto& s) { s.vm_priority = "cheap"; }, "priority 'cheap'"},
      {[](auto& s) { s.outage_seconds = 30; }, "outage limit: must be 1 minute to 30 days"},
      {[](auto& s) { s.unsent_seconds = 0; }, "unsent wait: must be 5 seconds"},
      {[](auto& s) { s.shared_folder = "data"; }, "shared folder 'data': must be an absolute path"},
  };
  for (const Row& row : rows) {
    ComputeSpec spec{.name = "c"};
    row.change(spec);
    const Status checked = check_compute(spec);
    CAPTURE(row.says);
    REQUIRE(!checked);
    CHECK(checked.error().kind == ErrorKind::invalid);
    CHECK(checked.error().message.find(row.says) != std::string::npos);
  }
}
