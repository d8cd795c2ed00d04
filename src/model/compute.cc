#include "model/compute.h"

#include <utility>

#include "base/id.h"

namespace trainyard {
namespace {

constexpr int kNodesMax = 100'000;
constexpr int kSlotsMax = 250;  // Each in use is a process or more of one machine.
constexpr int64_t kIdleMax = 365LL * 24 * 3600;
constexpr int64_t kOutageMin = 60;  // Less is a restart of the server, or a busy network.
constexpr int64_t kUnsentMin = 5;
constexpr int64_t kOutageMax = 30LL * 24 * 3600;
constexpr size_t kTextMax = 64 * 1024;

std::unexpected<Error> refuse(std::string message, std::string hint = {}) {
  return fail(ErrorKind::invalid, std::move(message), std::move(hint));
}

// What becomes a line of a job script must stay one.
Status check_line(std::string_view text, std::string_view what) {
  if (text.find_first_of(std::string_view("\n\r\0", 3)) != std::string_view::npos) {
    return refuse(std::string(what) + ": must be one line");
  }
  return {};
}

// What becomes a word of a command must not look like an option, nor hold blanks.
Status check_word(std::string_view text, std::string_view what) {
  if (text.empty()) return {};
  TRY(check_line(text, what));
  if (text.starts_with('-') || text.find_first_of(" \t'\"`$\\;&|<>") != std::string_view::npos) {
    return refuse(std::string(what) + " '" + std::string(text) + "': is not a name");
  }
  return {};
}

Status check_slots(const ComputeSpec& spec) {
  if (const std::string setting = slurm_setting(spec); !setting.empty()) {
    return refuse(setting + ": is a setting of engine slurm, and this compute's is local",
                  "A local compute is slots of the server's machine.");
  }
  if (spec.max_nodes > kSlotsMax) {
    return refuse("a local compute has " + std::to_string(kSlotsMax) + " nodes at most");
  }
  return {};
}

}  // namespace

std::string slurm_setting(const ComputeSpec& spec) {
  const std::pair<const char*, bool> settings[] = {{"ssh", !spec.ssh.empty()},
                                                   {"partition", !spec.partition.empty()},
                                                   {"account", !spec.account.empty()},
                                                   {"qos", !spec.qos.empty()},
                                                   {"sbatch", !spec.sbatch.empty()},
                                                   {"setup", !spec.setup.empty()},
                                                   {"shared folder", !spec.shared_folder.empty()},
                                                   {"node-up", !spec.node_up.empty()},
                                                   {"node-down", !spec.node_down.empty()}};
  for (const auto& [name, set] : settings) {
    if (set) return name;
  }
  return {};
}

Status check_compute(const ComputeSpec& spec) {
  TRY(check_name(spec.name, "compute"));
  if (spec.name == "local" || spec.name == "server") {
    return refuse("'" + spec.name + "' is there from the start", "Choose another name.");
  }
  if (spec.engine != "slurm" && spec.engine != "local") {
    return refuse("engine '" + spec.engine + "' is not known", "Engines: slurm, local.");
  }
  if (spec.engine == "local") TRY(check_slots(spec));
  TRY(check_word(spec.ssh, "ssh"));
  TRY(check_word(spec.partition, "partition"));
  TRY(check_word(spec.account, "account"));
  TRY(check_word(spec.qos, "qos"));
  for (const std::string& line : spec.sbatch) {
    TRY(check_line(line, "sbatch"));
    if (!line.starts_with('-')) {
      return refuse("sbatch '" + line + "': is no option", "As in: --sbatch=--constraint=fast");
    }
  }
  if (spec.setup.size() > kTextMax) return refuse("setup: is longer than 64 kB");
  TRY(check_line(spec.node_up, "node-up"));
  TRY(check_line(spec.node_down, "node-down"));
  if (spec.node_up.empty() != spec.node_down.empty()) {
    return refuse("node-up and node-down go together",
                  "One brings a node up, the other takes it down.");
  }
  if (spec.max_nodes < 1 || spec.max_nodes > kNodesMax)
    return refuse("max nodes must be 1 or more");
  if (spec.min_nodes < 0 || spec.min_nodes > spec.max_nodes) {
    return refuse("min nodes must be 0 to max nodes (" + std::to_string(spec.max_nodes) + ")");
  }
  if (spec.idle_seconds < 0 || spec.idle_seconds > kIdleMax) {
    return refuse("idle seconds are out of range");
  }
  if (spec.outage_seconds < kOutageMin || spec.outage_seconds > kOutageMax) {
    return refuse("outage limit: must be 1 minute to 30 days");
  }
  if (spec.unsent_seconds < kUnsentMin || spec.unsent_seconds > kOutageMax) {
    return refuse("unsent wait: must be 5 seconds to 30 days");
  }
  TRY(check_line(spec.shared_folder, "shared folder"));
  if (!spec.shared_folder.empty() && !spec.shared_folder.starts_with('/')) {
    return refuse("shared folder '" + spec.shared_folder + "': must be an absolute path",
                  "The nodes and the server's machine know it by the same path.");
  }
  if (spec.vm_priority != "dedicated" && spec.vm_priority != "lowpriority") {
    return refuse("priority '" + spec.vm_priority + "' is not known",
                  "Priorities: dedicated, lowpriority.");
  }
  return {};
}

}  // namespace trainyard
