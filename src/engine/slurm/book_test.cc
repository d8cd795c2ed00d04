#include "engine/slurm/book.h"

#include <doctest/doctest.h>

#include "engine/slurm/book_test_desk.h"

using namespace trainyard;
using namespace trainyard::engine;
using namespace trainyard::engine::slurm;

TEST_CASE("attempts are handed to Slurm in the order they came, each once") {
  Desk desk;
  desk.place("a");
  desk.place("b");
  desk.place("a");
  CHECK(desk.book.inspect(Desk::id("a")) == Placement::live);
  CHECK(desk.waits("b") == "waits to be handed to Slurm, after 1 others");
  CHECK(desk.book.take_submission(desk.now)->run == "a");
  CHECK(desk.book.take_submission(desk.now)->run == "b");
  CHECK_FALSE(desk.book.take_submission(desk.now));
  desk.book.submitted(Desk::id("a"), 1, desk.now);
  CHECK_FALSE(desk.book.take_submission(desk.now));
}

TEST_CASE("a job that waits says for what") {
  Desk desk;
  desk.book.counted(
      parse_nodes("n1|spot*|idle|4|4000|(null)|infinite|10.0.0.1|none\n"
                  "n2|spot*|mixed|4|4000|(null)|infinite|10.0.0.2|none\n"));
  desk.place("a");
  desk.submit(7);
  desk.look();
  CHECK(desk.waits("a") == "waits for 2 nodes: 1 idle of 2, 1 in use");
  CHECK(desk.book.anything_waits());
  desk.job(7).state = "RUNNING";
  desk.look();
  CHECK_FALSE(desk.book.anything_waits());
}

TEST_CASE("a refusal is told in Slurm's words and nothing is tried again") {
  Desk desk;
  desk.place("a");
  const auto taken = desk.book.take_submission(desk.now);
  desk.book.submitted(taken->id(), fail(ErrorKind::invalid, "invalid partition specified: x"),
                      desk.now);
  const auto gone = desk.book.take_gone();
  REQUIRE(gone.size() == 1);
  CHECK(gone[0].second.refused);
  CHECK(gone[0].second.why == "invalid partition specified: x");
  CHECK(desk.book.inspect(Desk::id("a")) == Placement::gone);
  desk.now += seconds(100);
  CHECK_FALSE(desk.book.take_submission(desk.now));
}

TEST_CASE("a job that asks for what no node has is refused after a while, and cancelled") {
  Desk desk;
  desk.place("a");
  desk.submit(7);
  desk.job(7).reason = "PartitionNodeLimit";
  desk.pass(seconds(5));
  CHECK(desk.gone.empty());
  desk.pass(seconds(8));
  REQUIRE(desk.gone.size() == 1);
  CHECK(desk.gone[0].second.refused);
  CHECK(desk.gone[0].second.why.find("PartitionNodeLimit") != std::string::npos);
  CHECK(desk.cancels() == Names{"a.1#7"});
}

TEST_CASE("with too many jobs in Slurm the rest waits, and its order is kept") {
  Desk desk;
  desk.place("a");
  desk.place("b");
  const auto taken = desk.book.take_submission(desk.now);
  desk.book.submitted(taken->id(), fail(ErrorKind::conflict, "QOSMaxSubmitJobPerUserLimit"),
                      desk.now);
  CHECK(desk.waits("b").find("QOSMaxSubmitJobPerUserLimit") != std::string::npos);
  CHECK_FALSE(desk.book.take_submission(desk.now));
  desk.now = *desk.book.next_submit();
  CHECK(desk.book.take_submission(desk.now)->run == "a");
  CHECK(desk.book.take_gone().empty());
}

TEST_CASE("while the controller is away all is kept and said, and goes on when it is back") {
  Desk desk;
  desk.place("placed");
  desk.submit(7, "RUNNING");
  desk.look();
  desk.place("new");
  const auto taken = desk.book.take_submission(desk.now);
  desk.book.submitted(taken->id(), fail(ErrorKind::unavailable, "sbatch: no answer in 15 s"),
                      desk.now);
  for (int i = 0; i < 60; ++i) {
    desk.now += seconds(1);
    desk.look_in_vain();
  }
  CHECK(desk.waits("new").find("Slurm does not answer") == 0);
  CHECK(desk.book.inspect(Desk::id("placed")) == Placement::live);
  CHECK_FALSE(desk.book.take_submission(desk.now));  // It may have been taken: first a look.
  desk.pass(seconds(10));
  CHECK(desk.gone.empty());
  CHECK(desk.book.take_submission(desk.now)->run == "new");
}

