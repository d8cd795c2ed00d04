#include "cli/compute_view.h"

#include "base/text.h"
#include "wire/json.h"

namespace trainyard::cli {
namespace {

// The machine itself, which is there from the start; not one of slots that somebody made.
bool is_local(const Json& compute) { return cell_of(compute, "name") == kLocalQueue; }

Json or_null(const Json& compute, std::string_view key) {
  const Json& value = wire::member(compute, key);
  return cell(value).empty() ? Json() : value;
}

// What only this machine has, since nobody set it.
void add_machine(Json& json, const Json& compute, std::string_view memory_key) {
  if (!is_local(compute)) return;
  json["cpus"] = wire::member(compute, "cpus");
  json[std::string(memory_key)] = wire::member(compute, "memoryBytes");
  json["gpus"] = wire::member(compute, "gpus");
}

Json creation_of(const Json& compute) {
  return {{"created_at", wire::member(compute, "createdAt")},
          {"created_by", wire::member(compute, "createdBy")}};
}

std::string nodes_of(const Json& compute) {
  return cell_of(compute, "minNodes") + " to " + cell_of(compute, "maxNodes");
}

// "2 of 4 wanted: 1 idle, 1 running, 2 starting"
std::string up_of(const Json& compute) {
  if (wire::member(compute, "currentNodes").is_null()) return {};
  std::vector<std::string> parts;
  for (const auto& [state, count] : wire::member(compute, "nodeCounts").items()) {
    if (count != 0) parts.push_back(cell(count) + " " + state);
  }
  return cell_of(compute, "currentNodes") + " of " + cell_of(compute, "targetNodes") +
         " wanted: " + join(parts, ", ");
}

// What Azure calls them; "off" it does not know.
std::string azure_state(const Json& node) {
  const std::string state = cell_of(node, "state");
  return state == "starting" ? "preparing" : state;
}
// As Azure has it: two addresses, and ssh's port.
void add_address(Json& json, const Json& node, const char* own, const char* outside) {
  constexpr int kSshPort = 22;
  const Json& address = wire::member(node, "address");
  json[own] = json[outside] = address;
  json["port"] = address.is_null() ? Json() : Json(kSshPort);
}
Json first_run(const Json& node) {
  const Json& runs = wire::member(node, "runs");
  return runs.empty() ? Json() : runs.front();
}

// Both shapes of a compute have these, each in its spelling.
struct NodeCountKeys {
  std::string_view current;
  std::string_view target;
  std::string_view state;
  std::string_view counts;
};
void add_node_counts(Json& json, const Json& compute, const NodeCountKeys& keys) {
  if (const Json& trouble = wire::member(compute, "trouble"); !trouble.is_null()) {
    json["trouble"] = trouble;
  }
  if (wire::member(compute, "currentNodes").is_null()) return;
  json[std::string(keys.current)] = wire::member(compute, "currentNodes");
  json[std::string(keys.target)] = wire::member(compute, "targetNodes");
  json[std::string(keys.state)] =
      cell_of(compute, "allocationState") == "steady" ? "Steady" : "Resizing";
  const Json& counts = wire::member(compute, "nodeCounts");
  json[std::string(keys.counts)] = {{"idleNodeCount", wire::member(counts, "idle")},
                                    {"runningNodeCount", wire::member(counts, "running")},
                                    {"preparingNodeCount", wire::member(counts, "starting")},
                                    {"unusableNodeCount", wire::member(counts, "unusable")},
                                    {"leavingNodeCount", wire::member(counts, "leaving")},
                                    {"offNodeCount", wire::member(counts, "off")}};
}

Table table_of(const Json& computes) {
  Table table{{"NAME", "ENGINE", "STATE", "NODES", "SIZE", "QUEUED", "LIVE"}, {}};
  const auto add = [&](const Json& compute) {
    table.rows.push_back({cell_of(compute, "name"), cell_of(compute, "engine"),
                          cell_of(compute, "state"), nodes_of(compute), cell_of(compute, "vmSize"),
                          cell_of(compute, "queued"), cell_of(compute, "live")});
  };
  if (computes.is_object()) {
    add(computes);
  } else {
    for (const Json& compute : computes) add(compute);
  }
  return table;
}

std::string lines_of(const Json& compute) {
  Table table;
  const auto add = [&](std::string_view name, const std::string& value) {
    if (!value.empty()) table.rows.push_back({std::string(name), value});
  };
  add("compute", cell_of(compute, "name"));
  add("engine", cell_of(compute, "engine"));
  add("state", cell_of(compute, "state"));
  add("runs", cell_of(compute, "queued") + " queued, " + cell_of(compute, "live") + " live");
  add("nodes", nodes_of(compute));
  add("up", up_of(compute));
  add("trouble", cell_of(compute, "trouble"));
  if (const Json& idle = wire::member(compute, "idleSeconds"); !idle.is_null()) {
    add("idle", "down after " + cell(idle) + " s");
  }
  add("size", cell_of(compute, "vmSize"));
  add("priority", cell_of(compute, "vmPriority"));
  add("cpus", cell_of(compute, "cpus"));
  add("gpus", cell_of(compute, "gpus"));
  for (const std::string_view key : {"ssh", "partition", "account", "qos"}) {
    add(key, cell_of(compute, key));
  }
  for (const Json& option : wire::member(compute, "sbatch")) add("sbatch", cell(option));
  for (const std::string& line : split(cell_of(compute, "setup"), '\n')) add("setup", line);
  add("slurm.conf", cell_of(compute, "slurmConf"));
  if (const Json& limit = wire::member(compute, "outageSeconds"); limit.is_number()) {
    add("outage limit", format_duration(seconds(limit.get<int64_t>())));
    add("unsent wait",
        format_duration(seconds(wire::member(compute, "unsentSeconds").get<int64_t>())));
  }
  add("shared folder", cell_of(compute, "sharedFolder"));
  add("node up", cell_of(compute, "nodeUp"));
  add("node down", cell_of(compute, "nodeDown"));
  add("created", cell_of(compute, "createdAt"));
  add("by", cell_of(compute, "createdBy"));
  return render_table(table, {});
}

}  // namespace

Json compute_json(const Json& compute) {
  Json json = {
      {"name", wire::member(compute, "name")},
      {"id", wire::member(compute, "name")},
      {"type", is_local(compute) ? "local" : "amlcompute"},
      {"provisioning_state", "Succeeded"},
      {"state", wire::member(compute, "state")},
      {"size", or_null(compute, "vmSize")},
      {"min_instances", wire::member(compute, "minNodes")},
      {"max_instances", wire::member(compute, "maxNodes")},
      {"engine", wire::member(compute, "engine")},
      {"queued", wire::member(compute, "queued")},
      {"live", wire::member(compute, "live")},
  };
  add_machine(json, compute, "memory_bytes");
  if (is_local(compute)) return json;
  json["tier"] = cell_of(compute, "vmPriority") == "dedicated" ? "dedicated" : "low_priority";
  json["idle_time_before_scale_down"] = wire::member(compute, "idleSeconds");
  for (const auto& [key, from] : {std::pair{"ssh", "ssh"},
                                  {"partition", "partition"},
                                  {"account", "account"},
                                  {"qos", "qos"},
                                  {"sbatch", "sbatch"},
                                  {"setup", "setup"},
                                  {"slurm_conf", "slurmConf"},
                                  {"outage_limit", "outageSeconds"},
                                  {"unsent_wait", "unsentSeconds"},
                                  {"shared_folder", "sharedFolder"},
                                  {"node_up", "nodeUp"},
                                  {"node_down", "nodeDown"}}) {
    json[key] = or_null(compute, from);
  }
  add_node_counts(json, compute,
                  {.current = "current_node_count",
                   .target = "target_node_count",
                   .state = "allocation_state",
                   .counts = "node_state_counts"});
  json["creation_context"] = creation_of(compute);
  json["workspace_name"] = wire::member(compute, "workspace");
  return json;
}

Json computetarget_json(const Json& compute) {
  Json inner = Json::object();
  if (!is_local(compute)) {
    const bool dedicated = cell_of(compute, "vmPriority") == "dedicated";
    inner["vmSize"] = or_null(compute, "vmSize");
    inner["vmPriority"] = dedicated ? "Dedicated" : "LowPriority";
  }
  inner["scaleSettings"] = {{"minNodeCount", wire::member(compute, "minNodes")},
                            {"maxNodeCount", wire::member(compute, "maxNodes")}};
  if (const Json& idle = wire::member(compute, "idleSeconds"); !idle.is_null()) {
    inner["scaleSettings"]["nodeIdleTimeBeforeScaleDown"] = "PT" + cell(idle) + "S";
  }
  for (const std::string_view key : {"engine", "state", "queued", "live"}) {
    inner[std::string(key)] = wire::member(compute, key);
  }
  add_machine(inner, compute, "memoryBytes");
  if (!is_local(compute)) {
    for (const std::string_view key :
         {"ssh", "partition", "account", "qos", "sbatch", "setup", "slurmConf", "outageSeconds",
          "unsentSeconds", "sharedFolder", "nodeUp", "nodeDown"}) {
      inner[std::string(key)] = or_null(compute, key);
    }
  }
  add_node_counts(inner, compute,
                  {.current = "currentNodeCount",
                   .target = "targetNodeCount",
                   .state = "allocationState",
                   .counts = "nodeStateCounts"});
  return {{"name", wire::member(compute, "name")},
          {"id", wire::member(compute, "name")},
          {"provisioningState", "Succeeded"},
          {"properties",
           {{"computeType", is_local(compute) ? "Local" : "AmlCompute"},
            {"provisioningState", "Succeeded"},
            {"createdOn", wire::member(compute, "createdAt")},
            {"properties", std::move(inner)}}}};
}

Json compute_node_json(const Json& node) {
  Json json = node;
  add_address(json, node, "private_ip_address", "public_ip_address");
  json["node_id"] = wire::member(node, "name");
  json["node_state"] = azure_state(node);
  json["run_id"] = first_run(node);
  json["memory_bytes"] = wire::member(node, "memoryBytes");
  json["seen_seconds_ago"] = wire::member(node, "seenSecondsAgo");
  json.erase("memoryBytes");
  json.erase("seenSecondsAgo");
  return json;
}

Json computetarget_node_json(const Json& node) {
  Json json = node;
  add_address(json, node, "privateIpAddress", "publicIpAddress");
  json["nodeId"] = wire::member(node, "name");
  json["nodeState"] = azure_state(node);
  json["runId"] = first_run(node);
  return json;
}

Json shaped_node(const Context& context, const Json& node) {
  const bool first = context.command().name.starts_with("computetarget ");
  return first ? computetarget_node_json(node) : compute_node_json(node);
}

View node_view(Json nodes) {
  return {
      .table =
          [nodes = std::move(nodes)](const Json&) {
            Table table{{"NAME", "ADDRESS", "STATE", "RUNS", "CPUS", "MEMORY", "GPUS", "REASON"},
                        {}};
            for (const Json& node : nodes) {
              std::vector<std::string> runs;
              for (const Json& run : wire::member(node, "runs")) runs.push_back(cell(run));
              const auto memory = wire::member(node, "memoryBytes").get<uint64_t>();
              table.rows.push_back({cell_of(node, "name"), cell_of(node, "address"),
                                    cell_of(node, "state"), join(runs, " "), cell_of(node, "cpus"),
                                    memory == 0 ? "" : format_size(memory), cell_of(node, "gpus"),
                                    cell_of(node, "reason")});
            }
            return table;
          },
      .text = {}};
}

Json shaped_compute(const Context& context, const Json& compute) {
  const bool first = context.command().name.starts_with("computetarget ");
  return first ? computetarget_json(compute) : compute_json(compute);
}

View compute_view(Json computes) {
  View view{.table = [computes](const Json&) { return table_of(computes); }, .text = {}};
  if (computes.is_object()) {
    view.text = [computes = std::move(computes)](const Json&) { return lines_of(computes); };
  }
  return view;
}

}  // namespace trainyard::cli
