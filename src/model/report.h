#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/id.h"
#include "base/result.h"

namespace trainyard {

// How one rank's first process ended: data, not an Error.
struct RankExit {
  int rank = 0;
  int exit_code = 0;  // As a shell has it: 128+N for signal N, 126 not executable, 127 not found.
  int signal = 0;     // 0: none.

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("rank", self.rank);
    f("exitCode", self.exit_code);
    f("signal", self.signal);
  }
  bool operator==(const RankExit&) const = default;
};

// Why an attempt is over, or its part on one node.
enum class EndCause {
  exited,      // Every rank ended by itself; `exit_code` is that of the first rank to fail, else 0.
  canceled,    // We stopped it because somebody asked.
  time_limit,  // We stopped it because its time was up.
  no_space,    // We stopped it, or its outputs could not be kept: the disk is full.
  prepare_failed,  // It never started: code, folder or program; user code has not run.
  lost,            // Its supervisor or node went away.
  evicted,         // Its node was taken away: the run goes on with the next attempt.
  refused,         // The target will not have it, ever.
  peer_failed,     // Of one node: it was stopped because another one's rank failed.
};
std::string_view to_string(EndCause cause);
Result<EndCause> end_cause_from(std::string_view name);

// Precedes a rank's last lines in AttemptEnd::error: whoever has shown the console cuts there.
inline constexpr std::string_view kLastLinesHead = "; its last lines:\n";

// What an attempt came to.
struct AttemptEnd {
  EndCause cause = EndCause::exited;
  int exit_code = 0;
  int signal = 0;
  int rank = -1;                      // The first rank to fail; -1: none.
  bool ranks_started = false;         // User code may have run.
  std::string error;                  // One plain sentence for people, empty for success.
  std::string outputs;                // The tree of outputs/, a SHA-256; empty: none.
  std::vector<std::string> warnings;  // Plain sentences.
  std::vector<RankExit> ranks;
  double cpu_seconds = 0;
  int64_t memory_peak_bytes = 0;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("cause", self.cause);
    f("exitCode", self.exit_code);
    f("signal", self.signal);
    f("rank", self.rank);
    f("ranksStarted", self.ranks_started);
    f("error", self.error);
    f("outputs", self.outputs);
    f("warnings", self.warnings);
    f("ranks", self.ranks);
    f("cpuSeconds", self.cpu_seconds);
    f("memoryPeakBytes", self.memory_peak_bytes);
  }
  bool operator==(const AttemptEnd&) const = default;
};

// What the supervisor of a node tells, in order. Each carries its node's sequence number (from 1),
// so a report sent twice counts once. Samples have numbers of their own: nobody keeps them, so the
// numbers of what a journal keeps must not depend on them.
enum class ReportKind {
  preparing,    // The supervisor is there and stages code.
  building,     // Its environment is being built: the supervisor waits for it.
  built,        // And is ready; the supervisor prepares the rest.
  ready,        // Of several nodes: code is staged, `host` is set; it waits for Orders::go.
  starting,     // Ranks are being launched.
  running,      // All ranks run; `node` is set.
  finalizing,   // No rank is left but parameter servers; then outputs and logs are captured.
  sample,       // CPU and memory so far.
  rank_failed,  // Of several nodes: `exit` is set, the first to fail there; told at once.
  ended,        // `end` is set; the last report of a node.
};
std::string_view to_string(ReportKind kind);
Result<ReportKind> report_kind_from(std::string_view name);

// What a GPU does, as NVML tells it.
struct GpuSample {
  int index = 0;
  double utilization = 0;  // Percent.
  int64_t memory_bytes = 0;
  double power_watts = 0;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("index", self.index);
    f("utilization", self.utilization);
    f("memoryBytes", self.memory_bytes);
    f("powerWatts", self.power_watts);
  }
  bool operator==(const GpuSample&) const = default;
};

// One of an attempt's nodes, as the others reach it.
struct Host {
  std::string name;
  std::string address;  // Of the interface by which it reaches the server.
  int port = 0;         // Nobody listens there; the ports behind it are free too, one per rank.

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("name", self.name);
    f("address", self.address);
    f("port", self.port);
  }
  bool operator==(const Host&) const = default;
};

struct Report {
  // 0: a sample, whose number is `sample`. An earlier version numbers samples with the rest, and
  // its next supervisor, which does not know them any more, leaves a gap.
  int64_t seq = 0;
  // The number of the report before this one: the server takes this one once it has that one. -1:
  // a supervisor of an earlier version; it sends all it has, and what it leaves out never comes.
  int64_t after = -1;
  int64_t age_us =
      0;  // How long before sending it happened; the server subtracts it from its clock.
  ReportKind kind = ReportKind::preparing;
  std::string detail;      // A few words for the timeline: "214 files, 38 MB".
  std::string node;        // running: the host's name.
  int64_t sample = 0;      // sample: its number, from 1; one that comes twice counts once.
  double cpu_seconds = 0;  // sample: used so far, all processes of the attempt.
  int64_t memory_bytes = 0;
  int64_t memory_peak_bytes = 0;
  std::vector<GpuSample> gpus;  // sample: of the attempt's own.
  Host host;                    // ready.
  RankExit exit;                // rank_failed.
  AttemptEnd end;               // ended.

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("seq", self.seq);
    f("after", self.after);
    f("ageUs", self.age_us);
    f("kind", self.kind);
    f("detail", self.detail);
    f("node", self.node);
    f("sample", self.sample);
    f("cpuSeconds", self.cpu_seconds);
    f("memoryBytes", self.memory_bytes);
    f("memoryPeakBytes", self.memory_peak_bytes);
    f("gpus", self.gpus);
    f("host", self.host);
    f("exit", self.exit);
    f("end", self.end);
  }
  bool operator==(const Report&) const = default;
};

// The server's answer to reports (also to none: a heartbeat), and what GET …/orders waits for.
struct Orders {
  // Reports up to here are kept. Less than was sent: go on behind it; less than before: the
  // server's disk went back in time, and what followed is to be sent again.
  int64_t seq_acknowledged = 0;
  // This start of the server. Another one may have lost what was not synced: all that was sent is
  // to be compared with what it has before the attempt's end is reported.
  std::string epoch;
  bool cancel = false;  // Somebody asked: SIGTERM, grace, SIGKILL.
  // ---- of several nodes ----
  bool go = false;                 // Every node is ready: `hosts` has them all, in their order.
  std::vector<Host> hosts;         // The first one's port is the master's.
  std::string stop;                // Another node's rank failed, in words: stop as for `cancel`.
  bool done = false;               // The workers of all have ended well: so may parameter servers.
  std::vector<std::string> execs;  // Commands to run beside the ranks (`node exec`), by their ids.

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("seqAcknowledged", self.seq_acknowledged);
    f("epoch", self.epoch);
    f("cancel", self.cancel);
    f("go", self.go);
    f("hosts", self.hosts);
    f("stop", self.stop);
    f("done", self.done);
    f("execs", self.execs);
  }
  bool operator==(const Orders&) const = default;
};

}  // namespace trainyard
