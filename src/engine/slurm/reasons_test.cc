#include "engine/slurm/reasons.h"

#include <doctest/doctest.h>

#include "engine/slurm/job_script.h"

using namespace trainyard;
using namespace trainyard::engine::slurm;

namespace {

const WallTime kNow = parse_time("2026-11-15T13:30:00Z").value();
const Numbers kBusy{.total = 6, .idle = 1, .in_use = 5};

Job waiting(std::string reason, int nodes = 4) {
  return {.number = 7,
          .state = "PENDING",
          .reason = std::move(reason),
          .partition = "gpu",
          .nodes = nodes};
}

std::string say(std::string reason, int nodes = 4) {
  return words_for(waiting(std::move(reason), nodes), kBusy, kNow);
}

Job ended(std::string state, int exit_code = 0) {
  return {.number = 7, .state = std::move(state), .node_list = "n[1-2]", .exit_code = exit_code};
}

}  // namespace

TEST_CASE("what a job waits for is said in words and numbers") {
  CHECK(say("Resources") == "waits for 4 nodes: 1 idle of 6, 5 in use");
  CHECK(say("Resources", 1) == "waits for 1 node: 1 idle of 6, 5 in use");
  CHECK(say("Priority") ==
        "waits for 4 nodes, after jobs of a higher priority: 1 idle of 6, 5 in use");
  CHECK(say("PartitionNodeLimit", 9) ==
        "asks for 9 nodes, and partition gpu does not give so many: 1 idle of 6, 5 in use");
  CHECK(say("PartitionDown") == "waits for partition gpu, which is down");
  CHECK(say("QOSMaxJobsPerUserLimit") ==
        "the user is at a limit of the quality of service (QOSMaxJobsPerUserLimit)");
  CHECK(say("AssocGrpGRES") ==
        "the account is at its limit for all its jobs together (AssocGrpGRES)");
  CHECK(say("ReqNodeNotAvail, UnavailableNodes:n3") ==
        "waits for nodes that are not to be had (ReqNodeNotAvail, UnavailableNodes:n3): 1 idle of "
        "6, 5 in use");
  CHECK(say("Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_"
            "partitions") ==
        "waits for 4 nodes; some are down, drained or kept for others: 1 idle of 6, 5 in use");
  CHECK(say("Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority "
            "partitions") ==
        "waits for 4 nodes; some are down, drained or kept for others: 1 idle of 6, 5 in use");
  for (const char* code : {"Dependency", "BeginTime", "JobHeldUser", "Licenses", "BadConstraints",
                           "InvalidAccount", "None", "Reservation", "QOSGrpCpuLimit"}) {
    CAPTURE(code);
    CHECK(say(code).find("Slurm says") == std::string::npos);
  }
}

TEST_CASE("a reason that is not known is shown as it is") {
  CHECK(say("SomethingOfSlurm30") == "waits: Slurm says SomethingOfSlurm30");
}

TEST_CASE("numbers that are not known are left out") {
  CHECK(words_for(waiting("Resources"), {}, kNow) == "waits for 4 nodes");
  CHECK(words_for(waiting("Resources"), {.total = 4, .idle = 1, .off = 3}, kNow) ==
        "waits for 4 nodes: 1 idle of 4, 3 down or drained");
}

TEST_CASE("the start that Slurm expects is said, unless it is past or a guess from no limits") {
  Job job = waiting("Resources");
  job.start = parse_time("2026-11-15T14:05:00Z").value();
  CHECK(words_for(job, kBusy, kNow) ==
        "waits for 4 nodes: 1 idle of 6, 5 in use; Slurm expects it to start at 14:05 UTC");
  job.start = parse_time("2026-11-16T09:00:00Z").value();
  CHECK(words_for(job, {}, kNow) ==
        "waits for 4 nodes; Slurm expects it to start at 2026-11-16 09:00 UTC");
  job.start = parse_time("2027-11-15T14:05:00Z").value();
  CHECK(words_for(job, {}, kNow) == "waits for 4 nodes");
  job.start = kNow - seconds(1);
  CHECK(words_for(job, {}, kNow) == "waits for 4 nodes");
}

TEST_CASE("a job that has its nodes says which") {
  Job job = waiting("None");
  job.node_list = "n[1-4]";
  job.state = "RUNNING";
  CHECK(words_for(job, kBusy, kNow) ==
        "Slurm started it on n[1-4]; its supervisor has not reported yet");
  CHECK(words_for(job, kBusy, kNow, true) ==
        "Slurm started it on n[1-4]; the target's setup runs there");
  job.state = "CONFIGURING";
  CHECK(words_for(job, kBusy, kNow) == "Slurm makes its nodes ready: n[1-4]");
}

