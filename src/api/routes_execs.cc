#include <algorithm>

#include "api/machines.h"
#include "api/route.h"
#include "api/shells.h"
#include "api/targets.h"
#include "base/text.h"
#include "store/computes.h"
#include "store/machines.h"
#include "store/workspaces.h"

namespace trainyard::api {
namespace {

constexpr int64_t kTimeoutDefault = 60;
constexpr int64_t kTimeoutMax = 24 * 3600;
constexpr size_t kWordsMax = 10'000;
constexpr int64_t kWaitDefault = 10;  // For room on a node of a cluster.
constexpr size_t kNamesInWords = 20;
constexpr size_t kOutputBodyMax = 2 << 20;

Result<Execs::Wanted> wanted_in(const Call& call, const Json& body) {
  Execs::Wanted wanted{.by = call.identity.user};
  TRY_SET(wanted.timeout_s, wire::int_member(body, "timeoutSeconds", kTimeoutDefault));
  if (wanted.timeout_s < 1 || wanted.timeout_s > kTimeoutMax) {
    return fail(ErrorKind::invalid, "timeoutSeconds must be between 1 and a day");
  }
  const auto command = body.find("command");
  if (command == body.end() || !command->is_array() || command->empty() ||
      command->size() > kWordsMax) {
    return fail(ErrorKind::invalid, "command: must be a list of words");
  }
  for (const Json& word : *command) {
    if (!word.is_string() || word.get<std::string>().find('\0') != std::string::npos) {
      return fail(ErrorKind::invalid, "command: must be a list of words");
    }
    wanted.command.push_back(word.get<std::string>());
  }
  if (wanted.command.front().empty()) return fail(ErrorKind::invalid, "command: is empty");
  return wanted;
}

// Its supervisor takes the command once its ranks are begun: a run that prints already may not have
// said yet that it runs.
Status check_has_nodes(const Run& run) {
  const RunStatus status = run.life.status;
  if (status == RunStatus::preparing || status == RunStatus::starting ||
      (status == RunStatus::running && run.life.attempt > 0)) {
    return {};
  }
  return fail(ErrorKind::conflict, "run " + run.id.value + " is " + std::string(to_string(status)) +
                                       ": it has no node to run a command on");
}

Result<http::Response> exec_in_run(const Call& call) {
  TRY_SET(const RunId id, writable_run(call));
  TRY_SET(const Json body, body_object(call.request));
  TRY_SET(Execs::Wanted wanted, wanted_in(call, body));
  TRY_SET(const int64_t node, wire::int_member(body, "node", 0));
  TRY_SET(const bool all, wire::bool_member(body, "all"));
  TRY_SET(const Run run, call.house.control->run(id));
  if (!run.spec.host.empty() && run.user != call.identity.user) {
    return fail(ErrorKind::denied, "run " + id.value + " is on " + run.user +
                                       "'s own machine: only they run commands there");
  }
  TRY(check_has_nodes(run));
  if (!all && (node < 0 || node >= run.spec.nodes)) {
    return fail(ErrorKind::invalid, "the run has no node " + std::to_string(node),
                "Its nodes are numbered from 0 to " + std::to_string(run.spec.nodes - 1) + ".");
  }
  Json items = Json::array();
  for (int i = 0; i < run.spec.nodes; ++i) {
    if (!all && i != node) continue;
    wanted.place = Execs::place_of({id, run.life.attempt}, i);
    TRY_SET(const std::string exec, call.house.execs.add(wanted, call.house.clock.steady()));
    items.push_back({{"exec", exec}, {"node", i}});
  }
  call.house.log.info("command on nodes", {{"run", id.value}, {"by", call.identity.user}});
  call.house.server->notify(House::state_key(id));
  return answer({{"items", items}, {"next", nullptr}}, 201);
}

Result<http::Response> exec_on_machine(const Call& call) {
  TRY_SET(const Machine machine, load_machine(call.house.store, call.request.param("machine")));
  if (machine.personal && machine.owner != call.identity.user) {
    return fail(ErrorKind::denied, "the machine is " + machine.owner + "'s own");
  }
  TRY_SET(const Json body, body_object(call.request));
  TRY_SET(Execs::Wanted wanted, wanted_in(call, body));
  const auto engine =
      call.house.machines != nullptr ? call.house.machines->find(machine.key) : nullptr;
  if (!engine || engine->absence()) {
    return fail(ErrorKind::unavailable,
                engine ? engine->absence_words() : "machine " + machine.name + " is not there");
  }
  wanted.place = Execs::place_of(machine.key);
  TRY_SET(const std::string exec, call.house.execs.add(wanted, call.house.clock.steady()));
  call.house.log.info("command on machine",
                      {{"machine", machine.name}, {"by", call.identity.user}});
  call.house.server->notify(House::machine_key(machine.key));
  Json items = Json::array();
  items.push_back({{"exec", exec}, {"node", 0}});
  return answer({{"items", items}, {"next", nullptr}}, 201);
}

// ---- the nodes of a cluster ----

Result<std::vector<std::string>> names_in(const Json& body) {
  std::vector<std::string> names;
  const auto given = body.find("nodes");
  if (given == body.end()) return names;
  if (!given->is_array() || given->size() > kWordsMax) {
    return fail(ErrorKind::invalid, "nodes: must be a list of names");
  }
  for (const Json& name : *given) {
    if (!name.is_string()) return fail(ErrorKind::invalid, "nodes: must be a list of names");
    names.push_back(name.get<std::string>());
  }
  return names;
}

// Those that were named, or all that are up.
Result<std::vector<std::string>> nodes_for(engine::NodeShell& shell, const Compute& compute,
                                           const std::vector<std::string>& asked) {
  TRY_SET(const std::vector<engine::NodeShell::Named> there, shell.nodes());
  std::vector<std::string> known;
  std::vector<std::string> up;
  for (const engine::NodeShell::Named& node : there) {
    known.push_back(node.name);
    if (!node.off) up.push_back(node.name);
  }
  if (asked.empty() && up.empty()) {
    return fail(ErrorKind::unavailable, "no node of '" + compute.spec.name + "' is up",
                known.empty() ? "" : "They are brought up when a run needs them.");
  }
  for (const std::string& name : asked) {
    if (std::ranges::find(known, name) != known.end()) continue;
    if (known.size() > kNamesInWords) known.resize(kNamesInWords);
    return fail(
        ErrorKind::not_found, "'" + compute.spec.name + "' has no node '" + name + "'",
        "Its nodes: " + join(known, ", ") + (there.size() > known.size() ? ", …" : "") + ".");
  }
  return asked.empty() ? up : asked;
}

Result<Compute> compute_of(const Call& call) {
  const std::string_view workspace = call.request.param("workspace");
  const std::string_view name = call.request.param("compute");
  Compute compute;
  const auto look = [&](db::Db& db) -> Status {
    TRY(store::load_workspace(db, workspace));
    TRY_SET(compute, store::load_compute(db, workspace, name));
    return {};
  };
  if (name == kLocalQueue) {
    return fail(ErrorKind::invalid, "'local' is this machine: run the command itself");
  }
  TRY(call.house.store.read(look));
  return compute;
}

Result<http::Response> exec_on_compute(const Call& call) {
  TRY_SET(const Compute compute, compute_of(call));
  TRY_SET(const Json body, body_object(call.request));
  TRY_SET(Execs::Wanted wanted, wanted_in(call, body));
  TRY_SET(const std::vector<std::string> asked, names_in(body));
  TRY_SET(const int64_t wait, wire::int_member(body, "waitSeconds", kWaitDefault));
  if (wait < 1 || wait > kTimeoutMax) {
    return fail(ErrorKind::invalid, "waitSeconds must be between 1 and a day");
  }
  const auto shell = call.house.targets != nullptr ? call.house.targets->shell(compute) : nullptr;
  if (!shell) {
    return fail(ErrorKind::unavailable, "'" + compute.spec.name + "' cannot run commands now");
  }
  TRY_SET(const std::vector<std::string> nodes, nodes_for(*shell, compute, asked));
  wanted.place = Execs::place_of_compute(compute.workspace, compute.spec.name);
  Json items = Json::array();
  std::vector<Shells::Job> jobs;
  for (const std::string& node : nodes) {
    TRY_SET(const std::string exec, call.house.execs.add(wanted, call.house.clock.steady()));
    jobs.push_back({exec, node, seconds(wait)});
    items.push_back({{"exec", exec}, {"node", items.size()}, {"name", node}});
  }
  call.house.log.info("command on nodes",
                      {{"compute", compute.spec.name}, {"by", call.identity.user}});
  call.house.shells->start(shell, wanted.place, jobs);
  return answer({{"items", items}, {"next", nullptr}}, 201);
}

Status check_own(const Call& call, const Execs::Part& part) {
  if (part.by == call.identity.user || call.identity.role == Role::admin) return {};
  return fail(ErrorKind::denied, "the command is " + part.by + "'s");
}

// What it printed from an offset on; with the end of it its exit code.
Result<http::Response> read_exec(const Call& call) {
  const std::string_view id = call.request.param("exec");
  TRY_SET(const int64_t from, query_number(call.request, "from", 0));
  TRY_SET(const Execs::Part part, call.house.execs.read(id, static_cast<uint64_t>(from)));
  TRY(check_own(call, part));
  if (part.bytes.empty() && !part.over) {
    TRY_SET(const auto until, may_wait_until(call));
    if (until) return http::Response::parked(House::exec_key(id), *until);
  }
  http::Response response = http::Response::text(part.bytes);
  response.headers["x-next"] = std::to_string(part.next);
  response.headers["x-taken"] = part.taken ? "1" : "0";
  if (part.over) response.headers["x-exit-code"] = std::to_string(part.code);
  if (part.error) {
    response.headers["x-error"] = http::encode_url(wire::dump(wire::error_to_json(*part.error)));
  }
  return response;
}

Result<http::Response> stop_exec(const Call& call) {
  const std::string_view id = call.request.param("exec");
  TRY_SET(const Execs::Part part, call.house.execs.read(id, UINT64_MAX));
  TRY(check_own(call, part));
  TRY(call.house.execs.stop(id));
  return no_content();
}

// ---- who is on the node ----

Result<std::string> place_in(const Call& call) {
  if (call.identity.attempt) {
    TRY_SET(const int64_t node, query_number(call.request, "node", 0, {0, INT32_MAX}));
    return Execs::place_of(*call.identity.attempt, static_cast<int>(node));
  }
  TRY_SET(const Machine machine, load_machine(call.house.store, call.request.param("machine")));
  const bool own = call.identity.machine ? *call.identity.machine == machine.id
                                         : machine.personal && machine.owner == call.identity.user;
  if (own) return Execs::place_of(machine.key);
  return fail(ErrorKind::denied, "this is for machine " + machine.name + " alone");
}

Result<http::Response> take_exec(const Call& call) {
  TRY_SET(const std::string place, place_in(call));
  TRY_SET(const Execs::Wanted wanted, call.house.execs.take(call.request.param("exec"), place));
  call.house.server->notify(House::exec_key(call.request.param("exec")));
  return answer({{"command", wanted.command}, {"timeoutSeconds", wanted.timeout_s}});
}

Result<http::Response> append_output(const Call& call) {
  TRY_SET(const std::string place, place_in(call));
  const std::string_view id = call.request.param("exec");
  TRY_SET(const int64_t from, query_number(call.request, "from", 0));
  TRY_SET(const int64_t code, query_number(call.request, "exit", -1, {-1, 255}));
  const SteadyTime now = call.house.clock.steady();
  TRY_SET(const uint64_t size,
          call.house.execs.append(id, place, static_cast<uint64_t>(from), call.request.body, now));
  if (code >= 0) TRY(call.house.execs.end(id, place, static_cast<int>(code), now));
  call.house.server->notify(House::exec_key(id));
  return answer({{"size", size}, {"stop", call.house.execs.stopped(id)}});
}

using enum http::Method;
constexpr RouteRow kExecsRoutes[] = {
    {post, "/api/v1/runs/{id}/exec", Needs::submitter, Attempts::refused, exec_in_run,
     "Runs a command on a run's nodes: {\"command\", \"node\" or \"all\", \"timeoutSeconds\"}."},
    {post, "/api/v1/machines/{machine}/exec", Needs::admin, Attempts::refused, exec_on_machine,
     "Runs a command on a machine that has joined: {\"command\", \"timeoutSeconds\"}."},
    {post, "/api/v1/workspaces/{workspace}/computes/{compute}/exec", Needs::admin,
     Attempts::refused, exec_on_compute,
     "Runs a command on nodes of a compute: {\"command\", \"nodes\", \"timeoutSeconds\", "
     "\"waitSeconds\"}; without nodes on all that are up."},
    {get, "/api/v1/execs/{exec}", Needs::submitter, Attempts::refused, read_exec,
     "What such a command printed; with its end x-exit-code.", "from wait"},
    {del, "/api/v1/execs/{exec}", Needs::submitter, Attempts::refused, stop_exec,
     "Ends such a command."},
    {post, "/api/v1/runs/{id}/attempts/{n}/execs/{exec}/take", Needs::attempt, Attempts::allowed,
     take_exec, "A supervisor takes a command to run.", "node"},
    {post, "/api/v1/runs/{id}/attempts/{n}/execs/{exec}/output", Needs::attempt, Attempts::allowed,
     append_output, "What it prints, and at last its exit code.", "node from exit", kOutputBodyMax},
    {post, "/api/v1/machines/{machine}/execs/{exec}/take", Needs::machine, Attempts::refused,
     take_exec, "A machine takes a command to run."},
    {post, "/api/v1/machines/{machine}/execs/{exec}/output", Needs::machine, Attempts::refused,
     append_output, "What it prints, and at last its exit code.", "from exit", kOutputBodyMax},
};

}  // namespace

std::span<const RouteRow> exec_routes() { return kExecsRoutes; }

}  // namespace trainyard::api