TEST_CASE("looks become rarer while nobody answers, and are often again after") {
  Desk desk;
  desk.place("a");
  desk.submit(7);
  for (int i = 0; i < 10; ++i) desk.look_in_vain();
  CHECK(desk.book.next_look() - desk.now == Patience{}.look_max);
  desk.look();
  CHECK(desk.book.next_look() - desk.now == Patience{}.look);
}

TEST_CASE("with nothing under way Slurm is left in peace") {
  Desk desk;
  desk.look();
  CHECK(desk.book.next_look() - desk.now == Patience{}.look_idle);
  desk.place("a");
  desk.submit(7);
  CHECK(desk.book.next_look() - desk.now <= Patience{}.look);
}

TEST_CASE("a slow answer makes looks rarer") {
  Desk desk;
  desk.place("a");
  desk.submit(7);
  desk.book.looked(desk.jobs, desk.now - milliseconds(500), desk.now);
  CHECK(desk.book.next_look() - desk.now == milliseconds(4500));
}

TEST_CASE("a submission without an answer that was taken all the same is found, not made again") {
  Desk desk;
  desk.place("a");
  const auto taken = desk.book.take_submission(desk.now);
  desk.add(taken->id(), 7, "RUNNING");
  desk.book.submitted(taken->id(), fail(ErrorKind::unavailable, "no answer"), desk.now);
  desk.pass(seconds(30));
  CHECK_FALSE(desk.book.take_submission(desk.now));
  CHECK(desk.book.inspect(Desk::id("a")) == Placement::live);
  CHECK(desk.gone.empty());
}

TEST_CASE("of two jobs of one attempt the one that runs stays") {
  Desk desk;
  desk.place("a");
  desk.submit(8);
  desk.add(Desk::id("a"), 9, "RUNNING");
  desk.look();
  CHECK(desk.cancels() == Names{"a.1#8"});
  CHECK(desk.cancels().empty());
  desk.job(8).state = "CANCELLED";
  desk.pass(seconds(20));
  CHECK(desk.gone.empty());
  CHECK(desk.cancels().empty());
}

TEST_CASE("a job the controller forgot is gone, and not submitted again under its attempt") {
  Desk desk;
  desk.place("a");
  desk.submit(7);
  desk.jobs.clear();  // Killed right after it had accepted it.
  desk.look_in_vain();
  desk.pass(seconds(4));
  CHECK(desk.gone.empty());
  desk.pass(seconds(4));
  REQUIRE(desk.gone.size() == 1);
  CHECK(desk.gone[0].second.why == "Slurm has no job of it (it was 7)");
  CHECK_FALSE(desk.gone[0].second.refused);
  CHECK_FALSE(desk.gone[0].second.evicted);
  CHECK_FALSE(desk.book.take_submission(desk.now));
}

TEST_CASE("a look that was begun before a submission says nothing of it") {
  Desk desk;
  desk.place("a");
  const SteadyTime before = desk.now;
  desk.now += seconds(20);
  desk.submit(7);
  for (int i = 0; i < 5; ++i) {
    desk.now += seconds(10);
    desk.book.looked(std::vector<Job>{}, before, desk.now);
  }
  CHECK(desk.book.take_gone().empty());
}

TEST_CASE("a number that is given out again confuses nobody") {
  Desk desk;
  desk.place("a");
  desk.submit(7, "RUNNING");
  desk.look();
  desk.jobs.clear();
  desk.place("b");
  desk.submit(7, "RUNNING");  // The controller lost its memory, and counts anew.
  desk.pass(seconds(10));
  REQUIRE(desk.gone.size() == 1);
  CHECK(desk.gone[0].first == Desk::id("a"));
  CHECK(desk.book.inspect(Desk::id("b")) == Placement::live);
  desk.book.release(Desk::id("a"), desk.now);
  desk.now += seconds(60);
  CHECK(desk.cancels().empty() == false);  // By name and number: no harm to the other.
  desk.pass(seconds(10));
  CHECK(desk.book.inspect(Desk::id("a")) == Placement::unknown);
  CHECK(desk.book.inspect(Desk::id("b")) == Placement::live);
}

