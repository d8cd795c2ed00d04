#include <unistd.h>

#include <cstdlib>

#include "agent/agent.h"
#include "agent/boot.h"
#include "base/process.h"
#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/exit.h"
#include "cli/machine.h"
#include "cli/quiet.h"
#include "client/machine.h"

namespace trainyard::cli {
namespace {

constexpr Option kJoinOptions[] = {
    {"--name -n", Takes::value, "NAME", "The target's name; else that of this host."},
    {"--token-file", Takes::value, "FILE",
     "The one-time token; else $TRAINYARD_TOKEN, else it is asked for."},
    {"--boot", Takes::nothing, "", "Have it started at boot, by systemd or cron."},
    {"--no-start", Takes::nothing, "", "Do not start it now."},
};
constexpr Option kNodeNames[] = {
    {"--name -n", Takes::value, "NAME", "The machine."},
};
constexpr Option kTokenOptions[] = {
    {"--name -n", Takes::value, "NAME", "The machine must join under this name."},
    {"--label", Takes::value, "TEXT", "What it is for, to know it again in the list."},
    {"--expires", Takes::value, "TIME", "How long it is good for: 1h, 7d; else a day."},
};
constexpr Option kForce[] = {
    {"--force", Takes::nothing, "", "Even while runs are there: live ones fail."},
};

View node_view() {
  return {.table = [](const Json& value) {
    static constexpr std::string_view kKeys[] = {"name", "state",  "host", "cpus",
                                                 "gpus", "queued", "live", "heardAt"};
    return plain_table(value, kKeys);
  }};
}

View joined_view() {
  return {.table = [](const Json& value) {
    static constexpr std::string_view kKeys[] = {"name", "workspace", "server", "pid"};
    return plain_table(value, kKeys);
  }};
}

Result<std::string> read_token(const Context& context) {
  std::string token;
  if (context.args().has("token-file")) {
    TRY_SET(token, read_file(context.args().value("token-file")));
  } else if (const char* given = std::getenv("TRAINYARD_TOKEN"); given != nullptr) {
    token = given;
  } else if (isatty(STDIN_FILENO) == 1) {
    TRY_SET(token, ask_quietly("one-time token: "));
  }
  token = trim(token);
  if (!token.empty()) return token;
  return fail(ErrorKind::invalid, "a one-time token is needed",
              "An admin makes one with: trainyard node token. Give it by TRAINYARD_TOKEN, by "
              "--token-file, or when you are asked.");
}

Result<std::string> server_url(const Context& context) {
  TRY_SET(const Place place, context.place());
  if (!place.remote()) {
    return fail(ErrorKind::invalid, "which server?",
                "As in: trainyard node join --server https://yard.example:8470");
  }
  TRY(http::Address::parse_url(place.url));
  return place.url;
}

// Where this home has joined the server before, and is still welcome.
Result<bool> still_joined(const agent::Place& place) {
  TRY_SET(http::Address address, http::Address::parse_url(place.server));
  http::Client client(std::move(address), place.credential);
  const Result<Json> shown = client::MachineApi(client).show(place.key);
  if (shown) return true;
  const ErrorKind kind = shown.error().kind;
  if (kind == ErrorKind::denied || kind == ErrorKind::not_found) return false;
  return std::unexpected(shown.error());
}

Result<agent::Place> exchange(const Context& context, const Home& home, const std::string& url) {
  TRY_SET(const std::string token, read_token(context));
  TRY_SET(const std::string uid, agent::machine_uid(home));
  TRY_SET(http::Address address, http::Address::parse_url(url));
  http::Client client(std::move(address), token);
  Result<Json> answer =
      client::MachineApi(client).join(uid, context.args().value("name"), agent::machine_facts());
  if (!answer) {
    Error error = answer.error();
    if (error.kind == ErrorKind::denied) {
      error.hint = "An admin makes another with: trainyard node token";
    }
    return std::unexpected(std::move(error));
  }
  const Json& joined = *answer;
  agent::Place place{.folder = agent::place_folder(home, url, ""), .server = url};
  TRY_SET(place.key, wire::string_member(joined, "key"));
  TRY_SET(place.name, wire::string_member(joined, "name"));
  TRY_SET(place.workspace, wire::string_member(joined, "workspace"));
  TRY_SET(place.credential, wire::string_member(joined, "credential"));
  TRY(agent::write_place(place));
  return place;
}

Result<agent::BootPlan> boot_plan(const Home& home, const std::string& server) {
  TRY_SET(const fs::path self, self_path());
  return agent::BootPlan{self, home.root(), server};
}

Result<std::string> chosen_node(const Context& context) {
  const Args& args = context.args();
  std::vector<std::string> names = args.words();
  if (args.has("name")) names.push_back(args.value("name"));
  if (names.size() == 1 && !names.front().empty()) return names.front();
  return fail(ErrorKind::invalid, names.empty() ? "which machine?" : "one machine at a time",
              "They are listed by: trainyard node list");
}

// A machine of the workspace, or one's own, by its name.
Result<Json> find_node(Context& context, client::Api& api) {
  TRY_SET(const std::string name, chosen_node(context));
  TRY_SET(const std::string workspace, context.workspace());
  TRY_SET(const Json nodes, api.machines(workspace));
  std::vector<std::string> names;
  for (const Json& node : nodes) {
    if (cell_of(node, "name") == name) return node;
    names.push_back(cell_of(node, "name"));
  }
  const std::string near = nearest(name, names);
  return fail(
      ErrorKind::not_found, "no machine '" + name + "' has joined",
      near.empty() ? "They are listed by: trainyard node list" : "Did you mean '" + near + "'?");
}

}  // namespace

constinit const std::span<const Option> kNodeJoinOptions = kJoinOptions;
constinit const std::span<const Option> kNodeTokenOptions = kTokenOptions;
constinit const std::span<const Option> kNodeChoice = kNodeNames;
constinit const std::span<const Option> kNodeForce = kForce;

Status print_node_token(Context& context, std::string_view name, std::string_view label) {
  const Args& args = context.args();
  seconds lifetime{0};
  if (args.has("expires")) {
    TRY_SET(lifetime, parse_duration(args.value("expires"), "--expires"));
    if (lifetime <= seconds(0)) return fail(ErrorKind::invalid, "--expires must be in the future");
  }
  TRY_SET(const std::string workspace, context.workspace());
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const Json token, api->create_node_token(workspace, name, label, lifetime.count()));
  TRY(context.print(token, {.table = [](const Json& value) {
                      static constexpr std::string_view kKeys[] = {"id", "expiresAt", "token"};
                      return plain_table(value, kKeys);
                    }}));
  context.say("Keep it now: it is not shown again. It lets one machine join, once.");
  return {};
}

