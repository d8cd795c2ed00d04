#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "engine/slurm/book.h"
#include "engine/slurm/job_script.h"

// What the tests of the book have in common.
namespace trainyard::engine::slurm {

// A book with a Slurm that is a list of jobs.
struct Desk {
  Book book{"srv1/3", Patience{}};
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
    job.comment = comment_of("srv1/3", attempt);
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
      names.push_back(cancel->attempt.str() + "#" + std::to_string(cancel->number));
    }
    return names;
  }
  std::string waits(const std::string& run) {
    return book.waits_for(id(run), WallTime(seconds(1794748255)));
  }
};

using Names = std::vector<std::string>;

}  // namespace trainyard::engine::slurm
