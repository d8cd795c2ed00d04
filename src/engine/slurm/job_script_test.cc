#include "engine/slurm/job_script.h"

#include <doctest/doctest.h>

#include "base/text.h"
#include "engine/slurm/program.h"

using namespace trainyard;
using namespace trainyard::engine::slurm;

namespace {

JobPlan plan_of(const std::string& run = "calm-fox-x7k2m9qd") {
  JobPlan plan;
  plan.attempt = {RunId{run}, 2};
  plan.owner = "srv1/3";
  plan.server_url = "http://10.0.0.1:8470";
  plan.ticket = "tyh_secret";
  return plan;
}

std::string head_of(const std::string& script) { return script.substr(0, script.find("\n\n") + 1); }

ProgramEnd bash(const std::string& text, const std::vector<std::string>& arguments = {}) {
  ProgramOptions options;
  options.command = {"/bin/bash", "-s"};
  if (!arguments.empty()) options.command = {"/bin/bash"};
  for (const std::string& argument : arguments) options.command.push_back(argument);
  options.environment = {{"PATH", "/usr/bin:/bin"}};
  options.input = text;
  return run_program(options).value();
}

const std::vector<std::string> kNasty = {"plain",
                                         "",
                                         " ",
                                         "a b",
                                         "it's",
                                         "say \"hi\"",
                                         "back\\slash\\",
                                         "$HOME $(touch /tmp/never) `id`",
                                         "a;b&c|d<e>f(g)h{i}j*k?l[m]n!o~p#q",
                                         "#start",
                                         "ünï\xf0\x9f\x9a\x82",
                                         "-dash",
                                         "tab\there",
                                         "'\"'\"'"};

}  // namespace

TEST_CASE("a job asks Slurm for what the run asks for, and says who it is") {
  JobPlan plan = plan_of();
  plan.nodes = 4;
  plan.resources = {.cpus = 8, .memory_bytes = (int64_t{3} << 30) + 1, .gpus = 2};
  plan.priority = Priority::low;
  plan.minutes = 90;
  plan.partition = "gpu";
  plan.account = "lab";
  plan.qos = "long";
  plan.sbatch = {"--constraint=fast", "--gres=gpu:a100:1"};
  CHECK(head_of(job_script(plan)) ==
        "#!/bin/bash\n"
        "#SBATCH --output=/dev/null\n"
        "#SBATCH --open-mode=append\n"
        "#SBATCH --chdir=/\n"
        "#SBATCH --partition=gpu\n"
        "#SBATCH --account=lab\n"
        "#SBATCH --qos=long\n"
        "#SBATCH --constraint=fast\n"
        "#SBATCH --gres=gpu:a100:1\n"
        "#SBATCH --job-name=ty-calm-fox-x7k2m9qd.2\n"
        "#SBATCH --comment=trainyard:srv1/3:calm-fox-x7k2m9qd.2\n"
        "#SBATCH --nodes=4\n"
        "#SBATCH --ntasks-per-node=1\n"
        "#SBATCH --cpus-per-task=8\n"
        "#SBATCH --mem=3073M\n"
        "#SBATCH --gres=gpu:2\n"
        "#SBATCH --time=90\n"
        "#SBATCH --nice=1000\n"
        "#SBATCH --signal=B:TERM@90\n"
        "#SBATCH --no-requeue\n");
}

TEST_CASE("what a run does not ask for is left to the cluster") {
  const std::string head = head_of(job_script(plan_of()));
  for (const char* option : {"--mem", "--gres", "--time", "--partition", "--account", "--qos"}) {
    CAPTURE(option);
    CHECK(head.find(option) == std::string::npos);
  }
  CHECK(head.find("--nice=100\n") != std::string::npos);
}

TEST_CASE("Slurm's limit leaves time to stage and to end, within the partition's") {
  Assignment assignment;
  assignment.run = "r";
  assignment.spec.grace_s = 30;
  const auto minutes = [&](int64_t limit_s, seconds partition) {
    assignment.spec.time_limit_s = limit_s;
    return plan_job(assignment, {}, "srv1/3", partition).minutes;
  };
  CHECK(minutes(0, seconds(0)) == 0);
  CHECK(minutes(60, seconds(0)) == 4);
  CHECK(minutes(3600, seconds(0)) == 72);
  CHECK(minutes(3600, std::chrono::hours(24)) == 72);
  CHECK(minutes(3600, std::chrono::minutes(60)) == 60);
  CHECK(minutes(3600, std::chrono::minutes(30)) == 72);  // For Slurm to refuse.
}

TEST_CASE("any text is one word of a shell and one value of an option") {
  for (const std::string& text : kNasty) {
    CAPTURE(text);
    CHECK(bash("printf %s " + shell_quoted(text)).output == text);
  }
  CHECK(sbatch_quoted("a-b_c.d:e/f") == "a-b_c.d:e/f");
  CHECK(sbatch_quoted("a b") == "\"a b\"");
  CHECK(sbatch_quoted("say \"hi\" \\ #x") == "\"say \\\"hi\\\" \\\\ #x\"");
  CHECK(sbatch_quoted("two\nlines") == "\"two lines\"");
}

TEST_CASE("no value of a target or run makes a line of its own") {
  for (std::string text : kNasty) {
    text += "\ntouch /tmp/never\n#SBATCH --uid=root\n'";
    CAPTURE(text);
    JobPlan plan = plan_of();
    plan.partition = plan.account = plan.qos = plan.server_url = plan.ticket = text;
    plan.sbatch = {"--constraint=" + text};
    plan.setup = plan.scratch = plan.program_path = plan.ca_pem = text;
    const std::string script = job_script(plan);
    for (const std::string& line : split(head_of(script), '\n')) {
      const bool ours = line.empty() || line == "#!/bin/bash" || line.starts_with("#SBATCH --");
      CHECK_MESSAGE(ours, line);
      CHECK_FALSE(line.starts_with("#SBATCH --uid"));
    }
    const ProgramEnd read = bash(script, {"-n"});
    CHECK_MESSAGE(read.exit_code == 0, read.errors);
    // Up to where it begins to do things, the script sets variables and nothing else.
    std::string vars = script.substr(0, script.find("\nty_exit_no_tool="));
    CHECK(bash(vars + "\nprintf '%s' \"$ty_setup\"").output == text);
    CHECK(bash(vars + "\nprintf '%s' \"$ty_server\"").output == text);
  }
}

TEST_CASE("the numbers by which a script ends are the same on both sides") {
  const std::string script = job_script(plan_of());
  struct Row {
    const char* name;
    ScriptExit code;
  };
  for (const Row& row :
       {Row{"no_tool", ScriptExit::no_tool}, Row{"unreachable", ScriptExit::unreachable},
        Row{"bad_program", ScriptExit::bad_program}, Row{"refused", ScriptExit::refused},
        Row{"no_folder", ScriptExit::no_folder}, Row{"setup", ScriptExit::setup},
        Row{"no_srun", ScriptExit::no_srun}, Row{"stopped", ScriptExit::stopped},
        Row{"not_executable", ScriptExit::not_executable}}) {
    const std::string line =
        "ty_exit_" + std::string(row.name) + "=" + std::to_string(static_cast<int>(row.code));
    CHECK_MESSAGE(script.find(line) != std::string::npos, line);
  }
}