Result<agent::Place> joined_place(const Context& context) {
  TRY_SET(const Place where, context.place());
  std::vector<agent::Place> places = agent::joined_places(where.home);
  if (where.remote()) {
    std::erase_if(places, [&](const agent::Place& one) { return one.server != where.url; });
  }
  if (places.size() == 1) return std::move(places.front());
  if (places.empty()) {
    return fail(ErrorKind::not_found,
                "this machine has not joined " + (where.remote() ? where.url : "a server"),
                "It does with: trainyard node join --server URL");
  }
  std::vector<std::string> urls;
  for (const agent::Place& place : places) urls.push_back(place.server);
  return fail(ErrorKind::invalid, "this machine has joined several servers: which?",
              "Say it with --server: " + join(urls, ", "));
}

Result<int> node_token(Context& context) {
  TRY(print_node_token(context, context.args().value("name"), context.args().value("label")));
  return kExitOk;
}

Result<int> node_join(Context& context) {
  TRY_SET(const std::string url, server_url(context));
  TRY_SET(const Home home, find_home(context.args().value("home")));
  TRY(prepare_home(home));
  const std::string name = context.args().value("name");
  Result<agent::Place> place = agent::read_place(agent::place_folder(home, url, ""));
  bool joined = false;
  if (place && (name.empty() || name == place->name)) {
    TRY_SET(joined, still_joined(*place));
  }
  if (!joined) place = exchange(context, home, url);
  if (!place) return std::unexpected(place.error());
  context.say("this machine " + std::string(joined ? "has joined " : "joins ") + url + " as " +
              place->name);
  bool started = false;
  if (context.args().has("boot")) {
    TRY_SET(const agent::BootPlan plan, boot_plan(home, url));
    TRY_SET(const agent::Booted booted, agent::start_at_boot(plan));
    context.say(booted.words);
    started = booted.started;
  }
  if (!started && !context.args().has("no-start")) {
    TRY(ensure_daemon(home, *place, "", context.clock()));
    context.say("it takes runs now: trainyard submit --target " + place->name);
  }
  TRY(context.print({{"name", place->name},
                     {"workspace", place->workspace},
                     {"server", place->server},
                     {"pid", agent::daemon_of(*place).pid}},
                    joined_view()));
  return kExitOk;
}

Result<int> node_list(Context& context) {
  TRY_SET(const std::string workspace, context.workspace());
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const Json nodes, api->machines(workspace));
  TRY(print_list(context, nodes, node_view()));
  return kExitOk;
}

Result<int> node_show(Context& context) {
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const Json node, find_node(context, *api));
  TRY(context.print(node, any_view()));
  return kExitOk;
}

Result<int> node_leave(Context& context) {
  TRY_SET(const Home home, find_home(context.args().value("home")));
  TRY_SET(const agent::Place place, joined_place(context));
  TRY_SET(http::Address address, http::Address::parse_url(place.server));
  http::Client client(std::move(address), place.credential);
  const Status left = client::MachineApi(client).leave(place.key, context.args().has("force"));
  // One that was removed there before has left.
  const bool gone = !left && (left.error().kind == ErrorKind::denied ||
                              left.error().kind == ErrorKind::not_found);
  if (!left && !gone) return std::unexpected(left.error());
  TRY_SET(const agent::BootPlan plan, boot_plan(home, place.server));
  TRY(agent::forget_boot(plan));
  TRY(stop_daemon(place, context.clock()));
  TRY(remove_tree(place.file()));
  context.say("this machine has left " + place.server);
  return kExitOk;
}

Result<int> node_remove(Context& context) {
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const Json node, find_node(context, *api));
  const std::string name = cell_of(node, "name");
  TRY(context.confirm("Remove the machine " + name + "? It takes no runs any more."));
  TRY(api->remove_machine(cell_of(node, "key"), context.args().has("force")));
  context.say("machine " + name + " is removed");
  return kExitOk;
}

}  // namespace trainyard::cli
