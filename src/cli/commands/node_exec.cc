#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/console.h"
#include "cli/exit.h"
#include "cli/interrupt.h"
#include "cli/run_names.h"

namespace trainyard::cli {
namespace {

constexpr Option kNodeExecRows[] = {
    {"--run -r", Takes::value, "RUN", "The run on whose nodes."},
    {"--target -n --name", Takes::value, "NAME",
     "The compute, or the machine that has joined; for an admin."},
    {"--node", Takes::value, "NODE",
     "On this node, by name, of a run also by number; may be repeated."},
    {"--all", Takes::nothing, "", "On all of them: of a run else the first, of a compute always."},
    {"--timeout", Takes::value, "TIME", "End it after so long; else 60 s."},
    {"--wait", Takes::value, "TIME", "For room on a busy node of a compute; else 10 s."},
};

constexpr int kWait = 1;          // For news of one; then it is looked whether Ctrl-C was pressed.
constexpr seconds kTakenMax{30};  // From our asking to a supervisor that has begun.

// A command on one node, as far as we have read what it prints.
struct Part {
  std::string exec;
  std::string name;
  uint64_t from = 0;
  std::string line;  // Without its end yet.
  std::optional<int> code;
};
struct Parts {
  std::vector<Part> parts;
  bool in_turn = false;  // Begun as there is room for them, with no limit to that.
};

Result<int> node_number(const std::string& given, const std::vector<std::string>& names) {
  const auto named = std::find(names.begin(), names.end(), given);
  if (named != names.end()) return static_cast<int>(named - names.begin());
  if (const Result<int64_t> number = parse_int(given, "--node")) return static_cast<int>(*number);
  return fail(ErrorKind::not_found, "--node " + given + ": the run has no such node",
              names.empty() ? "" : "Its nodes: " + join(names, ", ") + ".");
}

std::vector<std::string> node_names(const Json& run) {
  std::vector<std::string> names;
  for (const Json& name : run.value("nodes", Json::array())) {
    if (name.is_string()) names.push_back(name.get<std::string>());
  }
  return names;
}

Result<Parts> ask_run(Context& context, Json body) {
  const Args& args = context.args();
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const RunId id, find_run(context, args.value("run")));
  TRY_SET(const Json run, api->run(id));
  const std::vector<std::string> names = node_names(run);
  std::vector<int> numbers;
  for (const std::string& given : args.values("node")) {
    TRY_SET(const int number, node_number(given, names));
    if (std::ranges::find(numbers, number) == numbers.end()) numbers.push_back(number);
  }
  if (numbers.empty()) numbers.push_back(0);
  if (args.has("all")) body["all"] = true;
  Parts asked;
  for (const int number : numbers) {
    body["node"] = number;
    TRY_SET(const Json items, api->exec("runs/" + http::encode_url(cell_of(run, "id")), body));
    for (const Json& item : items) {
      const auto node = item.value("node", size_t{0});
      const bool known = node < names.size();
      asked.parts.push_back({.exec = cell_of(item, "exec"),
                             .name = known ? names[node] : "node " + std::to_string(node),
                             .line = {}});
    }
  }
  return asked;
}

Result<Parts> ask_compute(Context& context, Json body) {
  const Args& args = context.args();
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const std::string workspace, context.workspace());
  if (args.has("node")) {
    std::vector<std::string> nodes = args.values("node");
    std::ranges::sort(nodes);
    const auto again = std::ranges::unique(nodes);
    nodes.erase(again.begin(), again.end());
    body["nodes"] = nodes;
  }
  if (args.has("wait")) {
    TRY_SET(const seconds wait, parse_duration(args.value("wait"), "--wait"));
    body["waitSeconds"] = wait.count();
  }
  const std::string name = args.value("target");
  const Result<Json> items = api->exec(
      "workspaces/" + http::encode_url(workspace) + "/computes/" + http::encode_url(name), body);
  if (!items) return std::unexpected(items.error());
  Parts asked{.parts = {}, .in_turn = true};
  for (const Json& item : *items) {
    asked.parts.push_back(
        {.exec = cell_of(item, "exec"), .name = cell_of(item, "name"), .line = {}});
  }
  return asked;
}

