#include <algorithm>

#include "api/machines.h"
#include "api/route.h"
#include "base/text.h"
#include "store/computes.h"
#include "store/machines.h"
#include "wire/machines.h"

namespace trainyard::api {
namespace {

constexpr int64_t kTokenLife = 24 * 3600;  // Of a one-time token, where nothing else is said.
constexpr int64_t kTokenLifeMax = 365LL * 24 * 3600;
constexpr size_t kReportMax = 8 << 20;

// The machine itself, or whose own it is.
bool is_own(const Call& call, const Machine& machine) {
  if (call.identity.machine) return *call.identity.machine == machine.id;
  return machine.personal && machine.owner == call.identity.user;
}

Status check_own(const Call& call, const Machine& machine) {
  if (is_own(call, machine)) return {};
  return fail(ErrorKind::denied, "this is for machine " + machine.name + " alone");
}

Json shown(const Call& call, const Machine& machine) {
  Json json = wire::machine_to_json(machine);
  const std::shared_ptr<engine::Joined> engine =
      call.house.machines != nullptr ? call.house.machines->find(machine.key) : nullptr;
  json["state"] = engine && !engine->absence() ? "ready" : "away";
  if (const auto silence = engine ? engine->silence() : std::nullopt) {
    json["heardAt"] = format_time(call.house.clock.wall() - *silence);
  }
  const control::Control::Load load = call.house.control->load(queue_of(machine));
  json["queued"] = load.queued;
  json["live"] = load.live;
  json["reason"] = engine ? engine->absence_words() : "";
  return json;
}

// ---- joining ----

Result<http::Response> create_node_token(const Call& call) {
  TRY_SET(const Json body, body_object(call.request));
  store::NewNodeToken wanted{.by = call.identity.user, .secret = new_secret("tyn_")};
  TRY_SET(wanted.workspace, wire::string_member(body, "workspace", "default"));
  TRY_SET(wanted.name, wire::string_member(body, "name"));
  TRY_SET(wanted.label, wire::string_member(body, "label"));
  TRY_SET(const int64_t life, wire::int_member(body, "expiresInSeconds", kTokenLife));
  if (life < 1 || life > kTokenLifeMax) {
    return fail(ErrorKind::invalid, "expiresInSeconds must be between 1 and a year");
  }
  const WallTime now = call.house.clock.wall();
  wanted.expires = now + seconds(life);
  // It ends with the token that makes it, at the latest.
  wanted.parent = call.identity.token;
  if (call.identity.expires) wanted.expires = std::min(wanted.expires, *call.identity.expires);
  Json json;
  const auto change = [&](db::Transaction& transaction) -> Status {
    TRY_SET(const Token token, store::insert_node_token(transaction, wanted, now));
    json = wire::token_to_json(token);
    return {};
  };
  TRY(call.house.store.write(Durable::yes, change));
  json["name"] = wanted.name;
  json["workspace"] = wanted.workspace;
  json["token"] = wanted.secret;
  return answer(json, 201);
}

Result<MachineFacts> facts_in(const Json& body) {
  const auto facts = body.find("facts");
  if (facts == body.end()) return fail(ErrorKind::invalid, "facts: is missing");
  return wire::decode_machine_facts(*facts);
}

Result<http::Response> join(const Call& call) {
  TRY_SET(const Json body, body_object(call.request));
  store::Joining joining{.token = *call.identity.node_token,
                         .credential = new_secret(store::kMachinePrefix)};
  TRY_SET(joining.uid, wire::string_member(body, "uid"));
  TRY_SET(joining.name, wire::string_member(body, "name"));
  TRY_SET(joining.facts, facts_in(body));
  store::JoinedMachine joined;
  const auto change = [&](db::Transaction& transaction) -> Status {
    TRY_SET(joined, store::join_machine(transaction, joining, call.house.clock.wall()));
    return {};
  };
  TRY(call.house.store.write(Durable::yes, change));
  if (call.house.machines != nullptr) call.house.machines->open(joined.machine);
  call.house.log.info("machine joined", {{"name", joined.machine.name},
                                         {"host", joined.machine.facts.host},
                                         {"by", joined.machine.owner}});
  Json json = shown(call, joined.machine);
  json["credential"] = joining.credential;
  return answer(json, joined.made ? 201 : 200);
}

// A person's own machine, whose `local` it is.
Result<http::Response> own_machine(const Call& call) {
  TRY_SET(const Json body, body_object(call.request));
  TRY_SET(const std::string uid, wire::string_member(body, "uid"));
  TRY_SET(const MachineFacts facts, facts_in(body));
  Machine machine;
  const auto change = [&](db::Transaction& transaction) -> Status {
    TRY_SET(machine, store::personal_machine(transaction, call.identity.user, uid, facts,
                                             call.house.clock.wall()));
    return {};
  };
  TRY(call.house.store.write(Durable::yes, change));
  if (call.house.machines != nullptr) call.house.machines->open(machine);
  return answer(shown(call, machine));
}

// ---- working ----

// A machine asks for orders and says what it holds; parked until there are new ones.
Result<http::Response> poll(const Call& call) {
  TRY_SET(const Machine machine, load_machine(call.house.store, call.request.param("machine")));
  TRY(check_own(call, machine));
  TRY_SET(const Json body, body_object(call.request));
  TRY_SET(const MachineReport report, wire::decode_machine_report(body));
  const std::shared_ptr<engine::Joined> engine =
      call.house.machines != nullptr ? call.house.machines->find(machine.key) : nullptr;
  if (!engine) return fail(ErrorKind::unavailable, "the machine's target is not open");
  TRY(call.house.machines->take(machine, *engine, report));
  std::optional<MachineOrders> orders = engine->orders(report);
  std::vector<std::string> execs = call.house.execs.pending(Execs::place_of(machine.key));
  if (!orders && !Execs::all_known(execs, trainyard::join(report.execs, ",")))
    orders = engine->orders();
  if (orders) {
    orders->execs = std::move(execs);
    return answer(wire::encode(*orders));
  }
  TRY_SET(const auto until, may_wait_until(call));
  if (until) return http::Response::parked(House::machine_key(machine.key), *until);
  return no_content();
}

// ---- looking and leaving ----

Result<http::Response> list(const Call& call) {
  TRY_SET(const Window window, window_of(call.request));
  const std::string_view workspace = call.request.query_or("workspace", "");
  std::vector<Machine> machines;
  const auto look = [&](db::Db& db) -> Status {
    TRY_SET(machines, store::all_machines(db));
    return {};
  };
  TRY(call.house.store.read(look));
  TRY_SET(const auto closed, closed_workspaces(call.house, call.identity));
  std::erase_if(machines, [&](const Machine& machine) {
    if (machine.personal) return machine.owner != call.identity.user;
    const auto is_its = [&](const auto& one) { return one.name == machine.workspace; };
    if (std::ranges::any_of(closed, is_its)) return true;
    return !workspace.empty() && machine.workspace != workspace;
  });
  return answer_page(window, machines.size(), [&](size_t i) { return shown(call, machines[i]); });
}

Result<http::Response> show(const Call& call) {
  TRY_SET(const Machine machine, load_machine(call.house.store, call.request.param("machine")));
  if (call.identity.role != Role::admin) TRY(check_own(call, machine));
  return answer(shown(call, machine));
}

Result<http::Response> remove(const Call& call) {
  TRY_SET(const int64_t force, query_number(call.request, "force", 0, {0, 1}));
  TRY_SET(const Machine machine, load_machine(call.house.store, call.request.param("machine")));
  if (call.identity.role != Role::admin) TRY(check_own(call, machine));
  const auto change = [&](db::Transaction& transaction) {
    return store::delete_machine(transaction, machine,
                                 force == 1 ? store::Force::yes : store::Force::no);
  };
  TRY(call.house.store.write(Durable::yes, change));
  const bool left = call.identity.machine.has_value();
  if (call.house.machines != nullptr) {
    call.house.machines->close(machine,
                               "machine " + machine.name + (left ? " has left" : " was removed"));
  }
  call.house.log.info("machine removed", {{"name", machine.name}, {"by", call.identity.user}});
  return no_content();
}

using enum http::Method;
constexpr RouteRow kMachinesRoutes[] = {
    {post, "/api/v1/node-tokens", Needs::admin, Attempts::refused, create_node_token,
     "Makes a one-time token for a machine to join with: {\"workspace\", \"name\", \"label\", "
     "\"expiresInSeconds\"}; its secret is shown this once."},
    {post, "/api/v1/machines", Needs::node_token, Attempts::refused, join,
     "Joins a machine, which becomes a target: {\"uid\", \"name\", \"facts\"}; its credential is "
     "shown this once."},
    {post, "/api/v1/machines/own", Needs::submitter, Attempts::refused, own_machine,
     "The machine of the one who asks, whose 'local' it is: {\"uid\", \"facts\"}."},
    {get, "/api/v1/machines", Needs::reader, Attempts::refused, list,
     "Lists the machines that have joined, and one's own.", "workspace limit cursor"},
    {get, "/api/v1/machines/{machine}", Needs::machine, Attempts::refused, show,
     "Shows a machine, to itself, its owner and admins."},
    {del, "/api/v1/machines/{machine}", Needs::machine, Attempts::refused, remove,
     "A machine leaves, or is removed by an admin; refused while a run waits or is live there, "
     "unless with force=1.",
     "force"},
    {post, "/api/v1/machines/{machine}/poll", Needs::machine, Attempts::refused, poll,
     "Takes what a machine holds and answers its orders, once there are new ones.", "wait",
     kReportMax},
};

}  // namespace

std::span<const RouteRow> machine_routes() { return kMachinesRoutes; }

// `local` is the machine where the command was typed: the server's own only for who is there.
Status settle_target(const Call& call, RunSpec& spec) {
  if (spec.interactive) return {};
  bool inside = false;  // A run on the server's machine submits to where it is.
  if (call.identity.attempt && spec.target == kLocalQueue && spec.host.empty()) {
    TRY_SET(const Run parent, call.house.store.run(call.identity.attempt->run));
    if (parent.spec.target == kLocalQueue) spec.host = parent.spec.host;
    inside = queue_of(parent.spec) == kLocalQueue;
  }
  if (!spec.host.empty()) {
    if (spec.target != kLocalQueue) return fail(ErrorKind::invalid, "host: is for 'local' alone");
    Machine machine;
    const auto look = [&](db::Db& db) -> Status {
      TRY_SET(machine, store::load_machine(db, spec.host));
      return {};
    };
    TRY(call.house.store.read(look));
    if (machine.personal && machine.owner == call.identity.user) return {};
    return fail(ErrorKind::denied, "host: machine " + machine.name + " is not yours");
  }
  if (call.house.facts.server_target || inside) return {};
  const std::string queue = queue_of(spec);
  const bool slots = call.house.control->load(queue).capacity.slots > 0;
  if (queue != kLocalQueue && !slots) return {};
  if (spec.target == kLocalQueue && call.request.peer.unix_socket) return {};
  return fail(ErrorKind::denied,
              "the server's own machine is switched off as a target: it listens beyond itself",
              "Send the run elsewhere with --target NAME; an admin allows it with: trainyard "
              "server run --allow-server-target");
}

}  // namespace trainyard::api