TEST_CASE("the end of a job is told after a moment for its last report") {
  struct Row {
    const char* state;
    bool evicted;
  };
  for (const Row& row : {Row{"COMPLETED", false}, Row{"FAILED", false}, Row{"CANCELLED", false},
                         Row{"TIMEOUT", false}, Row{"OUT_OF_MEMORY", false}, Row{"DEADLINE", false},
                         Row{"NODE_FAIL", true}, Row{"PREEMPTED", true}, Row{"BOOT_FAIL", true}}) {
    CAPTURE(row.state);
    Desk desk;
    desk.place("a");
    desk.submit(7, "RUNNING");
    desk.look();
    desk.job(7).state = "COMPLETING";
    desk.pass(seconds(20));
    CHECK(desk.gone.empty());
    desk.job(7).state = row.state;
    desk.pass(seconds(2));
    CHECK(desk.gone.empty());
    desk.pass(seconds(3));
    REQUIRE(desk.gone.size() == 1);
    CHECK(desk.gone[0].second.evicted == row.evicted);
    CHECK(desk.gone[0].second.refused == (row.state == std::string("CANCELLED")));
    desk.pass(seconds(10));
    CHECK(desk.gone.size() == 1);
  }
}

TEST_CASE("a job that never gets done with ending is given up") {
  Desk desk;
  desk.place("a");
  desk.submit(7, "COMPLETING");
  desk.pass(seconds(310));
  CHECK(desk.gone.size() == 1);
}

TEST_CASE("after a restart of ours a job is found again by its comment") {
  Desk desk;
  desk.add(Desk::id("a"), 7, "RUNNING");
  desk.look();
  desk.book.recover(Desk::id("a"), desk.now);
  desk.book.recover(Desk::id("lost"), desk.now);
  CHECK(desk.book.inspect(Desk::id("a")) == Placement::live);
  desk.pass(seconds(60));
  CHECK(desk.cancels().empty());
  REQUIRE(desk.gone.size() == 1);
  CHECK(desk.gone[0].first == Desk::id("lost"));
  CHECK(desk.gone[0].second.why == "Slurm has no job of it");
  desk.job(7).state = "NODE_FAIL";
  desk.pass(seconds(10));
  REQUIRE(desk.gone.size() == 2);
  CHECK(desk.gone[1].second.evicted);
}

TEST_CASE("a recovered attempt is not given up while the controller is away") {
  Desk desk;
  desk.book.recover(Desk::id("a"), desk.now);
  for (int i = 0; i < 100; ++i) {
    desk.now += seconds(1);
    desk.look_in_vain();
  }
  desk.look();
  CHECK(desk.gone.empty());
  desk.add(Desk::id("a"), 7, "PENDING");
  desk.pass(seconds(10));
  CHECK(desk.gone.empty());
}

TEST_CASE("a job of ours that nobody knows is cancelled after a grace, others' never") {
  Desk desk;
  desk.add(Desk::id("orphan"), 7, "RUNNING");
  desk.add(Desk::id("done"), 8, "COMPLETED");
  desk.add(Desk::id("theirs"), 9, "RUNNING");
  desk.job(9).comment = "trainyard:srv2/3:theirs.1";
  desk.add(Desk::id("plain"), 10, "RUNNING");
  desk.job(10).comment.clear();
  desk.pass(seconds(29));
  CHECK(desk.cancels().empty());
  desk.pass(seconds(3));
  CHECK(desk.cancels() == Names{"orphan.1#7"});
  desk.job(7).state = "CANCELLED";
  desk.pass(seconds(60));
  CHECK(desk.cancels().empty());
}

TEST_CASE("computes on one Slurm leave each other's jobs alone, of one home and of several") {
  Desk desk;
  desk.place("a");
  desk.submit(1, "RUNNING");
  const auto add = [&](int64_t number, const char* state, const char* comment) {
    desk.add(Desk::id("a"), number, state);
    desk.job(number).comment = comment;
  };
  add(2, "RUNNING", "trainyard:srv1/4:b.1");  // Of another compute of this home.
  add(3, "PENDING", "trainyard:srv1/4:c.1,d.1,e.1");
  desk.job(3).index = 1;
  add(4, "RUNNING", "trainyard:srv2/3:f.1");  // Of another home.
  add(5, "RUNNING", "trainyard:srv1/33:g.1");
  // Another home's run of the same id and attempt: the names of the jobs are the same too.
  add(6, "PENDING", "trainyard:srv2/3:a.1");
  // Of the version before, of whatever compute.
  add(7, "RUNNING", "trainyard:srv1:h.1");
  desk.pass(seconds(120));
  CHECK(desk.cancels().empty());
  CHECK(desk.gone.empty());
  desk.book.kill(Desk::id("a"), desk.now);
  CHECK(desk.cancels() == Names{"a.1#1"});  // Never by its name alone.
}

