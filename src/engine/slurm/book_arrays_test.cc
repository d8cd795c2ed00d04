// What a book makes of several attempts that Slurm has as one array.
#include <doctest/doctest.h>

#include <algorithm>

#include "engine/slurm/batch.h"
#include "engine/slurm/book.h"

using namespace trainyard;
using namespace trainyard::engine;
using namespace trainyard::engine::slurm;

namespace {

using Names = std::vector<std::string>;

AttemptId array_id(const std::string& run, int attempt = 1) { return {RunId{run}, attempt}; }

// A book with a Slurm that is a list of jobs, and shows of an array what Slurm would.
struct ArrayDesk {
  Book book{"srv1/3", Patience{}};
  SteadyTime now{seconds(1000)};
  std::vector<Job> jobs;
  std::map<std::string, Engine::Going> gone;

  void place(const Names& runs, int cpus = 1) {
    for (const std::string& run : runs) {
      Assignment made;
      made.run = run;
      made.token = "tya_secret";
      made.spec.resources.cpus = cpus;
      book.place(made, now);
    }
  }
  std::vector<AttemptId> take() {
    std::vector<AttemptId> ids;
    const auto alike = [](const Assignment& a, const Assignment& b) {
      return a.spec.resources == b.spec.resources;
    };
    for (const Assignment& one : book.take_submissions(now, alike)) ids.push_back(one.id());
    return ids;
  }
  static Names names(const std::vector<AttemptId>& ids) {
    Names all;
    for (const AttemptId& one : ids) all.push_back(one.str());
    return all;
  }
  void add(const std::vector<AttemptId>& ids, int64_t number, int index, const std::string& state) {
    Job job;
    job.number = number;
    job.index = index;
    job.state = state;
    job.reason = "Resources";
    job.nodes = 1;
    job.name = name_of(ids);
    job.comment = comment_of("srv1/3", ids);
    jobs.push_back(job);
  }
  // All of them, handed in as an array that Slurm has taken.
  std::vector<AttemptId> submit(const Names& runs, int64_t number) {
    place(runs);
    const std::vector<AttemptId> ids = take();
    REQUIRE(ids.size() == runs.size());
    for (size_t i = 0; i < ids.size(); ++i) add(ids, number, static_cast<int>(i), "PENDING");
    book.submitted(ids, number, now);
    return ids;
  }
  Job& job(const std::string& number) {
    for (Job& one : jobs) {
      if (one.id() == number) return one;
    }
    FAIL("no such job");
    return jobs.front();
  }
  void drop(const std::string& number) {
    std::erase_if(jobs, [&](const Job& one) { return one.id() == number; });
  }
  void pass(seconds time) {
    for (seconds i{0}; i < time; ++i) {
      now += seconds(1);
      book.looked(jobs, now, now);
      for (const Book::Told& told : book.take_gone()) gone[told.first.str()] = told.second;
    }
  }
  Names cancels() {
    Names all;
    while (const auto cancel = book.take_cancel(now)) {
      all.push_back(cancel->index < 0 ? cancel->attempt.str()
                                      : cancel->array + "#" + std::to_string(cancel->number) + "_" +
                                            std::to_string(cancel->index));
    }
    return all;
  }
};

}  // namespace

TEST_CASE("what waits in line and is alike goes together, and nobody is overtaken") {
  ArrayDesk desk;
  desk.place({"a", "b"});
  desk.place({"c"}, 2);
  desk.place({"d"});
  CHECK(ArrayDesk::names(desk.take()) == Names{"a.1", "b.1"});
  CHECK(ArrayDesk::names(desk.take()) == Names{"c.1"});
  CHECK(ArrayDesk::names(desk.take()) == Names{"d.1"});
  CHECK(desk.take().empty());
}

TEST_CASE("each place of an array goes its own way") {
  ArrayDesk desk;
  const auto ids = desk.submit({"a", "b", "c"}, 7);
  desk.pass(seconds(10));
  CHECK(desk.gone.empty());
  desk.job("7_0").state = "FAILED";
  desk.job("7_1").state = "RUNNING";
  desk.pass(seconds(5));
  REQUIRE(desk.gone.size() == 1);
  CHECK(desk.gone.at("a.1").why.find("7_0") != std::string::npos);
  CHECK(desk.book.inspect(ids[1]) == Placement::live);
  CHECK(desk.book.inspect(ids[2]) == Placement::live);
}

TEST_CASE("one place is cancelled by number and name of its array") {
  ArrayDesk desk;
  const auto ids = desk.submit({"a", "b", "c"}, 7);
  desk.book.kill(ids[1], desk.now);
  CHECK(desk.cancels() == Names{"ty-a.1+2#7_1"});
  desk.drop("7_1");  // Slurm shows nothing of a place that was cancelled while it waited.
  desk.pass(seconds(5));
  REQUIRE(desk.gone.size() == 1);
  CHECK_FALSE(desk.gone.at("b.1").refused);
  desk.book.release(ids[1], desk.now);
  desk.pass(seconds(10));
  CHECK(desk.book.inspect(ids[1]) == Placement::unknown);
  CHECK(desk.cancels().empty());
}

TEST_CASE("one that was killed while its array was handed in is cancelled then") {
  ArrayDesk desk;
  desk.place({"a", "b"});
  const auto ids = desk.take();
  desk.book.kill(ids[1], desk.now);
  CHECK(desk.cancels().empty());
  desk.book.submitted(ids, 7, desk.now);
  CHECK(desk.cancels() == Names{"ty-a.1+1#7_1"});
}

