#include "cluster.h"

#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>

#include "base/text.h"

// A cluster of thousands of nodes. SIM_NODES=10000 SIM_RUNS=100000 has the size that bench/
// measures with; the usual one is a tenth of it, for these tests carry sanitizers.
using namespace trainyard;
using sim::Cluster;

namespace {

int from_environment(const char* name, int usual) {
  const char* given = std::getenv(name);
  if (given == nullptr || *given == '\0') return usual;
  const auto number = parse_int(given, name);
  REQUIRE_MESSAGE(number, name, " is not a number");
  return static_cast<int>(*number);
}

}  // namespace

TEST_CASE("thousands of nodes serve their queue in its order, and every run ends once") {
  const int nodes = from_environment("SIM_NODES", 1000);
  const int runs = from_environment("SIM_RUNS", 10'000);
  Cluster cluster({.nodes = nodes, .ahead = nodes / 20});
  cluster.start(Cluster::Sync::no);
  cluster.submit(runs);
  int steps = 0;
  for (; !cluster.all_over() && cluster.broken().empty() && steps < 100'000; ++steps) {
    if (steps % 10 == 5 && steps < 500) cluster.evict(nodes / 100);
    if (steps == 60) cluster.evict(nodes / 5);  // A rack goes, in the middle of a step.
    if (steps == 50) cluster.submit(runs / 100, Priority::high);  // Goes before all that wait.
    if (steps == 100) {
      cluster.stop();
      cluster.start(Cluster::Sync::no);
    }
    cluster.step();
  }
  CHECK_MESSAGE(cluster.broken().empty(), cluster.broken());
  REQUIRE(cluster.all_over());
  cluster.step();  // The last ones are cleared away.
  cluster.check_all();
  CHECK_MESSAGE(cluster.broken().empty(), cluster.broken());
  CHECK(cluster.engine().busy_most() == nodes);
  CHECK(cluster.evictions() > nodes / 10);
  std::printf("sim: %d nodes, %d runs, %d evictions, %d s\n", nodes, runs, cluster.evictions(),
              steps);
}

TEST_CASE("a round of the scheduler is bounded, however much there is to place") {
  Cluster cluster({.nodes = 500, .ahead = 500});
  cluster.start(Cluster::Sync::no);
  cluster.submit(600);
  cluster.control().tick();
  const size_t first = cluster.engine().take_placed().size();
  CHECK(first > 0);
  CHECK(first <= 100);
}
