#include "runtime/proc_table.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>

using namespace trainyard;
using namespace trainyard::runtime;

TEST_CASE("a process named with parentheses, spaces and newlines is read right") {
  const std::string line =
      "42 (a) R 1 (\n) S 7 42 40 0 -1 4194560 100 0 0 0 150 50 10 5 20 0 1 0 9000 1000000 25 "
      "1844\n";
  const Result<ProcessRow> row = parse_stat(line);
  REQUIRE(row);
  CHECK(row->pid == 42);
  CHECK(row->state == 'S');
  CHECK(row->parent == 7);
  CHECK(row->group == 42);
  CHECK(row->cpu_seconds == doctest::Approx(215.0 / static_cast<double>(sysconf(_SC_CLK_TCK))));
  CHECK(row->start_ticks == 9000);
  CHECK(row->memory_bytes == 25 * sysconf(_SC_PAGESIZE));
}

TEST_CASE("a torn line is refused") {
  CHECK_FALSE(parse_stat(""));
  CHECK_FALSE(parse_stat("42 (sh) S 7 42"));
  CHECK_FALSE(parse_stat("no line at all"));
}

TEST_CASE("descendants are found over several generations and others are not") {
  const auto row = [](pid_t pid, pid_t parent) { return ProcessRow{.pid = pid, .parent = parent}; };
  // 9 and 10 are each other's parents: a table read while pids were used again.
  const std::vector<ProcessRow> rows{row(2, 1), row(3, 2),  row(4, 3),
                                     row(5, 1), row(9, 10), row(10, 9)};
  std::vector<pid_t> found;
  for (const ProcessRow& each : descendants(rows, 2)) found.push_back(each.pid);
  std::sort(found.begin(), found.end());
  CHECK(found == std::vector<pid_t>{3, 4});
  CHECK(descendants(rows, 9).size() == 2);
}

TEST_CASE("our own process is in the table") {
  const Result<ProcessRow> self = read_process(getpid());
  REQUIRE(self);
  CHECK(self->parent == getppid());
  CHECK(self->memory_bytes > 0);
  const std::vector<ProcessRow> rows = read_processes();
  CHECK(std::any_of(rows.begin(), rows.end(),
                    [&](const ProcessRow& row) { return row.pid == getpid(); }));
}
