// The control plane before a cluster of 10,000 nodes with 100,000 runs in its queue: the real
// control and store, on a real disk, with a simulated cluster (tests/sim/cluster.h).
//
//   control_bench [NODES RUNS]      prints rows of: figure, ours, baseline, bar, met or missed;
//                                   ends with 1 when a rule was broken, whatever the figures
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/text.h"
#include "tests/sim/cluster.h"

using namespace trainyard;
using sim::Cluster;

namespace {

constexpr double kRoundMs = 50;
constexpr double kMemoryMb = 512;
constexpr double kQuickMs = 100;  // Of what a person waits for.
constexpr int kEvictions = 300;
constexpr int kSecondsOfWork = 60;
constexpr int kTimes = 30;

const MonotoneClock machine;

[[noreturn]] void die(const std::string& why) {
  std::fprintf(stderr, "control_bench: %s\n", why.c_str());
  std::exit(1);
}

double ms_of(const std::function<void()>& work) {
  const SteadyTime begun = machine.steady();
  work();
  return static_cast<double>((machine.steady() - begun).count()) / 1e3;
}

double median(std::vector<double> taken) {
  std::sort(taken.begin(), taken.end());
  return taken.empty() ? 0 : taken[taken.size() / 2];
}

double median_ms(const std::function<void()>& work) {
  std::vector<double> taken;
  for (int i = 0; i < kTimes; ++i) taken.push_back(ms_of(work));
  return median(std::move(taken));
}

double worst(const std::vector<double>& taken) {
  return taken.empty() ? 0 : *std::max_element(taken.begin(), taken.end());
}

double memory_peak_mb() {
  const auto text = read_file("/proc/self/status");
  if (!text) die(text.error().message);
  for (const std::string& line : split(*text, '\n')) {
    if (line.starts_with("VmHWM:")) return std::atof(line.c_str() + 6) / 1024;
  }
  return 0;
}

void row(const std::string& figure, const std::string& ours, const std::string& base,
         const std::string& bar, bool met) {
  std::printf("%s\t%s\t%s\t%s\t%s\n", figure.c_str(), ours.c_str(), base.c_str(), bar.c_str(),
              met ? "met" : "missed");
  std::fflush(stdout);
}

void row_ms(const std::string& figure, double ours, const std::string& base, double bar) {
  row(figure, fmt::format("{:.1f} ms", ours), base, fmt::format("<= {:.0f} ms", bar), ours <= bar);
}

template <class T>
void must(const Result<T>& result) {
  if (!result) die(result.error().message);
}

void must_hold(const Cluster& cluster) {
  if (!cluster.broken().empty()) die(cluster.broken());
}

// What people ask while the queue is as long as it gets.
void ask(Cluster& cluster, double submit_empty) {
  control::Control& control = cluster.control();
  const double submit = median_ms([&] { cluster.submit(1, Priority::low); });
  row_ms("  submit", submit, fmt::format("into no queue {:.1f} ms", submit_empty), kQuickMs);
  const RunId last = cluster.queued_last();
  row_ms("  show the last in line, and why it waits", median_ms([&] { must(control.run(last)); }),
         "-", kQuickMs);
  const auto list = [&](const char* what, const store::RunFilter& filter) {
    row_ms(what, median_ms([&] { must(control.runs(filter)); }), "-", kQuickMs);
  };
  list("  list the newest 100", {});
  list("  list 100 that are Queued", {.status = "Queued"});
  list("  list 100 that are Running", {.status = "Running"});
  list("  list 100 of an experiment, Running",
       {.workspace = "default", .experiment = "history", .status = "Running"});
}

void measure(Cluster& cluster, int nodes, int runs) {
  cluster.start(Cluster::Sync::yes);
  const double submit_empty = median_ms([&] { cluster.submit(1, Priority::low); });
  cluster.stop();
  cluster.start(Cluster::Sync::no);
  cluster.submit(runs + nodes + kSecondsOfWork * nodes / 60);
  cluster.stop();
  ::sync();  // What that left to be written is not the scheduler's to wait for.
  const double start = ms_of([&] { cluster.start(Cluster::Sync::yes); });

  while (cluster.engine().busy() < nodes) cluster.step();
  must_hold(cluster);
  for (int i = 0; i < kSecondsOfWork; ++i) {
    cluster.step();
    cluster.settle();
  }
  must_hold(cluster);
  const std::string depth =
      fmt::format("{} nodes, {} queued", cluster.engine().busy(), cluster.queued());
  row_ms("scheduler's round that places, worst", worst(cluster.rounds.placing),
         fmt::format("median of {}: {:.1f} ms", cluster.rounds.placing.size(),
                     median(cluster.rounds.placing)),
         kRoundMs);
  row_ms("  that has nothing to place, worst", worst(cluster.rounds.idle), depth, kRoundMs);
  cluster.rounds = {};
  cluster.evict(kEvictions);
  cluster.settle();
  row_ms(fmt::format("  while {} nodes are taken away, worst", kEvictions),
         std::max(worst(cluster.rounds.placing), worst(cluster.rounds.idle)), "-", kRoundMs);
  ask(cluster, submit_empty);
  row("  memory of the process, at most", fmt::format("{:.0f} MB", memory_peak_mb()), "-",
      fmt::format("<= {:.0f} MB", kMemoryMb), memory_peak_mb() <= kMemoryMb);
  row("  start of a server with them", fmt::format("{:.2f} s", start / 1e3), "-", "<= 5 s",
      start <= 5000);
}

int count_of(const char* word) {
  const auto number = parse_int(word, "a count");
  if (!number || *number < 1) die("use: control_bench [NODES RUNS]");
  return static_cast<int>(*number);
}

}  // namespace

int main(int argc, char** argv) {
  const int nodes = argc > 2 ? count_of(argv[1]) : 10'000;
  const int runs = argc > 2 ? count_of(argv[2]) : 100'000;
  Cluster cluster({.nodes = nodes, .ahead = 500});
  measure(cluster, nodes, runs);
  // And all of them to their end, with one more restart, to see that nothing was got wrong on the
  // way.
  cluster.stop();
  cluster.start(Cluster::Sync::no);
  const double rest = ms_of([&] {
    while (!cluster.all_over() && cluster.broken().empty()) cluster.step();
  });
  must_hold(cluster);
  cluster.step();
  cluster.check_all();
  must_hold(cluster);
  std::fprintf(stderr, "all ended, once and in order; the last of them took %.0f s\n", rest / 1e3);
  return 0;
}
