#include "engine/slurm/job_script.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/slurm/batch.h"
#include "engine/slurm/queue_text.h"

namespace trainyard::engine {
std::string_view embedded(std::string_view name);
}  // namespace trainyard::engine

namespace trainyard::engine::slurm {
namespace {

// Code and data, before the run's own limit begins to count; at most as long as that limit, so that
// a short run asks for little and is backfilled.
constexpr seconds kStagingMax{600};
constexpr int64_t kMegabyte = 1024 * 1024;

int nice_of(Priority priority) {
  switch (priority) {
    case Priority::low:
      return 1000;
    case Priority::normal:
      return 100;
    case Priority::high:
      return 0;
  }
  return 0;
}

int64_t minutes_of(seconds time) { return (time.count() + 59) / 60; }

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("_-+=./:,@%").find(c) != std::string_view::npos;
}

// A line break would end the #SBATCH line, and what follows be run: check_compute() refuses them,
// and here they are blanks should one have come through.
std::string one_line(std::string_view text) {
  std::string line(text);
  std::ranges::replace_if(line, [](char c) { return c == '\n' || c == '\r' || c == '\0'; }, ' ');
  return line;
}

std::string variable(std::string_view name, std::string_view value) {
  return fmt::format("{}={}\n", name, shell_quoted(value));
}

std::string whose(const JobPlan& plan) {
  return variable("ty_run", plan.attempt.run.value) +
         variable("ty_attempt", std::to_string(plan.attempt.number)) +
         variable("ty_ticket", plan.ticket);
}

// User code is not to know of the array: what it does must not depend on who else waited.
std::string pick_by_place(const std::vector<JobPlan>& plans) {
  std::string text = "case ${SLURM_ARRAY_TASK_ID-} in\n";
  for (size_t i = 0; i < plans.size(); ++i) {
    text += fmt::format("{})\n{};;\n", i, whose(plans[i]));
  }
  text += fmt::format("*) exit {} ;;\n", static_cast<int>(ScriptExit::refused));
  return text + "esac\nunset ${!SLURM_ARRAY_*}\n";
}

}  // namespace

JobPlan plan_job(const Assignment& assignment, const ComputeSpec& compute, std::string_view owner,
                 seconds partition_limit) {
  const RunSpec& spec = assignment.spec;
  JobPlan plan;
  plan.attempt = assignment.id();
  plan.owner = owner;
  plan.server_url = assignment.server_url;
  plan.ticket = assignment.token;
  plan.nodes = spec.nodes;
  plan.resources = spec.resources;
  plan.priority = spec.priority;
  if (spec.time_limit_s > 0) {
    const seconds own(spec.time_limit_s);
    seconds limit = own + std::min(own, kStagingMax) + seconds(spec.grace_s) + kSignalLead;
    if (partition_limit > seconds(0) && own <= partition_limit) {
      limit = std::min(limit, partition_limit);
    }
    plan.minutes = minutes_of(limit);
  }
  plan.partition = compute.partition;
  plan.account = compute.account;
  plan.qos = compute.qos;
  plan.sbatch = compute.sbatch;
  plan.setup = compute.setup;
  plan.shared = compute.shared_folder;
  return plan;
}

std::string shelf_of(std::string_view owner, const AttemptId& attempt, int node) {
  std::string name(owner);
  std::ranges::replace(name, '/', '.');
  return fmt::format("trainyard-{}/{}.{}", name, attempt.str(), node);
}

std::string shell_quoted(std::string_view text) {
  if (!text.empty() && std::ranges::all_of(text, is_plain)) return std::string(text);
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'') {
      quoted += "'\\''";
    } else if (c != '\0') {
      quoted += c;
    }
  }
  return quoted + "'";
}

std::string sbatch_quoted(std::string_view text) {
  if (!text.empty() && std::ranges::all_of(text, is_plain)) return std::string(text);
  std::string quoted = "\"";
  for (const char c : one_line(text)) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

std::string job_script(const std::vector<JobPlan>& plans) {
  const JobPlan& plan = plans.front();
  std::vector<AttemptId> attempts;
  for (const JobPlan& one : plans) attempts.push_back(one.attempt);
  std::string text = "#!/bin/bash\n";
  const auto option = [&](std::string_view name, std::string_view value) {
    if (!value.empty()) text += fmt::format("#SBATCH --{}={}\n", name, sbatch_quoted(value));
  };
  // Nothing of Slurm's lands in anybody's home; what a node has to say is in its exit code.
  option("output", "/dev/null");
  option("open-mode", "append");
  option("chdir", "/");
  option("partition", plan.partition);
  option("account", plan.account);
  option("qos", plan.qos);
  for (const std::string& line : plan.sbatch) text += "#SBATCH " + one_line(line) + "\n";

  option("job-name", name_of(attempts));
  option("comment", comment_of(plan.owner, attempts));
  if (plans.size() > 1) option("array", fmt::format("0-{}", plans.size() - 1));
  option("nodes", std::to_string(plan.nodes));
  option("ntasks-per-node", "1");
  option("cpus-per-task", std::to_string(std::max(plan.resources.cpus, 1)));
  if (plan.resources.memory_bytes > 0) {
    const int64_t megabytes = (plan.resources.memory_bytes + kMegabyte - 1) / kMegabyte;
    option("mem", std::to_string(megabytes) + "M");
  }
  if (plan.resources.gpus > 0) option("gres", "gpu:" + std::to_string(plan.resources.gpus));
  if (plan.minutes > 0) option("time", std::to_string(plan.minutes));
  option("nice", std::to_string(nice_of(plan.priority)));
  option("signal", fmt::format("B:TERM@{}", kSignalLead.count()));
  text += "#SBATCH --no-requeue\n\n";

  text += plans.size() > 1 ? pick_by_place(plans) : whose(plan);
  text += variable("ty_server", plan.server_url);
  text += variable("ty_says_where", plan.says_where ? "1" : "");
  text += variable("ty_nodes", std::to_string(plan.nodes));
  text += variable("ty_cpus", std::to_string(std::max(plan.resources.cpus, 1)));
  text += variable("ty_sha256", plan.program_sha256);
  text += variable("ty_path", plan.program_path);
  text += variable("ty_scratch", plan.scratch);
  text += variable("ty_shared", plan.shared);
  text += variable("ty_owner", plan.owner);
  text += variable("ty_keep", plan.keep);
  text += variable("ty_patience", std::to_string(plan.reach_patience.count()));
  text += variable("ty_setup", plan.setup);
  text += variable("ty_ca", plan.ca_pem);
  text += "\n";
  text += embedded("slurm_job.bash");
  return text;
}

}  // namespace trainyard::engine::slurm
