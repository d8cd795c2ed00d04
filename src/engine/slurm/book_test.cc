#include "engine/slurm/book.h"

#include <doctest/doctest.h>

#include "engine/slurm/job_script.h"

using namespace trainyard;
using namespace trainyard::engine;
using namespace trainyard::engine::slurm;

namespace {

// A book with a Slurm that is a list of jobs.
struct Desk {
  Book book{"srv1", Patience{}};
  SteadyTime now{seconds(1000)};
  std::vector<Job> jobs;
  std::vector<Book::Told> gone;

  static Assignment assignment(const std::string& run, int attempt = 1) {
    Assignment made;
    made.run = run;
    made.attempt = attempt;
    made.token = "tya_secret";
    made.server_url = "http://10.0.0.1:8470";
    return made;
  }
  static AttemptId id(const std::string& run, int attempt = 1) { return {RunId{run}, attempt}; }

  void place(const std::string& run) { book.place(assignment(run), now); }
  // Hands in what is next, and Slurm takes it.
  int64_t submit(int64_t number, const std::string& state = "PENDING") {
    const std::optional<Assignment> taken = book.take_submission(now);
    REQUIRE(taken);
    add(taken->id(), number, state);
    book.submitted(taken->id(), number, now);
    return number;
  }
  void add(const AttemptId& attempt, int64_t number, const std::string& state) {
    Job job;
    job.number = number;
    job.state = state;
    job.reason = "Resources";
    job.partition = "spot";
    job.nodes = 2;
    job.name = name_of(attempt);
    job.comment = comment_of("srv1", attempt);
    jobs.push_back(job);
  }
  Job& job(int64_t number) {
    for (Job& one : jobs) {
      if (one.number == number) return one;
    }
    FAIL("no such job");
    return jobs.front();
  }
  void look() {
    book.looked(jobs, now, now);
    for (Book::Told& told : book.take_gone()) gone.push_back(std::move(told));
  }
  void look_in_vain() {
    book.looked(fail(ErrorKind::unavailable, "squeue: Unable to contact slurm controller"), now,
                now);
  }
  // Looks once a second.
  void pass(seconds time) {
    for (seconds i{0}; i < time; ++i) {
      now += seconds(1);
      look();
    }
  }
  std::vector<std::string> cancels() {
    std::vector<std::string> names;
    while (const auto cancel = book.take_cancel(now)) {
      names.push_back(cancel->attempt.str() +
                      (cancel->number == 0 ? "" : "#" + std::to_string(cancel->number)));
    }
    return names;
  }
  std::string waits(const std::string& run) {
    return book.waits_for(id(run), WallTime(seconds(1794748255)));
  }
};

using Names = std::vector<std::string>;

}  // namespace

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
      parse_nodes("n1|spot*|idle|4|4000|(null)|infinite|none\n"
                  "n2|spot*|mixed|4|4000|(null)|infinite|none\n"));
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
  CHECK(desk.cancels() == Names{"a.1"});
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
  CHECK(desk.cancels().empty() == false);  // By name: no harm to the other.
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

TEST_CASE("a kill cancels until the job is over") {
  Desk desk;
  desk.place("a");
  desk.submit(7, "RUNNING");
  desk.look();
  desk.book.kill(Desk::id("a"), desk.now);
  desk.book.kill(Desk::id("a"), desk.now);
  CHECK(desk.cancels() == Names{"a.1"});
  desk.pass(seconds(11));
  CHECK(desk.cancels() == Names{"a.1"});  // It was not heard.
  desk.job(7).state = "CANCELLED";
  desk.pass(seconds(11));
  CHECK(desk.cancels().empty());
  CHECK(desk.gone.size() == 1);
}

TEST_CASE("a kill takes back what Slurm does not have yet") {
  Desk desk;
  desk.place("waiting");
  desk.book.kill(Desk::id("waiting"), desk.now);
  CHECK(desk.book.take_gone().size() == 1);
  CHECK_FALSE(desk.book.take_submission(desk.now));

  desk.place("under way");
  const auto taken = desk.book.take_submission(desk.now);
  desk.book.kill(taken->id(), desk.now);
  CHECK(desk.book.take_gone().size() == 1);
  desk.book.submitted(taken->id(), 7, desk.now);
  CHECK(desk.book.inspect(taken->id()) == Placement::gone);
  CHECK(desk.cancels() == Names{"under way.1"});

  desk.place("unsure");
  const auto unsure = desk.book.take_submission(desk.now);
  desk.book.submitted(unsure->id(), fail(ErrorKind::unavailable, "no answer"), desk.now);
  desk.book.kill(unsure->id(), desk.now);
  CHECK(desk.book.take_gone().size() == 1);
  desk.add(unsure->id(), 8, "PENDING");
  desk.look();
  CHECK(desk.cancels() == Names{"unsure.1"});
  CHECK(desk.gone.empty());
  desk.book.kill(Desk::id("never heard of"), desk.now);
  CHECK(desk.cancels().empty());
}