TEST_CASE("a place that others cancel while it waits is not started anew") {
  ArrayDesk desk;
  desk.submit({"a", "b", "c"}, 7);
  desk.pass(seconds(1));
  desk.drop("7_1");
  desk.pass(seconds(5));
  REQUIRE(desk.gone.size() == 1);
  CHECK(desk.gone.at("b.1").refused);
}

TEST_CASE("all that waits of an array and is cancelled is told of each") {
  ArrayDesk desk;
  const auto ids = desk.submit({"a", "b", "c"}, 7);
  desk.job("7_0").state = "RUNNING";
  desk.pass(seconds(1));
  desk.drop("7_1");
  desk.drop("7_2");
  desk.add(ids, 7, -1, "CANCELLED");  // So Slurm shows what is left of it.
  desk.pass(seconds(5));
  REQUIRE(desk.gone.size() == 2);
  CHECK(desk.gone.at("b.1").refused);
  CHECK(desk.gone.at("c.1").refused);
  CHECK(desk.book.inspect(ids[0]) == Placement::live);
}

TEST_CASE("places that squeue does not name are those without a line of their own") {
  ArrayDesk desk;
  const auto ids = desk.submit({"a", "b", "c"}, 7);
  desk.job("7_0").state = "RUNNING";
  desk.drop("7_1");
  desk.drop("7_2");
  desk.add(ids, 7, -1, "PENDING");
  desk.pass(seconds(20));
  CHECK(desk.gone.empty());
}

TEST_CASE("an array that a controller has forgotten is lost, whatever has its number now") {
  ArrayDesk desk;
  desk.submit({"a", "b"}, 7);
  desk.pass(seconds(1));
  desk.jobs.clear();
  desk.submit({"c", "d"}, 7);
  desk.pass(seconds(10));
  CHECK(desk.gone.size() == 2);
  CHECK_FALSE(desk.gone.at("a.1").refused);
  CHECK_FALSE(desk.gone.at("b.1").refused);
  CHECK(desk.cancels().empty());
}

TEST_CASE("an array without an answer is found, or handed in again") {
  ArrayDesk desk;
  desk.place({"a", "b", "c"});
  const auto ids = desk.take();
  const auto away = fail(ErrorKind::unavailable, "sbatch: Socket timed out");
  desk.book.submitted(ids, away, desk.now);
  SUBCASE("Slurm has it") {
    desk.add(ids, 7, 0, "RUNNING");
    desk.add(ids, 7, 1, "PENDING");
    desk.add(ids, 7, 2, "PENDING");
    desk.pass(seconds(20));
    CHECK(desk.take().empty());
    desk.book.kill(ids[2], desk.now);
    CHECK(desk.cancels() == Names{"ty-a.1+2#7_2"});
  }
  SUBCASE("Slurm does not have it") {
    desk.pass(seconds(3));
    CHECK(desk.take().empty());
    desk.pass(seconds(5));
    CHECK(desk.take().size() == 3);
  }
  SUBCASE("Slurm has it, and shows it late") {
    desk.pass(seconds(8));
    const auto again = desk.take();
    REQUIRE(again.size() == 3);
    desk.book.submitted(again, 8, desk.now);
    for (int i = 0; i < 3; ++i) desk.add(again, 8, i, i == 1 ? "RUNNING" : "PENDING");
    for (int i = 0; i < 3; ++i) desk.add(ids, 7, i, "PENDING");
    desk.pass(seconds(1));
    Names cancels = desk.cancels();
    std::ranges::sort(cancels);
    CHECK(cancels.size() == 3);  // One of each attempt's two.
    CHECK(std::ranges::count_if(cancels, [](auto& c) { return c.ends_with("#7_1"); }) == 1);
  }
  CHECK(desk.gone.empty());
}

TEST_CASE("after a restart the places of an array are known again, and what nobody wants goes") {
  ArrayDesk desk;
  const std::vector<AttemptId> ids{array_id("a"), array_id("b"), array_id("c")};
  for (int i = 0; i < 3; ++i) desk.add(ids, 7, i, "PENDING");
  desk.book.recover(ids[0], desk.now);
  desk.book.recover(ids[1], desk.now);
  desk.pass(seconds(40));
  CHECK(desk.book.inspect(ids[0]) == Placement::live);
  CHECK(desk.book.inspect(ids[1]) == Placement::live);
  CHECK(desk.cancels() == Names{"ty-a.1+2#7_2"});
}

TEST_CASE("an array that Slurm refuses is handed in one by one, in the same order") {
  ArrayDesk desk;
  desk.place({"a", "b", "c"});
  const auto ids = desk.take();
  desk.book.kill(ids[1], desk.now);
  bool full = false;
  SUBCASE("for it may have none") {}
  SUBCASE("for it has too many jobs") { full = true; }
  desk.book.submitted(
      ids, fail(full ? ErrorKind::conflict : ErrorKind::invalid, "Invalid job array specification"),
      desk.now);
  CHECK(ArrayDesk::names(desk.take()) == Names{"a.1"});
  CHECK(ArrayDesk::names(desk.take()) == Names{"c.1"});
  desk.place({"d", "e"});
  CHECK(ArrayDesk::names(desk.take()) == Names{"d.1"});
  desk.pass(seconds(1));
  CHECK(desk.gone.size() == 1);
  CHECK_FALSE(desk.gone.at("b.1").refused);
  desk.now += Patience{}.alone;
  desk.place({"f"});
  CHECK(ArrayDesk::names(desk.take()) == Names{"e.1", "f.1"});
}
