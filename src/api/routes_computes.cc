#include "api/route.h"
#include "api/targets.h"
#include "store/computes.h"
#include "store/vm_sizes.h"
#include "store/workspaces.h"

namespace trainyard::api {
namespace {

// What a spec may say and nobody does yet is refused: nobody is to find a setting that does
// nothing.
Status check_built(const ComputeSpec& spec) {
  const auto later = [](std::string_view what) {
    return fail(ErrorKind::invalid, std::string(what) + " comes with a later version");
  };
  if (!spec.ssh.empty()) return later("--ssh, a cluster behind a login node,");
  if (!spec.node_up.empty() || !spec.node_down.empty()) return later("--node-up and --node-down");
  if (spec.min_nodes > 0) return later("--min-nodes: bringing nodes up and down");
  return {};
}

// Nodes talk to us over the network.
Status check_reachable(const Facts& facts) {
  if (!facts.loopback) return {};
  return fail(ErrorKind::invalid,
              "the nodes of a cluster cannot reach this server: it listens on loopback alone, at " +
                  facts.url,
              "Start it where they can: trainyard server run --listen HOST:PORT --tls-cert FILE "
              "--tls-key FILE");
}

std::string_view workspace_in(const Call& call) { return call.request.param("workspace"); }
std::string_view compute_in(const Call& call) { return call.request.param("compute"); }

// What of a target is not its settings. It is ready or paused; its nodes are the engine's to know.
void add_state(Json& json, const store::TargetRuns& runs) {
  json["state"] = json["paused"] == true ? "paused" : "ready";
  json["queued"] = runs.queued;
  json["live"] = runs.live;
}

Result<Json> shown(db::Db& db, const Compute& compute) {
  const std::string queue = queue_of({.workspace = compute.workspace, .target = compute.spec.name});
  TRY_SET(const store::TargetRuns runs, store::count_runs_on(db, queue));
  Json json = wire::compute_to_json(compute);
  add_state(json, runs);
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
      TRY_SET(Json json, shown(db, compute));
      items.push_back(std::move(json));
    }
    return {};
  };
  TRY(call.house.store.read(look));
  return answer_page(window, items.size(), [&](size_t i) { return items[i]; });
}

Result<http::Response> create_compute(const Call& call) {
  TRY_SET(const Json body, body_object(call.request));
  TRY_SET(const ComputeSpec spec, wire::decode_compute_spec(body));
  TRY(check_compute(spec));
  TRY(check_built(spec));
  TRY(check_reachable(call.house.facts));
  store::ComputeMade made;
  Json json;
  const auto change = [&](db::Transaction& transaction) -> Status {
    TRY_SET(made, store::insert_compute(transaction, workspace_in(call), spec, call.identity.user,
                                        call.house.clock.wall()));
    TRY_SET(json, shown(transaction.db(), made.compute));
    return {};
  };
  TRY(call.house.store.write(Durable::yes, change));
  if (call.house.targets != nullptr) TRY(call.house.targets->open(made.compute));
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
    TRY_SET(json, shown(db, compute));
    return {};
  };
  TRY(call.house.store.read(look));
  return answer(json);
}

// Answers with the compute as `act` leaves it.
template <class Act>
Result<http::Response> change_one(const Call& call, Act&& act) {
  TRY(check_not_local(call));
  Json json;
  Compute compute;
  const auto change = [&](db::Transaction& transaction) -> Status {
    TRY_SET(compute, act(transaction));
    TRY_SET(json, shown(transaction.db(), compute));
    return {};
  };
  TRY(call.house.store.write(Durable::yes, change));
  if (call.house.targets != nullptr) TRY(call.house.targets->open(compute));
  return answer(json);
}

Result<http::Response> change_compute(const Call& call) {
  TRY_SET(const Json body, body_object(call.request));
  return change_one(call, [&](db::Transaction& transaction) -> Result<Compute> {
    TRY_SET(const Compute changed,
            store::change_compute(transaction, workspace_in(call), compute_in(call), body));
    TRY(check_built(changed.spec));
    return changed;
  });
}

Result<http::Response> set_paused(const Call& call, bool paused) {
  return change_one(call, [&](db::Transaction& transaction) {
    return store::pause_compute(transaction, workspace_in(call), compute_in(call), paused);
  });
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
constexpr RouteRow kRoutes[] = {
    {get, "/api/v1/workspaces/{workspace}/computes", Needs::reader, Attempts::refused,
     list_computes, "Lists the targets of a workspace: 'local', then those that were made.",
     "limit cursor"},
    {post, "/api/v1/workspaces/{workspace}/computes", Needs::admin, Attempts::refused,
     create_compute, "Makes a compute. The same again is 200, another of its name 409."},
    {get, "/api/v1/workspaces/{workspace}/computes/{compute}", Needs::reader, Attempts::refused,
     show_compute, "Shows a compute: settings, state, runs queued and live."},
    {patch, "/api/v1/workspaces/{workspace}/computes/{compute}", Needs::admin, Attempts::refused,
     change_compute, "Changes those settings of a compute that the body names."},
    {del, "/api/v1/workspaces/{workspace}/computes/{compute}", Needs::admin, Attempts::refused,
     delete_compute, "Deletes a compute; refused while a run waits or is live there."},
    {post, "/api/v1/workspaces/{workspace}/computes/{compute}/pause", Needs::admin,
     Attempts::refused, pause_compute, "Places nothing new there; what is live goes on."},
    {post, "/api/v1/workspaces/{workspace}/computes/{compute}/resume", Needs::admin,
     Attempts::refused, resume_compute, "Places runs there again."},
    {get, "/api/v1/sizes", Needs::reader, Attempts::allowed, list_sizes,
     "Lists the sizes of machines: CPUs, memory, GPUs, price.", "limit cursor"},
    {put, "/api/v1/sizes/{size}", Needs::admin, Attempts::refused, set_size,
     "Makes a size, or changes what the body names of it."},
    {del, "/api/v1/sizes/{size}", Needs::admin, Attempts::refused, delete_size,
     "Deletes a size; refused while a compute has it."},
};

}  // namespace

std::span<const RouteRow> compute_routes() { return kRoutes; }

}  // namespace trainyard::api
