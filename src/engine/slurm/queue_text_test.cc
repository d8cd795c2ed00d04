#include "engine/slurm/queue_text.h"

#include <doctest/doctest.h>

using namespace trainyard;
using namespace trainyard::engine::slurm;

namespace {

// As Slurm 22.05.8 printed it, with SLURM_TIME_FORMAT=%s and kQueueFormat.
constexpr const char* kQueue =
    R"(1106|RUNNING|None|3|1794750094|NONE|UNLIMITED|n1|n[1-2,4]|0|prod|wrap|(null)
1103|FAILED|NonZeroExitCode|1|1794750077|1794750077|30:00|n4|n4|22016|spot|x|trainyard:x:a b|c
1102|PENDING|PartitionNodeLimit|9|N/A|N/A|UNLIMITED|n/a||0|spot|ty-fox-1.1|trainyard:srv1:fox-1.1
1104|PENDING|ReqNodeNotAvail, UnavailableNodes:n3|1|N/A|N/A|UNLIMITED|n/a||0|spot|a.sh|(null)
1107|PENDING|Resources|1|1826286094|1826286694|10:00|n/a||0|spot|third|(null)
1105|PREEMPTED|None|2|1794750077|1794750094|1-00:00:00|n1|n[1-2]|15|spot|y|trainyard:srv1:fox-1.2
)";

}  // namespace

TEST_CASE("a queue is read as Slurm 22.05 prints it") {
  const std::vector<Job> jobs = parse_queue(kQueue);
  REQUIRE(jobs.size() == 6);
  CHECK(jobs[0].comment.empty());
  CHECK(jobs[0].node_list == "n[1-2,4]");
  CHECK(jobs[0].batch_host == "n1");
  CHECK(jobs[0].start == WallTime(seconds(1794750094)));
  CHECK_FALSE(jobs[0].end);
  CHECK_FALSE(jobs[0].limit);
  CHECK(jobs[1].exit_code == 86);
  CHECK(jobs[1].comment == "trainyard:x:a b|c");
  CHECK(jobs[2] == Job{.number = 1102,
                       .state = "PENDING",
                       .reason = "PartitionNodeLimit",
                       .partition = "spot",
                       .name = "ty-fox-1.1",
                       .comment = "trainyard:srv1:fox-1.1",
                       .nodes = 9});
  CHECK(jobs[3].reason == "ReqNodeNotAvail, UnavailableNodes:n3");
  CHECK(jobs[4].limit == seconds(600));
  CHECK(jobs[4].end.value() - jobs[4].start.value() == seconds(600));
  CHECK(jobs[5].exit_code == 128 + 15);
  CHECK(jobs[5].limit == seconds(86400));
}

TEST_CASE("a line that names no node is left out") {
  CHECK(parse_nodes("|spot|idle|0/4/0/4|7000|(null)|30:00||none\n").empty());
  CHECK(parse_nodes("n1|spot|idle|0/4/0/4|7000|(null)|30:00|10.0.0.1|none\n").size() == 1);
}

TEST_CASE("a line that is no job is left out and harms no other") {
  const std::string text = std::string("a comment's second line\n|||||||||||||\n\n") + kQueue;
  CHECK(parse_queue(text).size() == 6);
  CHECK(parse_queue("").empty());
  CHECK(parse_queue("1|PENDING").empty());
}

TEST_CASE("a job is known by its comment, and by nothing that only looks like it") {
  const AttemptId attempt{RunId{"calm-fox-x7k2m9qd"}, 3};
  CHECK(name_of(attempt) == "ty-calm-fox-x7k2m9qd.3");
  const std::string comment = comment_of("srv1", attempt);
  CHECK(comment == "trainyard:srv1:calm-fox-x7k2m9qd.3");
  CHECK(attempt_of(comment, "srv1") == attempt);
  CHECK(job_owner("srv1", 7) == "srv1/7");
  CHECK(home_of("srv1/7") == "srv1");
  const std::string marked = comment_of(job_owner("srv1", 7), attempt);
  CHECK(marked == "trainyard:srv1/7:calm-fox-x7k2m9qd.3");
  CHECK(attempt_of(marked, "srv1/7") == attempt);
  for (const char* other : {"srv1", "srv1/70", "srv1/8", "srv2/7"}) {
    CHECK_FALSE(attempt_of(marked, other));
  }
  CHECK(attempt_of("trainyard:srv1:my.run.v2.12", "srv1") == AttemptId{RunId{"my.run.v2"}, 12});
  for (const char* other :
       {"", "trainyard", "trainyard:srv1", "trainyard:srv10:calm.1", "trainyard:srv:calm.1",
        "trainyard:srv1:calm", "trainyard:srv1:.1", "trainyard:srv1:calm.0",
        "trainyard:srv1:calm.x", "trainyard:srv1:calm.1 ", "x trainyard:srv1:calm.1"}) {
    CAPTURE(other);
    CHECK_FALSE(attempt_of(other, "srv1"));
  }
}

TEST_CASE("every state of a job is waiting, running, ending or over") {
  CHECK(phase_of("PENDING") == Phase::waiting);
  CHECK(phase_of("CONFIGURING") == Phase::running);
  CHECK(phase_of("COMPLETING") == Phase::ending);
  for (const char* over : {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED",
                           "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY"}) {
    CAPTURE(over);
    CHECK(phase_of(over) == Phase::ended);
  }
  CHECK(phase_of("A_STATE_OF_LATER") == Phase::running);  // Nothing is given up for a new word.
}