TEST_CASE("a job that we cancel is looked at at once and often, and is gone when Slurm says so") {
  Desk desk;
  desk.place("a");
  desk.submit(7, "RUNNING");
  desk.look();
  CHECK(desk.book.next_look() > desk.now);
  desk.book.kill(Desk::id("a"), desk.now);
  CHECK(desk.cancels() == Names{"a.1"});
  CHECK(desk.book.next_look() <= desk.now);
  desk.job(7).state = "COMPLETING";
  desk.look();
  CHECK(desk.book.next_look() - desk.now == Patience{}.look_cancelled);
  CHECK(desk.gone.empty());
  desk.job(7).state = "CANCELLED";
  desk.look();
  CHECK(desk.gone.size() == 1);
}

TEST_CASE("what waits is taken back at once while Slurm does not answer, and cancelled later") {
  Desk desk;
  desk.place("waits");
  desk.submit(7);
  desk.place("runs");
  desk.submit(8, "RUNNING");
  desk.look();
  desk.look_in_vain();
  for (const char* run : {"waits", "runs"}) desk.book.kill(Desk::id(run), desk.now);
  const std::vector<Book::Told> told = desk.book.take_gone();
  REQUIRE(told.size() == 1);
  CHECK(told[0].first == Desk::id("waits"));
  desk.book.release(Desk::id("waits"), desk.now);
  for (int i = 0; i < 3; ++i) {
    CHECK(desk.cancels() == Names{"runs.1", "waits.1"});
    desk.now += seconds(30);
    desk.look_in_vain();
  }
  desk.look();
  CHECK(desk.cancels() == Names{"runs.1", "waits.1"});
}

TEST_CASE("who is taken back and released while being handed in is cancelled once Slurm has it") {
  for (const bool answered : {true, false}) {
    CAPTURE(answered);
    Desk desk;
    desk.place("a");
    REQUIRE(desk.book.take_submission(desk.now));
    desk.book.kill(Desk::id("a"), desk.now);
    CHECK(desk.book.take_gone().size() == 1);
    desk.book.release(Desk::id("a"), desk.now);
    desk.pass(seconds(9));  // sbatch takes its time.
    desk.add(Desk::id("a"), 7, "PENDING");
    desk.book.submitted(Desk::id("a"),
                        answered ? Result<int64_t>(7) : fail(ErrorKind::unavailable, "no answer"),
                        desk.now);
    CHECK(desk.cancels() == Names{"a.1"});
    desk.job(7).state = "CANCELLED";
    desk.look();
    CHECK(desk.gone.empty());
    CHECK_FALSE(desk.book.next_cancel());
  }
  Desk desk;
  desk.place("b");
  REQUIRE(desk.book.take_submission(desk.now));
  desk.book.kill(Desk::id("b"), desk.now);
  desk.book.submitted(Desk::id("b"), fail(ErrorKind::not_found, "nobody there"), desk.now);
  CHECK(desk.book.take_gone().size() == 1);
  CHECK_FALSE(desk.book.next_cancel());
  CHECK_FALSE(desk.book.next_submit());
}

TEST_CASE("a released attempt is forgotten with its job, which is cancelled if it stays") {
  Desk desk;
  desk.place("ends");
  desk.submit(7, "RUNNING");
  desk.place("stays");
  desk.submit(8, "RUNNING");
  desk.look();
  desk.book.release(Desk::id("ends"), desk.now);
  desk.book.release(Desk::id("stays"), desk.now);
  CHECK(desk.book.inspect(Desk::id("ends")) == Placement::unknown);
  CHECK(desk.cancels().empty());
  desk.job(7).state = "COMPLETED";
  desk.pass(seconds(11));
  CHECK(desk.cancels() == Names{"stays.1"});
  desk.job(8).state = "CANCELLED";
  desk.pass(seconds(30));
  CHECK(desk.cancels().empty());
  CHECK(desk.gone.empty());  // Whoever releases knows.
}