Result<Parts> ask_target(Context& context, const Json& body) {
  const Args& args = context.args();
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const std::string workspace, context.workspace());
  TRY_SET(const Json machines, api->machines(workspace));
  const std::string name = args.value("target");
  for (const Json& machine : machines) {
    if (cell_of(machine, "name") != name) continue;
    if (args.has("node") || args.has("wait")) {
      return fail(ErrorKind::invalid, "--node and --wait are for the nodes of a compute");
    }
    TRY_SET(const Json items, api->exec("machines/" + cell_of(machine, "key"), body));
    Parts asked;
    asked.parts.push_back({.exec = cell_of(items.at(0), "exec"), .name = name, .line = {}});
    return asked;
  }
  return ask_compute(context, body);
}

// Whole lines, each after the node's name where there are several.
Status print_part(Part& part, std::string_view bytes, bool named, bool last) {
  if (!named) return write_output(STDOUT_FILENO, bytes);
  part.line.append(bytes);
  std::string text;
  size_t begin = 0;
  for (size_t end = part.line.find('\n'); end != std::string::npos;
       end = part.line.find('\n', begin)) {
    text += "[" + part.name + "] " + part.line.substr(begin, end + 1 - begin);
    begin = end + 1;
  }
  part.line.erase(0, begin);
  if (last && !part.line.empty())
    text += "[" + part.name + "] " + std::exchange(part.line, {}) + "\n";
  return write_output(STDOUT_FILENO, text);
}

// Of an error that keeps it from its own end, its kind has an exit code too.
Status take(Part& part, const client::Api::ExecPart& got, bool named) {
  part.from = got.next;
  part.code = got.exit_code;
  TRY(print_part(part, got.bytes, named, part.code.has_value()));
  if (!got.error) return {};
  if (part.code == kExitOk) part.code = exit_code(got.error->kind);
  Error error = *got.error;
  if (named) error.message = "[" + part.name + "] " + error.message;
  return write_output(STDERR_FILENO, format_error(error));
}

Result<int> follow(Context& context, Parts asked) {
  TRY_SET(client::Api * api, context.api());
  std::atomic<bool> interrupted = false;
  const Interrupts interrupts([&] { interrupted = true; }, [] {});
  const bool named = asked.parts.size() > 1;
  const SteadyTime begun = context.clock().steady();
  int code = kExitOk;
  size_t left = asked.parts.size();
  while (left > 0) {
    for (Part& part : asked.parts) {
      if (part.code) continue;
      if (interrupted) {
        for (const Part& each : asked.parts) {
          if (!each.code) TRY(api->stop_exec(each.exec));
        }
        return kExitInterrupted;
      }
      TRY_SET(const auto got, api->exec_output(part.exec, part.from, kWait));
      TRY(take(part, got, named));
      if (part.code) {
        --left;
        if (code == kExitOk) code = *part.code;
      } else if (!got.taken && !asked.in_turn && context.clock().steady() - begun > kTakenMax) {
        return fail(ErrorKind::unavailable,
                    part.name + ": nobody there took the command within 30 s",
                    "Is the run past its start, and of a version that knows of it?");
      }
    }
  }
  return code;
}

}  // namespace

constinit const std::span<const Option> kNodeExecOptions = kNodeExecRows;

Result<int> node_exec(Context& context) {
  const Args& args = context.args();
  if (args.has("run") == args.has("target")) {
    return fail(ErrorKind::invalid, "on which nodes?",
                "Those of a run, with -r RUN, or of a compute or a machine that has joined, with "
                "-n NAME.");
  }
  if (args.has("all") && args.has("node")) {
    return fail(ErrorKind::invalid, "--node is one, --all is all of them");
  }
  if (args.has("run") && args.has("wait")) {
    return fail(ErrorKind::invalid, "--wait is for the nodes of a compute",
                "Beside a run of yours a command needs no room of its own.");
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
    TRY_SET(Parts parts, ask_run(context, std::move(body)));
    return follow(context, std::move(parts));
  }
  TRY_SET(Parts parts, ask_target(context, body));
  return follow(context, std::move(parts));
}

}  // namespace trainyard::cli
