#include "api/route.h"
#include "api/targets.h"
#include "store/computes.h"
#include "store/vm_sizes.h"
#include "store/workspaces.h"

namespace trainyard::api {
namespace {

// Two that bring the same nodes up and down would undo each other's work. Partitions that overlap
// are found when their nodes are seen: the first has them.
Status check_alone(db::Db& db, std::string_view workspace, const ComputeSpec& spec) {
  if (spec.node_up.empty()) return {};
  TRY_SET(const std::vector<Compute> computes, store::all_computes(db));
  for (const Compute& other : computes) {
    if (other.workspace == workspace && other.spec.name == spec.name) continue;
    if (other.spec.node_up.empty() || other.spec.ssh != spec.ssh ||
        other.spec.slurm_conf != spec.slurm_conf || other.spec.partition != spec.partition) {
      continue;
    }
    return fail(ErrorKind::conflict,
                "the compute '" + other.spec.name + "' of workspace '" + other.workspace +
                    "' brings the nodes of that partition up and down already",
                "Make this one without --node-up and --node-down; or give each a partition.");
  }
  return {};
}

// Slots are the server's own machine, whose account the runs would have.
Status check_server_target(const Facts& facts) {
  if (facts.server_target) return {};
  return fail(ErrorKind::invalid,
              "the server's own machine is switched off as a target: it listens beyond itself",
              "Allow it with: trainyard server run --allow-server-target");
}

// Nodes talk to us over the network, or by way of their login node.
Status check_reachable(const Facts& facts, const ComputeSpec& spec) {
  if (spec.engine == "local") return check_server_target(facts);
  if (!facts.loopback) return {};
  if (!spec.ssh.empty() && facts.url.starts_with("https://")) {
    return fail(ErrorKind::invalid,
                "nodes behind --ssh speak to this server in plain HTTP inside the ssh connection, "
                "and it takes TLS alone",
                "Start it without --tls-cert; on loopback nobody else hears it.");
  }
  if (!spec.ssh.empty()) return {};
  if (Targets::nodes_are_here(spec)) return {};
  return fail(ErrorKind::invalid,
              "the nodes of a cluster cannot reach this server: it listens on loopback alone, at " +
                  facts.url,
              "Start it where they can: trainyard server run --listen HOST:PORT --tls-cert FILE "
              "--tls-key FILE. Or go by way of the cluster's login node: --ssh USER@LOGIN\n"
              "Or make nodes of this machine, without Slurm: --engine local");
}

std::string_view compute_in(const Call& call) { return call.request.param("compute"); }

std::string_view words_of(engine::NodeState::Is is) {
  using enum engine::NodeState::Is;
  switch (is) {
    case off:
      return "off";
    case starting:
      return "starting";
    case idle:
      return "idle";
    case running:
      return "running";
    case leaving:
      return "leaving";
    case unusable:
      return "unusable";
  }
  return "";
}

// What of a target is not its settings. It is ready, paused, or unavailable (add_trouble).
void add_state(Json& json, const store::TargetRuns& runs) {
  json["state"] = json["paused"] == true ? "paused" : "ready";
  json["queued"] = runs.queued;
  json["live"] = runs.live;
}

void add_trouble(Json& json, const std::string& trouble, bool away) {
  if (!trouble.empty()) json["trouble"] = trouble;
  if (away && json["paused"] != true) json["state"] = "unavailable";
}

// How many nodes are up, and how many are to be.
void add_nodes(Json& json, const engine::NodesSeen& seen) {
  add_trouble(json, seen.trouble, seen.away);
  if (seen.nodes.empty()) return;
  Json counts = {{"idle", 0},    {"running", 0},  {"starting", 0},
                 {"leaving", 0}, {"unusable", 0}, {"off", 0}};
  for (const engine::NodeState& node : seen.nodes) {
    Json& count = counts[std::string(words_of(node.is))];
    count = count.get<int>() + 1;
  }
  const int up = counts["idle"].get<int>() + counts["running"].get<int>();
  const bool moves = up != seen.wanted || counts["starting"] != 0 || counts["leaving"] != 0;
  json["currentNodes"] = up;
  json["targetNodes"] = seen.wanted;
  json["allocationState"] = moves ? "resizing" : "steady";
  json["nodeCounts"] = std::move(counts);
}

Result<Json> shown(const Call& call, db::Db& db, const Compute& compute) {
  const std::string queue = queue_of({.workspace = compute.workspace, .target = compute.spec.name});
  TRY_SET(const store::TargetRuns runs, store::count_runs_on(db, queue));
  Json json = wire::compute_to_json(compute);
  add_state(json, runs);
  if (call.house.targets != nullptr) add_nodes(json, call.house.targets->nodes(compute));
  return json;
}

// The machine where the server is; nobody made it and nobody changes it.
Result<Json> shown_local(const Call& call, db::Db& db) {
  const engine::Capacity capacity = call.house.control->load().capacity;
  TRY_SET(const store::TargetRuns runs, store::count_runs_on(db, kLocalQueue));
  Json json = {{"name", kLocalQueue},
               {"engine", "local"},
               {"minNodes", 1},
               {"maxNodes", 1},
               {"cpus", capacity.cpus},
               {"memoryBytes", capacity.memory_bytes},
               {"gpus", capacity.gpus.size()},
               {"paused", false}};
  add_state(json, runs);
  return json;
}

Status check_not_local(const Call& call) {
  if (compute_in(call) != kLocalQueue) return {};
  return fail(ErrorKind::invalid, "'local' is this machine: it is there from the start and stays");
}

Result<http::Response> list_computes(const Call& call) {
  TRY_SET(const Window window, window_of(call.request));
  std::vector<Json> items;
  const auto look = [&](db::Db& db) -> Status {
    TRY_SET(const std::vector<Compute> computes, store::list_computes(db, workspace_in(call)));
    TRY_SET(Json local, shown_local(call, db));
    items.push_back(std::move(local));
    for (const Compute& compute : computes) {
      TRY_SET(Json json, shown(call, db, compute));
      items.push_back(std::move(json));
    }
    return {};
  };
  TRY(call.house.store.read(look));
  return answer_page(window, items.size(), [&](size_t i) { return items[i]; });
}

Result<http::Response> create_compute(const Call& call) {
  TRY_SET(const Json body, body_object(call.request));
  TRY_SET(ComputeSpec spec, wire::decode_compute_spec(body));
  if (!body.contains("engine")) spec.engine.clear();
  TRY(Targets::choose_engine(spec));
  TRY(check_compute(spec));
  TRY(check_reachable(call.house.facts, spec));
  std::string trouble;
  if (call.house.targets != nullptr) {
    TRY_SET(trouble, call.house.targets->check(spec));
  }
  store::ComputeMade made;
  Json json;
  const auto change = [&](db::Transaction& transaction) -> Status {
    TRY(check_alone(transaction.db(), workspace_in(call), spec));
    TRY_SET(made, store::insert_compute(transaction, workspace_in(call), spec, call.identity.user,
                                        call.house.clock.wall()));
    TRY_SET(json, shown(call, transaction.db(), made.compute));
    return {};
  };
  TRY(call.house.store.write(Durable::yes, change));
  if (call.house.targets != nullptr) {
    TRY(call.house.targets->open(made.compute));
    // Those of a cluster are seen later.
    if (spec.engine == "local") add_nodes(json, call.house.targets->nodes(made.compute));
  }
  add_trouble(json, trouble, !trouble.empty());
  return answer(json, made.made ? 201 : 200);
}

Result<http::Response> show_compute(const Call& call) {
  Json json;
  const auto look = [&](db::Db& db) -> Status {
    TRY(store::load_workspace(db, workspace_in(call)));
    if (compute_in(call) == kLocalQueue) {
      TRY_SET(json, shown_local(call, db));
      return {};
    }
    TRY_SET(const Compute compute, store::load_compute(db, workspace_in(call), compute_in(call)));
    TRY_SET(json, shown(call, db, compute));
    return {};
  };
  TRY(call.house.store.read(look));
  return answer(json);
}

constexpr const char* kThisMachine = "127.0.0.1";

engine::NodesSeen local_nodes(const Call& call) {
  const control::Control::Load load = call.house.control->load();
  engine::NodeState node;
  node.name = call.house.facts.host;
  node.address = kThisMachine;
  node.is = load.live > 0 ? engine::NodeState::Is::running : engine::NodeState::Is::idle;
  node.cpus = load.capacity.cpus;
  node.memory_bytes = load.capacity.memory_bytes;
  node.gpus = static_cast<int>(load.capacity.gpus.size());
  return {.nodes = {node}, .wanted = 1, .trouble = {}};
}

Result<http::Response> list_nodes(const Call& call) {
  TRY_SET(const Window window, window_of(call.request));
  std::optional<Compute> compute;
  const auto look = [&](db::Db& db) -> Status {
    TRY(store::load_workspace(db, workspace_in(call)));
    if (compute_in(call) == kLocalQueue) return {};
    TRY_SET(compute, store::load_compute(db, workspace_in(call), compute_in(call)));
    return {};
  };
  TRY(call.house.store.read(look));
  engine::NodesSeen seen;
  if (!compute) {
    seen = local_nodes(call);
  } else if (call.house.targets != nullptr) {
    seen = call.house.targets->nodes(*compute);
  }
  return answer_page(window, seen.nodes.size(), [&](size_t i) {
    const engine::NodeState& node = seen.nodes[i];
    Json runs = Json::array();
    for (const RunId& run : node.runs) runs.push_back(run.value);
    const Json address = node.address.empty() ? Json() : Json(node.address);
    return Json{{"name", node.name},
                {"address", address},
                {"state", words_of(node.is)},
                {"runs", std::move(runs)},
                {"reason", node.reason},
                {"cpus", node.cpus},
                {"memoryBytes", node.memory_bytes},
                {"gpus", node.gpus},
                {"seenSecondsAgo", seen.age.count()}};
  });
}

// Answers with the compute as `act` leaves it; then `heed` is told of it.
template <class Act, class Heed>
Result<http::Response> change_one(const Call& call, Act&& act, Heed&& heed) {
  TRY(check_not_local(call));
  Json json;
  Compute compute;
  const auto change = [&](db::Transaction& transaction) -> Status {
    TRY_SET(compute, act(transaction));
    TRY_SET(json, shown(call, transaction.db(), compute));
    return {};
  };
  TRY(call.house.store.write(Durable::yes, change));
  if (call.house.targets != nullptr) TRY(heed(*call.house.targets, compute));
  return answer(json);
}

// Outside the transaction: the cluster is asked, and writers do not wait for it.
Status check_new_partition(const Call& call, const Json& body) {
  const Json& partition = wire::member(body, "partition");
  if (!partition.is_string() || call.house.targets == nullptr) return {};
  Compute compute;
  const auto look = [&](db::Db& db) -> Status {
    TRY_SET(compute, store::load_compute(db, workspace_in(call), compute_in(call)));
    return {};
  };
  TRY(call.house.store.read(look));
  compute.spec.partition = partition.get<std::string>();
  TRY(check_compute(compute.spec));
  TRY(call.house.targets->check(compute.spec));
  return {};
}

Result<http::Response> change_compute(const Call& call) {
  TRY_SET(const Json body, body_object(call.request));
  TRY(check_new_partition(call, body));
  const auto act = [&](db::Transaction& transaction) -> Result<Compute> {
    TRY_SET(Compute changed,
            store::change_compute(transaction, workspace_in(call), compute_in(call), body));
    TRY(check_alone(transaction.db(), workspace_in(call), changed.spec));
    if (changed.spec.engine == "local") TRY(check_server_target(call.house.facts));
    return changed;
  };
  const auto heed = [](Targets& targets, const Compute& compute) { return targets.open(compute); };
  return change_one(call, act, heed);
}

Result<http::Response> set_paused(const Call& call, bool paused) {
  const auto act = [&](db::Transaction& transaction) {
    return store::pause_compute(transaction, workspace_in(call), compute_in(call), paused);
  };
  const auto heed = [](Targets& targets, const Compute& compute) -> Status {
    targets.pause(compute);
    return {};
  };
  return change_one(call, act, heed);
}
Result<http::Response> pause_compute(const Call& call) { return set_paused(call, true); }
Result<http::Response> resume_compute(const Call& call) { return set_paused(call, false); }

Result<http::Response> delete_compute(const Call& call) {
  TRY(check_not_local(call));
  Compute compute;
  const auto change = [&](db::Transaction& transaction) -> Status {
    TRY_SET(compute, store::load_compute(transaction.db(), workspace_in(call), compute_in(call)));
    return store::delete_compute(transaction, workspace_in(call), compute_in(call));
  };
  TRY(call.house.store.write(Durable::yes, change));
  if (call.house.targets != nullptr) call.house.targets->close(compute);
  return no_content();
}

// ---- sizes ----

Result<http::Response> list_sizes(const Call& call) {
  TRY_SET(const Window window, window_of(call.request));
  std::vector<VmSize> sizes;
  const auto look = [&](db::Db& db) -> Status {
    TRY_SET(sizes, store::list_vm_sizes(db));
    return {};
  };
  TRY(call.house.store.read(look));
  return answer_page(window, sizes.size(), [&](size_t i) { return wire::encode(sizes[i]); });
}

Result<http::Response> set_size(const Call& call) {
  TRY_SET(const Json body, body_object(call.request));
  VmSize size;
  const auto change = [&](db::Transaction& transaction) -> Status {
    TRY_SET(size, store::set_vm_size(transaction, call.request.param("size"), body));
    return {};
  };
  TRY(call.house.store.write(Durable::yes, change));
  return answer(wire::encode(size));
}

Result<http::Response> delete_size(const Call& call) {
  const auto change = [&](db::Transaction& transaction) -> Status {
    return store::delete_vm_size(transaction, call.request.param("size"));
  };
  TRY(call.house.store.write(Durable::yes, change));
  return no_content();
}

using enum http::Method;
// Making and changing is an admin's: a compute names programs that run on the server's account.
constexpr RouteRow kComputesRoutes[] = {
    {get, "/api/v1/workspaces/{workspace}/computes", Needs::reader, Attempts::refused,
     list_computes, "Lists the targets of a workspace: 'local', then those that were made.",
     "limit cursor"},
    {post, "/api/v1/workspaces/{workspace}/computes", Needs::admin, Attempts::refused,
     create_compute, "Makes a compute. The same again is 200, another of its name 409."},
    {get, "/api/v1/workspaces/{workspace}/computes/{compute}", Needs::reader, Attempts::refused,
     show_compute, "Shows a compute: settings, state, nodes, runs queued and live."},
    {patch, "/api/v1/workspaces/{workspace}/computes/{compute}", Needs::admin, Attempts::refused,
     change_compute, "Changes those settings of a compute that the body names."},
    {del, "/api/v1/workspaces/{workspace}/computes/{compute}", Needs::admin, Attempts::refused,
     delete_compute, "Deletes a compute; refused while a run waits or is live there."},
    {post, "/api/v1/workspaces/{workspace}/computes/{compute}/pause", Needs::admin,
     Attempts::refused, pause_compute, "Places nothing new there; what is live goes on."},
    {post, "/api/v1/workspaces/{workspace}/computes/{compute}/resume", Needs::admin,
     Attempts::refused, resume_compute, "Places runs there again."},
    {get, "/api/v1/workspaces/{workspace}/computes/{compute}/nodes", Needs::reader,
     Attempts::refused, list_nodes,
     "Lists its nodes: name, address, state in words, runs on it, reason, CPUs, memory, GPUs.",
     "limit cursor"},
    {get, "/api/v1/sizes", Needs::reader, Attempts::allowed, list_sizes,
     "Lists the sizes of machines: CPUs, memory, GPUs, price.", "limit cursor"},
    {put, "/api/v1/sizes/{size}", Needs::admin, Attempts::refused, set_size,
     "Makes a size, or changes what the body names of it."},
    {del, "/api/v1/sizes/{size}", Needs::admin, Attempts::refused, delete_size,
     "Deletes a size; refused while a compute has it."},
};

}  // namespace

std::span<const RouteRow> compute_routes() { return kComputesRoutes; }

}  // namespace trainyard::api
