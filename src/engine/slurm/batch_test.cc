#include "engine/slurm/batch.h"

#include <doctest/doctest.h>

#include "engine/slurm/job_script.h"
#include "engine/slurm/program.h"
#include "engine/slurm/queue_text.h"

using namespace trainyard;
using namespace trainyard::engine::slurm;

namespace {

AttemptId id(const std::string& run, int attempt = 1) { return {RunId{run}, attempt}; }

JobPlan plan_of(const std::string& run, int attempt = 1) {
  JobPlan plan;
  plan.attempt = id(run, attempt);
  plan.owner = "srv1/3";
  plan.server_url = "http://10.0.0.1:8470";
  plan.ticket = "tyh_of_" + run;
  return plan;
}

}  // namespace

TEST_CASE("an array's comment names the attempt of every place") {
  const std::vector<AttemptId> attempts{id("calm-fox"), id("my.run.v2", 12), id("c", 3)};
  const std::string comment = comment_of("srv1", attempts);
  CHECK(comment == "trainyard:srv1:calm-fox.1,my.run.v2.12,c.3");
  CHECK(attempts_of(comment, "srv1") == attempts);
  CHECK(attempts_of(comment, "srv2").empty());
  CHECK(attempts_of("trainyard:srv1:a.1,b", "srv1").empty());
  CHECK(attempts_of("", "srv1").empty());
  CHECK(name_of(attempts) == "ty-calm-fox.1+2");
}

TEST_CASE("of one attempt alone, name and comment are those of a lone job") {
  const std::vector<AttemptId> one{id("fox", 2)};
  CHECK(comment_of("srv1", one) == comment_of("srv1", one.front()));
  CHECK(name_of(one) == name_of(one.front()));
  CHECK(attempts_of(comment_of("srv1", one), "srv1") == one);
}

TEST_CASE("jobs are alike that differ in nothing but whose they are") {
  const JobPlan plan = plan_of("a");
  CHECK(are_alike(plan, plan_of("b", 2)));
  const auto differs = [&](auto change) {
    JobPlan other = plan_of("b");
    change(other);
    return !are_alike(plan, other);
  };
  CHECK(differs([](JobPlan& p) { p.nodes = 2; }));
  CHECK(differs([](JobPlan& p) { p.resources.cpus = 2; }));
  CHECK(differs([](JobPlan& p) { p.resources.memory_bytes = 1; }));
  CHECK(differs([](JobPlan& p) { p.resources.gpus = 1; }));
  CHECK(differs([](JobPlan& p) { p.priority = Priority::high; }));
  CHECK(differs([](JobPlan& p) { p.minutes = 5; }));
  CHECK(differs([](JobPlan& p) { p.partition = "spot"; }));
  CHECK(differs([](JobPlan& p) { p.account = "x"; }));
  CHECK(differs([](JobPlan& p) { p.server_url = "http://10.0.0.2:8470"; }));
}

TEST_CASE("an array has room for what its comment may hold, and for one attempt always") {
  ArrayRoom room("srv1");
  std::vector<AttemptId> attempts;
  while (room.take(id("brisk-otter-x7k2m9qd"))) attempts.push_back(id("brisk-otter-x7k2m9qd"));
  CHECK(attempts.size() > 40);
  CHECK(comment_of("srv1", attempts).size() <= 1000);
  ArrayRoom small("srv1");
  int count = 0;
  while (small.take(id("a"))) ++count;
  CHECK(count == 64);
  ArrayRoom big(std::string(900, 's'));
  CHECK(big.take(id(std::string(255, 'r'))));
  CHECK_FALSE(big.take(id("r")));
}

TEST_CASE("places are read as squeue prints them") {
  using Places = std::vector<int>;
  CHECK(parse_places("12")->number == 12);
  CHECK(parse_places("12")->indexes.empty());
  CHECK(parse_places("12_3")->number == 12);
  CHECK(parse_places("12_3")->indexes == Places{3});
  CHECK(parse_places("12_[4]")->indexes == Places{4});
  CHECK(parse_places("12_[0-2,7,9-10%4]")->indexes == Places{0, 1, 2, 7, 9, 10});
  CHECK(parse_places("12_[0-6:3]")->indexes == Places{0, 3, 6});
  // Cut off: which they are is not told.
  CHECK(parse_places("12_[0-2,7,9-1")->indexes.empty());
  CHECK(parse_places("12_[0-2,...]")->indexes.empty());
  CHECK(parse_places("12_[0-4000000]")->indexes.empty());
  for (const char* text : {"", "_", "x", "-1", "JOBID", "_3"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_places(text));
  }
}

TEST_CASE("an array of ours is as many jobs as it has places, and one of others is one") {
  const char* rest = "|PENDING|Resources|1|0|0|10:00|n/a||0|spot|";
  const std::string text = "7_[1,3]=7" + std::string(rest) +
                           "ty-a.1+3|trainyard:srv1:a.1,b.1,c.1,d.1\n" + "7_0=12" + rest +
                           "ty-a.1+3|trainyard:srv1:a.1,b.1,c.1,d.1\n" + "8_[0-500]" + rest +
                           "theirs|\n" + "9=9" + rest + "ty-e.1|trainyard:srv1:e.1\n";
  const std::vector<Job> jobs = parse_queue(text);
  REQUIRE(jobs.size() == 5);
  CHECK(jobs[0].id() == "7_1");
  CHECK(jobs[1].id() == "7_3");
  CHECK(jobs[1].name == "ty-a.1+3");
  CHECK(jobs[0].jobid() == 7);
  CHECK(jobs[2].id() == "7_0");
  CHECK(jobs[2].jobid() == 12);
  CHECK(jobs[4].jobid() == 9);
  CHECK(jobs[3].id() == "8");
  CHECK(jobs[4].id() == "9");
}

TEST_CASE("each place of an array's script is its own attempt and knows nothing of the array") {
  const std::string script = job_script({plan_of("a"), plan_of("b", 2), plan_of("it's")});
  CHECK(script.find("#SBATCH --array=0-2\n") != std::string::npos);
  CHECK(script.find("#SBATCH --job-name=ty-a.1+2\n") != std::string::npos);
  CHECK(script.find("#SBATCH --comment=\"trainyard:srv1/3:a.1,b.2,it's.1\"\n") !=
        std::string::npos);
  CHECK(job_script(plan_of("a")).find("ARRAY") == std::string::npos);
  CHECK(job_script(plan_of("a")).find("--array") == std::string::npos);
  const std::string head = script.substr(0, script.find("\nty_exit_no_tool="));
  const auto run = [&](const std::map<std::string, std::string>& place) {
    ProgramOptions options;
    options.command = {"/bin/bash", "-c",
                       head + "\necho \"$ty_run $ty_attempt $ty_ticket ${!SLURM_ARRAY_*}\""};
    options.environment = place;
    options.environment["PATH"] = "/usr/bin:/bin";
    options.timeout = seconds(30);
    return run_program(options).value();
  };
  CHECK(run({{"SLURM_ARRAY_TASK_ID", "0"}, {"SLURM_ARRAY_JOB_ID", "7"}}).output ==
        "a 1 tyh_of_a \n");
  CHECK(run({{"SLURM_ARRAY_TASK_ID", "1"}}).output == "b 2 tyh_of_b \n");
  CHECK(run({{"SLURM_ARRAY_TASK_ID", "2"}}).output == "it's 1 tyh_of_it's \n");
  CHECK(run({{"SLURM_ARRAY_TASK_ID", "3"}}).exit_code == static_cast<int>(ScriptExit::refused));
  CHECK(run({}).exit_code == static_cast<int>(ScriptExit::refused));
}
