#include "cli/compute_options.h"

#include "base/text.h"
#include "cli/context.h"
#include "dialects/compute.h"

namespace trainyard::cli {
namespace {

constexpr Option kSettings[] = {
    {"--min-nodes --min-instances", Takes::value, "N", "Nodes that stay up; else 0."},
    {"--max-nodes --max-instances", Takes::value, "N", "Nodes at most; else 1."},
    {"--idle-seconds-before-scaledown --idle-time-before-scale-down", Takes::value, "TIME",
     "How long a node is idle before it goes down: seconds, 30m, 2h."},
    {"--vm-size --size -s", Takes::value, "VMSIZE",
     "What the nodes are, a name of: trainyard compute list-sizes"},
    {"--vm-priority --tier -p", Takes::value, "WORD", "dedicated or low_priority."},
    {"--ssh", Takes::value, "USER@LOGIN", "Where Slurm's commands are; else the server's machine."},
    {"--partition", Takes::value, "TEXT", "Slurm's partition; else its default."},
    {"--account", Takes::value, "TEXT", "Slurm's account."},
    {"--qos", Takes::value, "TEXT", "Slurm's quality of service."},
    {"--sbatch", Takes::value, "OPTION",
     "An option of sbatch for every job, as in --sbatch=--gres=gpu:1; may be given again."},
    {"--setup", Takes::value, "TEXT",
     "Shell lines that run on a node before a run, or @FILE that holds them."},
    {"--outage-limit", Takes::value, "TIME",
     "A node that cannot reach the server for so long stops its run (default: 12h)."},
    {"--unsent-wait", Takes::value, "TIME",
     "A job that is done waits for so long to send what is left (default: 15m)."},
    {"--shared-folder", Takes::value, "DIR",
     "A folder of nodes and server, for what a job could not send; empty: none."},
    {"--node-up", Takes::value, "CMD",
     "The program that brings a node up; it gets the node's name as its argument."},
    {"--node-down", Takes::value, "CMD", "The program that takes a node down, likewise."},
};

Result<std::string> text_or_file(const std::string& value) {
  if (!value.starts_with('@')) return value;
  TRY_SET(std::string text, read_file(value.substr(1)));
  return text;
}

// The server runs it, in a folder of its own.
Status check_program(std::string_view what, const std::string& command) {
  const std::string program = command.substr(0, command.find(' '));
  if (program.empty() || program.starts_with('/')) return {};
  return fail(ErrorKind::invalid, std::string(what) + " " + program + ": must be an absolute path",
              "It runs on the server's machine, as the server's user.");
}

Status set_numbers(const Args& args, ComputeSpec& spec) {
  TRY_SET(const std::optional<int> low, int_option(args, "min-nodes", 0));
  TRY_SET(const std::optional<int> high, int_option(args, "max-nodes", 1));
  spec.min_nodes = low.value_or(spec.min_nodes);
  spec.max_nodes = high.value_or(spec.max_nodes);
  const std::pair<std::string_view, int64_t*> times[] = {
      {"idle-seconds-before-scaledown", &spec.idle_seconds},
      {"outage-limit", &spec.outage_seconds},
      {"unsent-wait", &spec.unsent_seconds}};
  for (const auto& [key, into] : times) {
    if (!args.has(key)) continue;
    TRY_SET(const seconds time, parse_duration(args.value(key), "--" + std::string(key)));
    *into = time.count();
  }
  return {};
}

}  // namespace

constinit const std::span<const Option> kComputeSettings = kSettings;

bool has_settings(const Args& args) {
  for (const Option& option : kSettings) {
    if (args.has(option.key())) return true;
  }
  return false;
}

Result<ComputeSpec> with_settings(const Args& args, ComputeSpec spec) {
  TRY(set_numbers(args, spec));
  const std::pair<std::string_view, std::string*> texts[] = {{"vm-size", &spec.vm_size},
                                                             {"ssh", &spec.ssh},
                                                             {"partition", &spec.partition},
                                                             {"account", &spec.account},
                                                             {"qos", &spec.qos},
                                                             {"setup", &spec.setup},
                                                             {"shared-folder", &spec.shared_folder},
                                                             {"node-up", &spec.node_up},
                                                             {"node-down", &spec.node_down}};
  for (const auto& [key, into] : texts) {
    if (args.has(key)) *into = args.value(key);
  }
  if (args.has("setup")) {
    TRY_SET(spec.setup, text_or_file(spec.setup));
  }
  if (args.has("vm-priority")) {
    auto priority = dialects::vm_priority_from(args.value("vm-priority"));
    TRY_WITHIN("--vm-priority", priority);
    spec.vm_priority = *std::move(priority);
  }
  if (args.has("sbatch")) {
    spec.sbatch.clear();
    for (const std::string& line : args.values("sbatch")) {
      if (!line.empty()) spec.sbatch.push_back(line);
    }
  }
  TRY(check_program("--node-up", spec.node_up));
  TRY(check_program("--node-down", spec.node_down));
  return spec;
}

wire::Json changes_between(const ComputeSpec& before, const ComputeSpec& after) {
  const wire::Json have = wire::encode(before);
  const wire::Json want = wire::encode(after);
  wire::Json changes = wire::Json::object();
  for (const auto& [key, value] : want.items()) {
    if (have[key] != value) changes[key] = value;
  }
  return changes;
}

}  // namespace trainyard::cli