TEST_CASE("what will never come true is told apart from what takes time") {
  for (const char* code : {"PartitionNodeLimit", "PartitionTimeLimit", "BadConstraints",
                           "InvalidAccount", "InvalidQOS", "PartitionConfig"}) {
    CAPTURE(code);
    CHECK(is_never(code));
  }
  for (const char* code : {"Resources", "Priority", "JobHeldUser", "PartitionDown", "Licenses",
                           "QOSMaxJobsPerUserLimit", "ReqNodeNotAvail", "None", "New"}) {
    CAPTURE(code);
    CHECK_FALSE(is_never(code));
  }
}

TEST_CASE("nodes are counted by partition") {
  const std::vector<Node> nodes = parse_nodes(
      "n1|spot*|idle|4|4000|(null)|infinite|10.0.0.1|none\n"
      "n2|spot*|mixed|4|4000|(null)|infinite|10.0.0.2|none\n"
      "n3|spot*|down*|4|4000|(null)|infinite|10.0.0.3|gone\n"
      "n1|prod|idle|4|4000|(null)|infinite|10.0.0.1|none\n");
  const Numbers all = count_nodes(nodes, "");
  CHECK(all.total == 3);
  CHECK(all.idle == 1);
  CHECK(all.in_use == 1);
  CHECK(all.off == 1);
  CHECK(count_nodes(nodes, "prod").total == 1);
  CHECK_FALSE(count_nodes(nodes, "nope").known());
}

TEST_CASE("a node taken away is an eviction, an end of the job's own is not") {
  for (const char* state : {"PREEMPTED", "NODE_FAIL", "BOOT_FAIL"}) {
    CAPTURE(state);
    CHECK(ending_of(ended(state), "http://s").evicted);
    CHECK(ending_of(ended(state), "http://s").words.find(state) != std::string::npos);
  }
  for (const char* state :
       {"TIMEOUT", "DEADLINE", "OUT_OF_MEMORY", "FAILED", "CANCELLED", "COMPLETED", "REVOKED"}) {
    CAPTURE(state);
    CHECK_FALSE(ending_of(ended(state), "http://s").evicted);
    CHECK_FALSE(ending_of(ended(state), "http://s").words.empty());
  }
}

TEST_CASE("what a job script could only say by its code is said in words") {
  const auto say_code = [](ScriptExit code) {
    return ending_of(ended("FAILED", static_cast<int>(code)), "http://10.0.0.1:8470").words;
  };
  CHECK(say_code(ScriptExit::unreachable) ==
        "its node could not reach the server at http://10.0.0.1:8470 on n[1-2]");
  CHECK(say_code(ScriptExit::setup) == "the target's setup text failed on n[1-2]");
  CHECK(say_code(ScriptExit::no_tool).find("curl") != std::string::npos);
  CHECK(ending_of(ended("FAILED", 1), "").words == "its Slurm job 7 failed with code 1 on n[1-2]");
}

TEST_CASE("a job told to stop was evicted, unless its own time was over") {
  Job job = ended("FAILED", static_cast<int>(ScriptExit::stopped));
  job.limit = std::chrono::minutes(60);
  job.start = kNow;
  job.end = kNow + std::chrono::minutes(20);
  CHECK(ending_of(job, "").evicted);
  job.end = kNow + std::chrono::minutes(59);
  CHECK_FALSE(ending_of(job, "").evicted);
  CHECK(ending_of(job, "").words == "its time in Slurm was over (limit 1:00:00)");
  job.limit.reset();
  CHECK(ending_of(job, "").evicted);
}

TEST_CASE(
    "nodes are brought up for jobs that wait for nodes, and not for those that wait for else") {
  for (const char* code :
       {"None", "", "Resources", "Priority", "NodeDown", "ReqNodeNotAvail, UnavailableNodes:n[1-4]",
        "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher "
        "priority partitions"}) {
    CAPTURE(code);
    CHECK(is_for_nodes(code));
  }
  for (const char* code : {"Licenses", "QOSMaxJobsPerUserLimit", "AssocGrpGRES", "Dependency",
                           "JobHeldUser", "BeginTime", "PartitionNodeLimit", "Reservation"}) {
    CAPTURE(code);
    CHECK_FALSE(is_for_nodes(code));
  }
}
