#include "dialects/compute.h"

#include <doctest/doctest.h>

using namespace trainyard;
using namespace trainyard::dialects;

namespace {

Result<ComputeFile> load(std::string_view text, std::vector<std::string> sets = {},
                         const ComputeSpec& before = {}) {
  const TempDir dir;
  const fs::path file = dir.path() / "c.yml";
  REQUIRE(write_file(file, text));
  return load_compute({file, std::move(sets)}, before);
}

void refused(std::string_view text, std::string_view says) {
  const auto loaded = load(text);
  CAPTURE(text);
  REQUIRE(!loaded);
  CHECK(loaded.error().kind == ErrorKind::invalid);
  const std::string all = loaded.error().message + "\n" + loaded.error().hint;
  CAPTURE(all);
  CHECK(all.find(says) != std::string::npos);
}

}  // namespace

TEST_CASE("a compute file of Azure's is read, and our own keys beside it") {
  const auto loaded =
      load(R"($schema: https://azuremlschemas.azureedge.net/latest/amlCompute.schema.json
name: gpu-cluster
type: amlcompute
size: STANDARD_NC6
tier: low_priority
min_instances: 0
max_instances: 4
idle_time_before_scale_down: 300
location: westus
partition: gpu
sbatch: [--gres=gpu:1, --exclusive]
setup: |
  module load cuda
  ulimit -l unlimited
node_up: /opt/up --fast
node_down: /opt/down
)");
  REQUIRE_MESSAGE(loaded, (loaded ? "" : loaded.error().message));
  CHECK(loaded->warnings.empty());
  CHECK(loaded->spec == ComputeSpec{.name = "gpu-cluster",
                                    .partition = "gpu",
                                    .sbatch = {"--gres=gpu:1", "--exclusive"},
                                    .setup = "module load cuda\nulimit -l unlimited\n",
                                    .min_nodes = 0,
                                    .max_nodes = 4,
                                    .idle_seconds = 300,
                                    .vm_size = "STANDARD_NC6",
                                    .vm_priority = "lowpriority",
                                    .node_up = "/opt/up --fast",
                                    .node_down = "/opt/down"});
}

TEST_CASE("what a file does not name stays as it was") {
  const ComputeSpec before{.name = "c", .sbatch = {"--x"}, .max_nodes = 7, .idle_seconds = 99};
  const auto loaded = load("min_instances: 2\nsize:\n", {}, before);
  REQUIRE(loaded);
  ComputeSpec expected = before;
  expected.min_nodes = 2;
  CHECK(loaded->spec == expected);
}

TEST_CASE("overrides win over the file, and work without one") {
  const auto loaded = load("max_instances: 2\n", {"max_instances=5", "tier=LowPriority"});
  REQUIRE(loaded);
  CHECK(loaded->spec.max_nodes == 5);
  CHECK(loaded->spec.vm_priority == "lowpriority");
  const auto alone = load_compute({{}, {"partition=gpu"}}, {.name = "c"});
  REQUIRE(alone);
  CHECK(alone->spec.partition == "gpu");
  CHECK(!load_compute({{}, {"partition"}}, {}));
}

TEST_CASE("what is wrong in a compute file is refused with its line") {
  refused("name: c\ntype: kubernetes\n", "c.yml:2: type: 'kubernetes' is not made here");
  refused("tier: cheap\n", "c.yml:1: tier: 'cheap' is not known");
  refused("max_instances: many\n", "c.yml:1: max_instances: must be a whole number");
  refused("max_instances: -1\n", "c.yml:1: max_instances: is out of range");
  refused("max_instances: 99999999999\n", "is out of range");
  refused("sbatch: --x\n", "sbatch: must be a list");
  refused("- a\n", "must be a map");
  refused("", "is empty");
}

TEST_CASE("what has no effect or is mistyped is warned of, not refused") {
  const auto loaded = load("name: c\nssh_settings:\n  admin_username: a\nmin_instance: 1\n");
  REQUIRE(loaded);
  REQUIRE(loaded->warnings.size() == 2);
  CHECK(loaded->warnings[0].find("c.yml:2: ssh_settings") != std::string::npos);
  CHECK(loaded->warnings[1].find("did you mean 'min_instances'") != std::string::npos);
}
