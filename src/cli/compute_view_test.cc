#include "cli/compute_view.h"

#include <doctest/doctest.h>

using namespace trainyard;
using namespace trainyard::cli;

namespace {

Json a_cluster() {
  Json json = wire::compute_to_json({.id = 1,
                                     .workspace = "default",
                                     .spec = {.name = "lab",
                                              .partition = "gpu",
                                              .sbatch = {"--gres=gpu:1"},
                                              .setup = "module load a\nmodule load b",
                                              .max_nodes = 4,
                                              .idle_seconds = 300,
                                              .vm_size = "Standard_NC6",
                                              .vm_priority = "lowpriority"},
                                     .paused = true,
                                     .created_by = "ada",
                                     .created = {}});
  json["state"] = "paused";
  json["queued"] = 7;
  json["live"] = 2;
  return json;
}

Json local() {
  return {{"name", "local"},  {"engine", "local"}, {"minNodes", 1}, {"maxNodes", 1},
          {"cpus", 8},        {"memoryBytes", 99}, {"gpus", 0},     {"paused", false},
          {"state", "ready"}, {"queued", 0},       {"live", 1}};
}

}  // namespace

TEST_CASE("a compute has the second generation's names") {
  const Json shown = compute_json(a_cluster());
  CHECK(shown["name"] == "lab");
  CHECK(shown["type"] == "amlcompute");
  CHECK(shown["size"] == "Standard_NC6");
  CHECK(shown["tier"] == "low_priority");
  CHECK(shown["min_instances"] == 0);
  CHECK(shown["max_instances"] == 4);
  CHECK(shown["idle_time_before_scale_down"] == 300);
  CHECK(shown["provisioning_state"] == "Succeeded");
  CHECK(shown["state"] == "paused");
  CHECK(shown["partition"] == "gpu");
  CHECK(shown["ssh"].is_null());
  CHECK(shown["creation_context"]["created_by"] == "ada");
}

TEST_CASE("a compute target has the first generation's names") {
  const Json shown = computetarget_json(a_cluster());
  CHECK(shown["name"] == "lab");
  CHECK(shown["provisioningState"] == "Succeeded");
  CHECK(shown["properties"]["computeType"] == "AmlCompute");
  const Json& inner = shown["properties"]["properties"];
  CHECK(inner["vmSize"] == "Standard_NC6");
  CHECK(inner["vmPriority"] == "LowPriority");
  CHECK(inner["scaleSettings"]["minNodeCount"] == 0);
  CHECK(inner["scaleSettings"]["maxNodeCount"] == 4);
  CHECK(inner["scaleSettings"]["nodeIdleTimeBeforeScaleDown"] == "PT300S");
}

TEST_CASE("this machine is a target in both shapes, without what only a cluster has") {
  const Json second = compute_json(local());
  CHECK(second["type"] == "local");
  CHECK(second["cpus"] == 8);
  CHECK_FALSE(second.contains("tier"));
  const Json first = computetarget_json(local());
  CHECK(first["properties"]["computeType"] == "Local");
  CHECK_FALSE(first["properties"]["properties"].contains("vmSize"));
}

TEST_CASE("people see a table of several and lines about one") {
  const View list = compute_view(Json::array({a_cluster(), local()}));
  CHECK_FALSE(list.text);
  const Table table = list.table({});
  REQUIRE(table.rows.size() == 2);
  CHECK(table.rows[0] ==
        std::vector<std::string>{"lab", "slurm", "paused", "0 to 4", "Standard_NC6", "7", "2"});
  CHECK(table.rows[1] ==
        std::vector<std::string>{"local", "local", "ready", "1 to 1", "", "0", "1"});
  const std::string lines = compute_view(a_cluster()).text({});
  for (const char* part : {"runs          7 queued, 2 live\n", "idle          down after 300 s\n",
                           "setup         module load a\nsetup         module load b\n"}) {
    CAPTURE(lines);
    CHECK(lines.find(part) != std::string::npos);
  }
}

TEST_CASE("how many nodes are up is shown in both shapes and to people") {
  Json compute = a_cluster();
  CHECK_FALSE(compute_json(compute).contains("current_node_count"));
  compute["currentNodes"] = 1;
  compute["targetNodes"] = 3;
  compute["allocationState"] = "resizing";
  compute["nodeCounts"] = {{"idle", 0},    {"running", 1},  {"starting", 2},
                           {"leaving", 0}, {"unusable", 1}, {"off", 0}};
  compute["trouble"] = "Slurm does not answer";
  const Json second = compute_json(compute);
  CHECK(second["current_node_count"] == 1);
  CHECK(second["allocation_state"] == "Resizing");
  CHECK(second["node_state_counts"]["preparingNodeCount"] == 2);
  const Json first = computetarget_json(compute)["properties"]["properties"];
  CHECK(first["targetNodeCount"] == 3);
  CHECK(first["nodeStateCounts"]["unusableNodeCount"] == 1);
  const std::string lines = compute_view(compute).text({});
  CHECK(lines.find("up            1 of 3 wanted: 1 running, 2 starting, 1 unusable\n") !=
        std::string::npos);
  CHECK(lines.find("trouble       Slurm does not answer\n") != std::string::npos);
}

TEST_CASE("a node is shown in the words of either generation and in ours") {
  const Json node = {{"name", "n1"},
                     {"state", "starting"},
                     {"runs", {"calm-finch-1", "calm-finch-2"}},
                     {"reason", "its program runs"},
                     {"cpus", 4},
                     {"memoryBytes", 8LL << 30},
                     {"gpus", 1}};
  const Json second = compute_node_json(node);
  CHECK(second["node_id"] == "n1");
  CHECK(second["node_state"] == "preparing");
  CHECK(second["run_id"] == "calm-finch-1");
  CHECK(second["state"] == "starting");
  CHECK(second["memory_bytes"] == 8LL << 30);
  const Json first = computetarget_node_json(node);
  CHECK(first["nodeState"] == "preparing");
  CHECK(first["runId"] == "calm-finch-1");
  const Table table = node_view(Json::array({node})).table({});
  REQUIRE(table.rows.size() == 1);
  CHECK(table.rows[0] == std::vector<std::string>{"n1", "", "starting", "calm-finch-1 calm-finch-2",
                                                  "4", "8.0 GB", "1", "its program runs"});
}