TEST_CASE("a release while the submission is under way leaves no job") {
  Desk desk;
  desk.place("a");
  const auto taken = desk.book.take_submission(desk.now);
  desk.book.release(taken->id(), desk.now);
  desk.add(taken->id(), 7, "PENDING");
  desk.book.submitted(taken->id(), 7, desk.now);
  CHECK(desk.cancels() == Names{"a.1"});
  desk.job(7).state = "CANCELLED";
  desk.pass(seconds(10));
  CHECK(desk.gone.empty());
  CHECK(desk.book.inspect(Desk::id("a")) == Placement::unknown);
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
  desk.job(9).comment = "trainyard:srv2:theirs.1";
  desk.add(Desk::id("plain"), 10, "RUNNING");
  desk.job(10).comment.clear();
  desk.pass(seconds(29));
  CHECK(desk.cancels().empty());
  desk.pass(seconds(3));
  CHECK(desk.cancels() == Names{"orphan.1"});
  desk.job(7).state = "CANCELLED";
  desk.pass(seconds(60));
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
  CHECK(desk.cancels() == Names{"a.1"});
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

TEST_CASE("a job that somebody else cancelled is not tried again") {
  Desk desk;
  desk.place("a");
  desk.place("b");
  desk.place("c");
  for (const int64_t number : {1, 2, 3}) desk.submit(number, "RUNNING");
  desk.look();
  // Its supervisor says nothing any more.
  desk.job(1).state = "CANCELLED";
  desk.pass(seconds(5));
  REQUIRE(desk.gone.size() == 1);
  CHECK(desk.gone[0].second.refused);
  CHECK(desk.gone[0].second.why.find("cancelled in Slurm") != std::string::npos);
  // It reports an eviction, and the next attempt comes before its job is seen to end.
  desk.gone.clear();
  desk.book.release(Desk::id("b"), desk.now);
  desk.book.place(Desk::assignment("b", 2), desk.now);
  CHECK_FALSE(desk.book.take_submission(desk.now));
  CHECK(*desk.book.next_submit() > desk.now);
  desk.job(2).state = "CANCELLED";
  desk.pass(seconds(1));
  REQUIRE(desk.gone.size() == 1);
  CHECK(desk.gone[0].first == Desk::id("b", 2));
  CHECK(desk.gone[0].second.refused);
  // And after.
  desk.gone.clear();
  desk.book.release(Desk::id("c"), desk.now);
  desk.job(3).state = "CANCELLED";
  desk.pass(seconds(1));
  desk.book.place(Desk::assignment("c", 2), desk.now);
  CHECK_FALSE(desk.book.take_submission(desk.now));
  desk.look();
  REQUIRE(desk.gone.size() == 1);
  CHECK(desk.gone[0].second.refused);
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
  desk.now += seconds(10);
  CHECK(desk.book.take_submission(desk.now).value().id() == Desk::id("slow", 2));
  CHECK(desk.gone.empty());
}

TEST_CASE("a job that we cancelled ourselves was taken back, not refused") {
  Desk desk;
  desk.place("a");
  desk.submit(1, "RUNNING");
  desk.look();
  desk.book.kill(Desk::id("a"), desk.now);
  CHECK(desk.cancels() == Names{"a.1"});
  desk.job(1).state = "CANCELLED";
  desk.pass(seconds(5));
  REQUIRE(desk.gone.size() == 1);
  CHECK_FALSE(desk.gone[0].second.refused);
  CHECK(desk.gone[0].second.why == "its Slurm job 1 was cancelled");
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

TEST_CASE("what there was no Slurm to take is taken back at once") {
  Desk desk;
  desk.place("a");
  REQUIRE(desk.book.take_submission(desk.now));
  desk.book.submitted(Desk::id("a"),
                      fail(ErrorKind::not_found, "sbatch is not on this machine", "Install it."),
                      desk.now);
  CHECK(desk.waits("a") ==
        "Slurm does not answer, it is asked again: sbatch is not on this machine (Install it.)");
  CHECK_FALSE(desk.book.take_submission(desk.now));
  desk.book.kill(Desk::id("a"), desk.now);
  desk.look_in_vain();
  const std::vector<Book::Told> gone = desk.book.take_gone();
  REQUIRE(gone.size() == 1);
  CHECK_FALSE(gone[0].second.refused);
}
