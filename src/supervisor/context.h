#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "model/assignment.h"
#include "runtime/memory_group.h"
#include "runtime/ranks.h"
#include "supervisor/environment.h"
#include "supervisor/history.h"
#include "supervisor/journal.h"
#include "supervisor/layout.h"
#include "supervisor/log_files.h"
#include "supervisor/node_host.h"
#include "supervisor/orders_watch.h"
#include "supervisor/outcome.h"
#include "supervisor/secrets.h"
#include "supervisor/spool.h"
#include "supervisor/system_log.h"
#include "supervisor/unkept_files.h"
#include "supervisor/uplink.h"

namespace trainyard::supervisor {

// What the steps of an attempt work with. Used by the main thread.
struct Context {
  Clock& clock;
  const Assignment& assignment;
  const Layout& layout;
  Journal& journal;
  SystemLog& log;
  LogFiles& log_files;
  Uplink& uplink;
  std::vector<std::unique_ptr<Spool>>& spools;
  runtime::RankSet* ranks = nullptr;        // None when another supervisor's attempt is ended.
  runtime::RankSet* preparation = nullptr;  // None where the run has none.
  const Secrets* secrets = nullptr;
  int wake_fd = -1;    // Readable when the uplink has news.
  int signal_fd = -1;  // SIGTERM and the like, to us.
  int64_t seq = 0;     // The last number given to a report.
  int64_t after = 0;   // The last report that is sent: an earlier version's samples are not.
  int64_t samples = 0;
  std::string outputs_epoch;  // Uplink::epoch() when the outputs were sent.
  Facts facts;
  EnvironmentUse environment;
  std::optional<SteadyTime> prepared_since;  // When the preparation began: time limits count it.
  std::vector<Host> hosts;         // Every node, once the ranks may start; for ranks that meet.
  std::optional<HeldPorts> ports;  // This node's, until the ranks start.
  int64_t memory_limit = 0;        // Of the ranks on this node; 0: none that is ours to keep.
  std::optional<runtime::MemoryGroup> memory_group;  // None: their memory is watched.
  std::unique_ptr<OrdersWatch> orders;               // While the ranks live, or are waited for.
  // The working folder's when the ranks started; none after another supervisor started them.
  std::optional<WorkingFiles> files_before;
  std::optional<client::ExecSetting> execs;  // For commands beside the ranks, once those are begun.

  // Writes it down. A full disk stops the attempt.
  void note(const std::string& record);
  // Writes it down, then sends it. The sequence number and the time are set here. A sample is not
  // written down: the next one says as much.
  void report(Report report);
  void report(ReportKind kind, std::string detail = {});
  // The ranks are to be stopped, for the first of all reasons.
  void stop(EndCause cause, std::string text);
  // Somebody on this node wants us gone. On a cluster that is the node being taken away: the run
  // goes on elsewhere.
  void stop_by_signal(std::string_view name);
  // The same, cut off from the server for as long as the attempt may be.
  void stop_cut_off();
  // From now on the server's orders are heard at once.
  void watch_orders();
  // And its commands carried out (`node exec`).
  void open_execs(client::ExecSetting setting);
  // A reason to stop before anything was started.
  bool stops_early();
  // The ranks will not be started.
  void fail_prepare(PrepareFailure failure);

  // Again and again while the server is away, until we are not wanted any more.
  Status try_until_answered(const std::function<Status()>& action);
  // Whether to give an action up that fails with `unavailable`: the server answers our reports and
  // has not been able to serve it for ten minutes. `since` is the caller's, none at first.
  bool gives_up(std::optional<SteadyTime>& since);

  // The number of a rank of this node among all.
  int global_rank(int local) const;
  bool fenced() { return uplink.news().fenced; }
  // Where the server is, for a connection of one's own.
  http::Address server() const;
};

// "no space left on device: write /…"
std::string no_space_text(const Error& error);
// Of an assignment.
http::Address server_address(const Assignment& assignment);

}  // namespace trainyard::supervisor