TEST_CASE("nodes are read with their state, its marks and its reason") {
  const std::vector<Node> nodes = parse_nodes(
      "n1|spot*|idle|4|4000|(null)|infinite|10.0.0.1|none\n"
      "n1|prod|mixed|4|4000|gpu:a100:4(S:0-1),gpu:2,shard:8|1-00:00:00|10.0.0.1|none\n"
      "n3|spot*|drained|4|4000|(null)|infinite|10.0.0.3|bad disk, see ticket 12 | and 13\n"
      "n4|spot*|down*|4|4000|(null)|infinite|10.0.0.4|Not responding\n"
      "n5|spot*|idle~|8/56/0/64|515000|gpu:h200:8|30:00|10.0.0.5|none\n"
      "nonsense\n");
  REQUIRE(nodes.size() == 5);
  CHECK(nodes[0].default_partition);
  CHECK(nodes[0].partition == "spot");
  CHECK(nodes[0].idle());
  CHECK_FALSE(nodes[0].limit);
  CHECK(nodes[0].reason.empty());
  CHECK(nodes[1].gpus == 6);
  CHECK(nodes[1].in_use());
  CHECK(nodes[1].limit == seconds(86400));
  CHECK(nodes[2].reason == "bad disk, see ticket 12 | and 13");
  CHECK_FALSE(nodes[2].usable());
  CHECK(nodes[3].state == "down");
  CHECK_FALSE(nodes[3].answers);
  CHECK(nodes[4].powered_off);
  CHECK(nodes[4].memory_mb == 515000);
  CHECK(nodes[4].cpus == 64);
  CHECK(nodes[4].cpus_free == 56);
  CHECK(nodes[0].cpus_free == 4);
}

TEST_CASE("the number of a submitted job is found whatever a site's wrapper says before") {
  CHECK(parse_submitted("12345\n") == 12345);
  CHECK(parse_submitted("12345;cluster\n") == 12345);
  CHECK(parse_submitted("Welcome!\nyour budget: 7 hours\n77\n") == 77);
  CHECK_FALSE(parse_submitted(""));
  CHECK_FALSE(parse_submitted("Submitted batch job"));
}

TEST_CASE("Slurm's limits are days, hours, minutes and seconds") {
  CHECK(parse_limit("1-02:03:04") == seconds(93784));
  CHECK(parse_limit("2:03:04") == seconds(7384));
  CHECK(parse_limit("5:00") == seconds(300));
  CHECK(parse_limit("90") == seconds(5400));
  for (const char* none : {"UNLIMITED", "infinite", "INVALID", "Partition_Limit", "", "NOT_SET"}) {
    CAPTURE(none);
    CHECK_FALSE(parse_limit(none));
  }
}

TEST_CASE("a refusal is Slurm's own words in one line, and tells whether to try again") {
  struct Row {
    const char* text;
    const char* words;
    Refusal refusal;
  };
  const Row rows[] = {
      {"sbatch: error: invalid partition specified: nope\n"
       "sbatch: error: Batch job submission failed: Invalid partition name specified\n",
       "invalid partition specified: nope; Invalid partition name specified", Refusal::final},
      {"sbatch: error: Memory specification can not be satisfied\n"
       "sbatch: error: Batch job submission failed: Requested node configuration is not "
       "available\n",
       "Memory specification can not be satisfied; Requested node configuration is not available",
       Refusal::final},
      {"sbatch: error: Invalid generic resource (gres) specification\n",
       "Invalid generic resource (gres) specification", Refusal::final},
      {"sbatch: unrecognized option '--bogus'\nTry \"sbatch --help\" for more information\n",
       "unrecognized option '--bogus'; Try \"sbatch --help\" for more information", Refusal::final},
      {"sbatch: error: Batch job submission failed: Invalid account or account/partition "
       "combination specified\n",
       "Invalid account or account/partition combination specified", Refusal::final},
      {"sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect "
       "failure)\n",
       "Unable to contact slurm controller (connect failure)", Refusal::nobody},
      {"sbatch: error: Batch job submission failed: Socket timed out on send/recv operation\n",
       "Socket timed out on send/recv operation", Refusal::away},
      {"sbatch: error: If munged is up, restart with --num-threads=10\n"
       "sbatch: error: Munge encode failed: Failed to access \"/run/munge/munge.socket.2\"\n",
       "If munged is up, restart with --num-threads=10; Munge encode failed: Failed to access "
       "\"/run/munge/munge.socket.2\"",
       Refusal::away},
      {"sbatch: error: QOSMaxSubmitJobPerUserLimit\n"
       "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit "
       "limit, user's size and/or time limits)\n",
       "QOSMaxSubmitJobPerUserLimit; Job violates accounting/QOS policy (job submit limit, user's "
       "size and/or time limits)",
       Refusal::full},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    CHECK(slurm_words(row.text) == row.words);
    CHECK(refusal_of(row.text) == row.refusal);
  }
  CHECK(slurm_words(std::string(5000, 'x')).size() < 1000);
}
