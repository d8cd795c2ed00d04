#include <unistd.h>

#include <algorithm>

#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/console.h"
#include "cli/exit.h"

namespace trainyard::cli {
namespace {

constexpr Option kOptions[] = {
    {"--run -r", Takes::value, "RUN", "The run on whose nodes."},
    {"--target -n --name", Takes::value, "NAME", "The machine that has joined; for an admin."},
    {"--node", Takes::value, "NODE",
     "Which of the run's nodes, by number or name; else the first."},
    {"--all", Takes::nothing, "", "On all of them, each line after its node's name."},
    {"--timeout", Takes::value, "TIME", "End it after so long; else 60 s."},
};

constexpr int kWait = 20;
constexpr seconds kTakenMax{30};  // From our asking to a supervisor that has begun.

// A command on one node, as far as we have read what it prints.
struct Part {
  std::string exec;
  std::string name;
  uint64_t from = 0;
  std::string line;  // Without its end yet.
  std::optional<int> code;
};

Result<int> node_number(const std::string& given, const std::vector<std::string>& names) {
  const auto named = std::find(names.begin(), names.end(), given);
  if (named != names.end()) return static_cast<int>(named - names.begin());
  if (const Result<int64_t> number = parse_int(given, "--node")) return static_cast<int>(*number);
  return fail(ErrorKind::not_found, "--node " + given + ": the run has no such node",
              names.empty() ? "" : "Its nodes: " + join(names, ", ") + ".");
}

std::vector<std::string> names_of(const Json& run) {
  std::vector<std::string> names;
  for (const Json& name : run.value("nodes", Json::array())) {
    if (name.is_string()) names.push_back(name.get<std::string>());
  }
  return names;
}

Result<std::vector<Part>> ask_run(Context& context, Json body) {
  const Args& args = context.args();
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const Json run, api->run(RunId{args.value("run")}));
  const std::vector<std::string> names = names_of(run);
  if (args.has("node")) {
    TRY_SET(body["node"], node_number(args.value("node"), names));
  }
  if (args.has("all")) body["all"] = true;
  TRY_SET(const Json items, api->exec("runs/" + http::encode_url(cell_of(run, "id")), body));
  std::vector<Part> parts;
  for (const Json& item : items) {
    const auto node = item.value("node", size_t{0});
    parts.push_back({.exec = cell_of(item, "exec"),
                     .name = node < names.size() ? names[node] : "node " + std::to_string(node),
                     .line = {}});
  }
  return parts;
}

Result<std::vector<Part>> ask_machine(Context& context, const Json& body) {
  const Args& args = context.args();
  if (args.has("node")) return fail(ErrorKind::invalid, "--node is for a run's nodes");
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const std::string workspace, context.workspace());
  TRY_SET(const Json machines, api->machines(workspace));
  const std::string name = args.value("target");
  for (const Json& machine : machines) {
    if (cell_of(machine, "name") != name) continue;
    TRY_SET(const Json items, api->exec("machines/" + cell_of(machine, "key"), body));
    return std::vector<Part>{{.exec = cell_of(items.at(0), "exec"), .name = name, .line = {}}};
  }
  return fail(ErrorKind::not_found, "no machine '" + name + "' has joined",
              "On the nodes of a cluster a command runs beside a run of theirs: -r RUN. Machines "
              "are listed by: trainyard node list");
}

// Whole lines, each after the node's name where there are several.
Status print_part(Part& part, std::string_view bytes, bool named, bool last) {
  if (!named) return write_output(STDOUT_FILENO, bytes);
  part.line.append(bytes);
  std::string text;
  size_t begin = 0;
  for (size_t end = part.line.find('\n'); end != std::string::npos;
       end = part.line.find('\n', begin)) {
    text += part.name + ": " + part.line.substr(begin, end + 1 - begin);
    begin = end + 1;
  }
  part.line.erase(0, begin);
  if (last && !part.line.empty()) text += part.name + ": " + std::exchange(part.line, {}) + "\n";
  return write_output(STDOUT_FILENO, text);
}

Result<int> follow(Context& context, std::vector<Part> parts) {
  TRY_SET(client::Api * api, context.api());
  const bool named = parts.size() > 1;
  const SteadyTime asked = context.clock().steady();
  int code = kExitOk;
  size_t left = parts.size();
  while (left > 0) {
    for (Part& part : parts) {
      if (part.code) continue;
      // Of several none is waited for long: another may have something to say.
      TRY_SET(const auto got, api->exec_output(part.exec, part.from, named ? 1 : kWait));
      part.from = got.next;
      part.code = got.exit_code;
      TRY(print_part(part, got.bytes, named, part.code.has_value()));
      if (part.code) {
        --left;
        if (code == kExitOk) code = *part.code;
      } else if (!got.taken && context.clock().steady() - asked > kTakenMax) {
        return fail(ErrorKind::unavailable,
                    part.name + ": nobody there took the command within 30 s",
                    "Is the run past its start, and of a version that knows of it?");
      }
    }
  }
  return code;
}

}  // namespace

constinit const std::span<const Option> kNodeExecOptions = kOptions;

Result<int> node_exec(Context& context) {
  const Args& args = context.args();
  if (args.has("run") == args.has("target")) {
    return fail(ErrorKind::invalid, "on which nodes?",
                "Those of a run, with -r RUN, or a machine that has joined, with -n NAME.");
  }
  if (args.has("all") && args.has("node")) {
    return fail(ErrorKind::invalid, "--node is one, --all is all of them");
  }
  Json body = {{"command", args.rest()}};
  if (args.rest().empty()) {
    return fail(ErrorKind::invalid, "no command to run",
                "Put it after --, as in: trainyard node exec -r RUN -- nvidia-smi");
  }
  if (args.has("timeout")) {
    TRY_SET(const seconds timeout, parse_duration(args.value("timeout"), "--timeout"));
    body["timeoutSeconds"] = timeout.count();
  }
  if (args.has("run")) {
    TRY_SET(std::vector<Part> parts, ask_run(context, std::move(body)));
    return follow(context, std::move(parts));
  }
  TRY_SET(std::vector<Part> parts, ask_machine(context, body));
  return follow(context, std::move(parts));
}

}  // namespace trainyard::cli
