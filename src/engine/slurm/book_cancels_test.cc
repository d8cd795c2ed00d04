// What becomes of what is cancelled, by us or by others.
#include <doctest/doctest.h>

#include "engine/slurm/book_test_desk.h"

using namespace trainyard;
using namespace trainyard::engine;
using namespace trainyard::engine::slurm;

TEST_CASE("a kill cancels until the job is over") {
  Desk desk;
  desk.place("a");
  desk.submit(7, "RUNNING");
  desk.look();
  desk.book.kill(Desk::id("a"), desk.now);
  desk.book.kill(Desk::id("a"), desk.now);
  CHECK(desk.cancels() == Names{"a.1#7"});
  desk.pass(seconds(11));
  CHECK(desk.cancels() == Names{"a.1#7"});  // It was not heard.
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
  CHECK(desk.cancels() == Names{"under way.1#7"});

  desk.place("unsure");
  const auto unsure = desk.book.take_submission(desk.now);
  desk.book.submitted(unsure->id(), fail(ErrorKind::unavailable, "no answer"), desk.now);
  desk.book.kill(unsure->id(), desk.now);
  CHECK(desk.book.take_gone().size() == 1);
  desk.add(unsure->id(), 8, "PENDING");
  desk.look();
  CHECK(desk.cancels() == Names{"unsure.1#8"});
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
  CHECK(desk.cancels() == Names{"a.1#7"});
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
    CHECK(desk.cancels() == Names{"runs.1#8", "waits.1#7"});
    desk.now += seconds(30);
    desk.look_in_vain();
  }
  desk.look();
  CHECK(desk.cancels() == Names{"runs.1#8", "waits.1#7"});
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
    if (!answered) desk.look();  // Which number it has is not known before.
    CHECK(desk.cancels() == Names{"a.1#7"});
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
  CHECK(desk.cancels() == Names{"stays.1#8"});
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
  CHECK(desk.cancels() == Names{"a.1#7"});
  desk.job(7).state = "CANCELLED";
  desk.pass(seconds(10));
  CHECK(desk.gone.empty());
  CHECK(desk.book.inspect(Desk::id("a")) == Placement::unknown);
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
  REQUIRE(desk.gone.size() == 2);
  CHECK(desk.gone[0].first == Desk::id("b", 2));
  CHECK(desk.gone[0].second.refused);
  CHECK(desk.gone[1].first == Desk::id("b", 1));  // Whose reason it is, too.
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

TEST_CASE("a running job that a person cancels starts nothing again, however soon it is seen") {
  Desk desk;
  desk.place("a");
  desk.submit(1, "RUNNING");
  desk.look();
  // Slurm has cancelled it; its supervisor reports an eviction just after, before the attempt is
  // released: the control plane waits with that for the job to end.
  desk.job(1).state = "CANCELLED";
  desk.pass(seconds(1));
  desk.book.place(Desk::assignment("a", 2), desk.now);
  CHECK_FALSE(desk.book.take_submission(desk.now));
  desk.look();
  REQUIRE(desk.gone.size() == 2);
  CHECK(desk.gone[0].first == Desk::id("a", 2));
  CHECK(desk.gone[0].second.refused);
  CHECK(desk.gone[0].second.why.find("cancelled in Slurm") != std::string::npos);

  // The eviction is reported before any look has shown the job at all.
  desk.gone.clear();
  desk.place("b");
  desk.submit(2, "RUNNING");
  desk.book.place(Desk::assignment("b", 2), desk.now);
  CHECK_FALSE(desk.book.take_submission(desk.now));
  desk.job(2).state = "CANCELLED";
  desk.pass(seconds(1));
  REQUIRE(desk.gone.size() == 2);
  CHECK(desk.gone[0].first == Desk::id("b", 2));
  CHECK(desk.gone[0].second.refused);
  CHECK_FALSE(desk.book.next_submit());
}

TEST_CASE("a job that we cancelled ourselves was taken back, not refused") {
  Desk desk;
  desk.place("a");
  desk.submit(1, "RUNNING");
  desk.look();
  desk.book.kill(Desk::id("a"), desk.now);
  CHECK(desk.cancels() == Names{"a.1#1"});
  desk.job(1).state = "CANCELLED";
  desk.pass(seconds(5));
  REQUIRE(desk.gone.size() == 1);
  CHECK_FALSE(desk.gone[0].second.refused);
  CHECK(desk.gone[0].second.why == "its Slurm job 1 was cancelled");
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