TEST_CASE("jobs of the version before, which name no compute, are taken up by who knows them") {
  Desk desk;
  desk.add(Desk::id("a"), 7, "RUNNING");
  desk.job(7).comment = "trainyard:srv1:a.1";
  desk.add(Desk::id("b"), 8, "RUNNING");
  desk.job(8).name = "ty-b.1+2";
  desk.job(8).comment = "trainyard:srv1:b.1,c.1,d.1";
  for (int index = 0; index < 3; ++index) {
    if (index > 0) desk.jobs.push_back(desk.job(8));
    desk.jobs.back().index = index;
  }
  desk.look();
  for (const char* run : {"a", "c"}) desk.book.recover(Desk::id(run), desk.now);
  desk.pass(seconds(60));
  CHECK(desk.cancels().empty());  // b and d may be another compute's.
  CHECK(desk.gone.empty());
  CHECK(desk.book.inspect(Desk::id("a")) == Placement::live);
  CHECK(desk.book.inspect(Desk::id("c")) == Placement::live);
  desk.book.kill(Desk::id("c"), desk.now);
  const auto cancel = desk.book.take_cancel(desk.now);
  REQUIRE(cancel);
  CHECK(cancel->attempt == Desk::id("c"));
  CHECK(cancel->number == 8);
  CHECK(cancel->index == 1);
  CHECK(cancel->array == "ty-b.1+2");
  CHECK(desk.cancels().empty());
}

TEST_CASE("a job that comes back after it was given up is cancelled") {
  Desk desk;
  desk.place("a");
  desk.submit(7, "RUNNING");
  desk.look();
  const std::vector<Job> before = std::exchange(desk.jobs, {});
  desk.pass(seconds(10));
  CHECK(desk.gone.size() == 1);
  desk.jobs = before;  // A controller started on an older memory.
  desk.pass(seconds(12));
  CHECK(desk.cancels() == Names{"a.1#7"});
  CHECK(desk.gone.size() == 1);
}

TEST_CASE("what a controller cancels that was away is lost, and may be tried again") {
  Desk desk;
  desk.place("a");
  desk.look_in_vain();
  desk.now += seconds(10);
  desk.submit(2);  // A number that another job had before the controller lost its memory.
  desk.look();
  desk.job(2).state = "CANCELLED";
  desk.pass(seconds(5));
  REQUIRE(desk.gone.size() == 1);
  CHECK_FALSE(desk.gone[0].second.refused);
}

TEST_CASE("an attempt after one that was preempted waits to see that, and no longer") {
  Desk desk;
  desk.place("a");
  desk.place("slow");
  desk.submit(1, "RUNNING");
  desk.submit(2, "COMPLETING");
  desk.look();
  for (const char* run : {"a", "slow"}) {
    desk.book.release(Desk::id(run), desk.now);
    desk.book.place(Desk::assignment(run, 2), desk.now);
  }
  CHECK_FALSE(desk.book.take_submission(desk.now));
  desk.job(1).state = "PREEMPTED";
  desk.pass(seconds(1));
  CHECK(desk.book.take_submission(desk.now).value().id() == Desk::id("a", 2));
  CHECK_FALSE(desk.book.take_submission(desk.now));
  desk.now += Patience{}.settle;
  CHECK(desk.book.take_submission(desk.now).value().id() == Desk::id("slow", 2));
  // What the supervisor could not know when it reported that it was told to stop.
  REQUIRE(desk.gone.size() == 1);
  CHECK(desk.gone[0].first == Desk::id("a"));
  CHECK(desk.gone[0].second.why == "Slurm gave its nodes to another job (PREEMPTED)");
}

TEST_CASE("nothing is handed in while there is no way to the cluster, and it says so") {
  Desk desk;
  desk.book.hold("ssh me@login: Connection refused");
  desk.place("a");
  CHECK_FALSE(desk.book.take_submission(desk.now));
  CHECK_FALSE(desk.book.next_submit());
  CHECK(desk.waits("a") == "waits for the way to the cluster: ssh me@login: Connection refused");
  desk.book.hold("");
  CHECK(desk.book.take_submission(desk.now));
}

TEST_CASE("which address a node tried is told after a restart, too") {
  Desk desk;
  desk.book.serve_at("http://10.9.9.9:1234");
  desk.book.recover(Desk::id("a"), desk.now);
  desk.add(Desk::id("a"), 7, "FAILED");
  desk.job(7).exit_code = static_cast<int>(ScriptExit::unreachable);
  desk.pass(seconds(5));
  REQUIRE(desk.gone.size() == 1);
  CHECK(desk.gone[0].second.why.find("http://10.9.9.9:1234") != std::string::npos);
}
