#include "engine/slurm/reasons.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "engine/slurm/job_script.h"

namespace trainyard::engine::slurm {
namespace {

constexpr std::chrono::hours kEstimateMax{24 * 30};  // Beyond it Slurm guesses from missing limits.

std::string count_of(int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

// "1 idle of 6, 5 in use"
std::string shares(const Numbers& numbers) {
  std::string text = fmt::format("{} idle of {}", numbers.idle, numbers.total);
  if (numbers.in_use > 0) text += fmt::format(", {} in use", numbers.in_use);
  if (numbers.off > 0) text += fmt::format(", {} down or drained", numbers.off);
  return text;
}

// What of a job goes into the words of its reason: {nodes} "4 nodes", {shares} ": 1 idle of 6",
// {where} "partition gpu", {reason} the code itself.
struct Row {
  std::string_view code;  // A whole code, or with '*' its beginning.
  std::string_view words;
  bool never = false;  // It will not start by itself.
};
constexpr bool kNever = true;

// One list of all that Slurm may wait for.
constexpr Row kRows[] = {
    {"None", "waits for Slurm to look at it"},
    {"Resources", "waits for {nodes}{shares}"},
    {"Priority", "waits for {nodes}, after jobs of a higher priority{shares}"},
    {"Dependency", "waits for another job that it depends on"},
    {"DependencyNeverSatisfied", "depends on a job that did not end as it should", kNever},
    {"BeginTime", "waits for the time it is to begin at"},
    {"JobHeldUser", "is held: 'scontrol release' lets it go"},
    {"JobHeldAdmin", "is held by an administrator of the cluster"},
    {"JobHoldMaxRequeue", "is held: it was put back too often", kNever},
    {"Licenses", "waits for a license that is in use"},
    {"Reservation", "waits for its reservation to begin"},
    {"ReservationDeleted", "asks for a reservation that was deleted", kNever},
    {"InvalidAccount", "asks for an account that is not valid", kNever},
    {"AccountNotAllowed", "its account may not use {where}", kNever},
    {"InvalidQOS", "asks for a quality of service that is not valid", kNever},
    {"QOSNotAllowed", "its quality of service may not use {where}", kNever},
    {"PartitionDown", "waits for {where}, which is down"},
    {"PartitionInactive", "waits for {where}, which is switched off"},
    {"PartitionNodeLimit", "asks for {nodes}, and {where} does not give so many{shares}", kNever},
    {"PartitionTimeLimit", "asks for more time than {where} allows", kNever},
    {"PartitionConfig", "asks for what no node of {where} has", kNever},
    {"BadConstraints", "asks for what no node of the cluster has", kNever},
    {"NodeDown", "waits for a node that is down{shares}"},
    {"Nodes_required_*", "waits for {nodes}; some are down, drained or kept for others{shares}"},
    {"Nodes required *", "waits for {nodes}; some are down, drained or kept for others{shares}"},
    {"ReqNodeNotAvail*", "waits for nodes that are not to be had ({reason}){shares}"},
    {"Prolog", "its nodes are being made ready"},
    {"JobArrayTaskLimit", "waits for others of its array"},
    {"Cleaning", "waits until it has been cleaned up after"},
    {"FrontEndDown", "waits for a front end that is down"},
    {"BurstBuffer*", "waits for a burst buffer ({reason})"},
    {"AssocGrp*", "the account is at its limit for all its jobs together ({reason})"},
    {"AssocMax*", "the user is at a limit of that account ({reason})"},
    {"AssociationJobLimit", "the account is at its limit of jobs"},
    {"AssociationResourceLimit", "the account is at its limit of resources"},
    {"AssociationTimeLimit", "the account is at its limit of time"},
    {"QOSGrp*", "the quality of service is at its limit for all its jobs together ({reason})"},
    {"QOSMax*", "the user is at a limit of the quality of service ({reason})"},
    {"QOSMin*", "asks for less than its quality of service wants ({reason})"},
    {"QOSJobLimit", "the quality of service is at its limit of jobs"},
    {"QOSResourceLimit", "the quality of service is at its limit of resources"},
    {"QOSTimeLimit", "the quality of service is at its limit of time"},
    {"QOSUsageThreshold", "the quality of service has used up its share"},
    {"MaxGRESPerAccount", "the account is at its limit of GPUs and the like"},
    {"SystemFailure", "waits after a failure of the system"},
};

const Row* row_of(std::string_view reason) {
  const auto fits = [&](const Row& row) {
    if (!row.code.ends_with('*')) return row.code == reason;
    return reason.starts_with(row.code.substr(0, row.code.size() - 1));
  };
  const auto* const found = std::ranges::find_if(kRows, fits);
  return found == std::end(kRows) ? nullptr : found;
}

std::string clock_words(WallTime when, WallTime now) {
  const std::string text = format_time(when);  // 2026-11-15T08:39:53.000123Z
  const std::string time = text.substr(11, 5) + " UTC";
  return text.substr(0, 10) == format_time(now).substr(0, 10) ? time
                                                              : text.substr(0, 10) + " " + time;
}

std::string expected(const Job& job, WallTime now) {
  if (!job.start || *job.start <= now || *job.start - now > kEstimateMax) return {};
  return "; Slurm expects it to start at " + clock_words(*job.start, now);
}

// A job script that was told to stop by Slurm says so by its code; whether for the time limit shows
// in how long it ran. Slurm looks at limits once a minute.
bool ran_to_its_limit(const Job& job) {
  if (!job.limit || !job.start || !job.end) return false;
  return *job.end - *job.start >= *job.limit - kSignalLead - std::chrono::minutes(2);
}

Ending failed(const Job& job, std::string_view server_url) {
  const std::string on = job.node_list.empty() ? "" : " on " + job.node_list;
  switch (static_cast<ScriptExit>(job.exit_code)) {
    case ScriptExit::stopped:
      // A cancel is CANCELLED, a node's failure NODE_FAIL, whatever the script exits with.
      if (!ran_to_its_limit(job)) {
        return {"Slurm took its nodes back" + on + ": it was preempted, or sent a SIGTERM", true,
                true};
      }
      return {"its time in Slurm was over (limit " + format_duration(*job.limit) + ")", false,
              true};
    case ScriptExit::no_tool:
      return {"its node" + on + " has none of curl, wget, python3 to reach " +
              std::string(server_url)};
    case ScriptExit::unreachable:
      return {"its node could not reach the server at " + std::string(server_url) + on};
    case ScriptExit::bad_program:
      return {"what its node got as trainyard-node from " + std::string(server_url) +
              " is not what it should be"};
    case ScriptExit::refused:
      return {"the server at " + std::string(server_url) + " did not give its node the assignment"};
    case ScriptExit::no_folder:
      return {"its node has no folder to work in" + on};
    case ScriptExit::setup:
      return {"the target's setup text failed" + on};
    case ScriptExit::no_srun:
      return {"its first node has no srun" + on};
    case ScriptExit::not_executable:
      return {"trainyard-node does not run" + on};
    case ScriptExit::unsent:
      return {
          "the server was away when it was done, for longer than its job waits: how it ended, and "
          "what it had not sent yet, is lost" +
          on};
    case ScriptExit::shelved:
      return {
          "the server was away when it was done; what it had not sent is in the compute's shared "
          "folder, and could not be collected"};
  }
  return {fmt::format("its Slurm job {} failed with code {}{}", job.id(), job.exit_code, on)};
}

}  // namespace

Numbers count_nodes(const std::vector<Node>& nodes, std::string_view partition) {
  Numbers numbers;
  for (const Node& node : nodes) {
    if (partition.empty() ? !node.default_partition : node.partition != partition) continue;
    ++numbers.total;
    if (node.in_use()) {
      ++numbers.in_use;
    } else if (node.idle()) {
      ++numbers.idle;
    } else {
      ++numbers.off;
    }
  }
  return numbers;
}

std::string words_for(const Job& job, const Numbers& numbers, WallTime now, bool has_setup) {
  switch (phase_of(job.state)) {
    case Phase::waiting:
      break;
    case Phase::running:
      if (job.state == "CONFIGURING" || job.state == "POWER_UP_NODE") {
        return "Slurm makes its nodes ready: " + job.node_list;
      }
      if (job.state == "SUSPENDED" || job.state == "STOPPED") return "is suspended by Slurm";
      return "Slurm started it on " + job.node_list +
             (has_setup ? "; the target's setup runs there"
                        : "; its supervisor has not reported yet");
    case Phase::ending:
    case Phase::ended:
      return "its Slurm job has ended: " + job.state;
  }
  const Row* row = row_of(job.reason);
  if (row == nullptr) return "waits: Slurm says " + job.reason + expected(job, now);
  return fmt::format(fmt::runtime(row->words), fmt::arg("nodes", count_of(job.nodes, "node")),
                     fmt::arg("shares", numbers.known() ? ": " + shares(numbers) : ""),
                     fmt::arg("where", "partition " + job.partition),
                     fmt::arg("reason", job.reason)) +
         expected(job, now);
}

bool is_never(std::string_view reason) {
  const Row* row = row_of(reason);
  return row != nullptr && row->never;
}

bool is_for_nodes(std::string_view reason) {
  // Slurm compares what is asked for with nodes it may not have seen yet: hence the last two.
  constexpr std::string_view kBeginnings[] = {"None",
                                              "Resources",
                                              "Priority",
                                              "NodeDown",
                                              "Nodes_required_",
                                              "Nodes required ",
                                              "ReqNodeNotAvail",
                                              "PartitionConfig",
                                              "BadConstraints"};
  return reason.empty() || std::ranges::any_of(kBeginnings, [&](std::string_view beginning) {
           return reason.starts_with(beginning);
         });
}

Ending ending_of(const Job& job, std::string_view server_url) {
  const std::string on = job.node_list.empty() ? "" : " on " + job.node_list;
  const std::string id = fmt::format("its Slurm job {}", job.id());
  if (job.state == "PREEMPTED") {
    return {"Slurm gave its nodes to another job (PREEMPTED)", true, true};
  }
  if (job.state == "NODE_FAIL") return {"a node of it failed" + on + " (NODE_FAIL)", true, true};
  if (job.state == "BOOT_FAIL" || job.state == "LAUNCH_FAILED") {
    return {"a node of it did not come up" + on + " (" + job.state + ")", true};
  }
  if (job.state == "TIMEOUT") {
    const std::string limit = job.limit ? " of " + format_duration(*job.limit) : "";
    return {"its time limit in Slurm" + limit + " was over (TIMEOUT)", false, true};
  }
  if (job.state == "DEADLINE") return {"its deadline in Slurm has passed (DEADLINE)", false, true};
  if (job.state == "OUT_OF_MEMORY") return {"it used more memory than it asked for" + on};
  if (job.state == "CANCELLED") {
    return {id + " was cancelled in Slurm (CANCELLED), by its user there or an administrator",
            false, true};
  }
  if (job.state == "FAILED") return failed(job, server_url);
  if (job.state == "COMPLETED") return {id + " has ended"};
  return {id + " has ended: " + job.state};
}

}  // namespace trainyard::engine::slurm
