#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "client/attempt.h"
#include "http/client.h"
#include "model/report.h"
#include "supervisor/log_files.h"
#include "supervisor/records.h"
#include "supervisor/spool.h"
#include "supervisor/system_log.h"

namespace trainyard::supervisor {

// What the server told us that the ranks' fate depends on.
struct News {
  bool cancel = false;
  bool fenced = false;     // A newer attempt exists or the run is over: we are not wanted any more.
  bool no_space = false;   // The server's disk is full.
  bool outage = false;     // It has not answered for as long as Options::outage_limit.
  bool abandoned = false;  // Nor since finishing(), for Options::unsent_wait: the rest stays here.
  std::string why;         // Of the latter two.
  // ---- of several nodes ----
  bool go = false;  // All of them are ready.
  std::vector<Host> hosts;
  std::string stop;   // Another one's rank failed, in words.
  bool done = false;  // No node has a worker left.
};

// Everything that goes to the server, on one thread with one connection: reports in order, consoles
// as soon as there is anything, records and files of logs/ about every second, a heartbeat when
// nothing else is said. A server that does not answer is asked again, for ever; nothing is dropped
// meanwhile, it lies in the spool and the journal. Made and used by one thread.
//
// The server says in each answer how far it is, and everything is sent from there: what it lost (a
// disk that went back in time, a backup that was restored) is sent again. When another start of the
// server answers (Orders::epoch), all that was sent is compared with what it has, and the end of
// the attempt is reported under the epoch that was found to have everything.
class Uplink {
 public:
  struct Options {
    http::Address address;
    std::string token;
    AttemptId attempt;
    int node = 0;
    std::string instance;     // AttemptNode::instance.
    int first_rank = 0;       // Of the node: that of the first spool.
    bool resumed = false;     // An earlier supervisor may have sent some of it.
    seconds outage_limit{0};  // Assignment::outage_s; 0: none.
    seconds unsent_wait{0};   // Assignment::unsent_s; 0: for ever.
    fs::path folder;  // Of the attempt: once it is gone, so is everybody who would want to know.
  };
  // `on_news` is called on the uplink's thread when news() has changed, and at the first answer.
  Uplink(Clock& clock, Options options, std::vector<Spool*> spools, LogFiles& files,
         Records& records, SystemLog& log, std::function<void()> on_news);
  ~Uplink();

  void start();

  // Reports go out in the order they come; their numbers are set. Some wait a moment for company: a
  // short run then costs two requests, not six. An end waits for wait_ended().
  void add(const Report& report, SteadyTime happened);
  void console_grew();
  News news();
  void orders_seen(const Orders& orders);  // Any thread.
  void fence(std::string why);
  // Whether the server has answered: it knows that we carry the attempt.
  bool answered();
  // Whether the newest try to reach it has failed.
  bool unreachable();
  // Orders::epoch of the newest answer; empty: none yet, or an earlier version's.
  std::string epoch();

  // No rank is left: what is unsent is waited for, and no longer than Options::unsent_wait.
  void finishing();

  // Waits until all of the consoles and files is acknowledged; to be called when they grow no more.
  enum class Outcome { complete, given_up, fenced, abandoned };
  struct Drained {
    Outcome outcome = Outcome::complete;
    std::string why;
    std::string epoch;  // Of the server that has it all.
  };
  Drained drain();
  // Reports the end, which is report `seq`, to the server that has all else: Drained::epoch. Waits
  // until it is acknowledged. `restarted`: another start of the server has answered, and what it
  // may have lost is to be sent first, by drain() again.
  enum class EndOutcome { acknowledged, restarted, fenced, abandoned };
  EndOutcome wait_ended(int64_t seq, const std::string& epoch);

 private:
  struct Waiting {
    Report report;
    SteadyTime happened;
  };
  // What this round is to do.
  struct Round {
    bool reports = false;
    bool scan = false;
    bool draining = false;
  };
  struct State {
    std::vector<Waiting> reports;  // All that are numbered: the server may want them again.
    std::deque<Waiting> samples;   // Those to be sent.
    SteadyTime reports_due = SteadyTime::max();
    bool console_dirty = false;
    int64_t acknowledged = 0;  // As the newest answer says.
    bool answered = false;
    bool unreachable = false;
    std::string epoch;
    News news;
    std::optional<SteadyTime> finishing;  // Since when.
    bool draining = false;
    bool drained = false;                  // Under `epoch`: another one undoes it.
    std::optional<std::string> end_epoch;  // Under which the end may be reported.
    std::string given_up;
  };

  void run(std::stop_token stop);
  bool next_round(std::stop_token stop, Round& round);
  Status work(const Round& round);
  Status send_reports();
  std::vector<Report> reports_to_send(std::string& epoch);
  void take_answer(std::span<const Report> sent, const Orders& orders);
  void compare_all();
  Status send_consoles();
  Status send_console(size_t rank);
  Status send_files();
  void settle(const Round& round, const Status& status);
  void look_at_outage();
  void settle_failure(const Round& round, const Error& error);
  uint64_t console_pending() const;  // Bytes.

  Clock& clock_;
  const Options options_;
  const std::vector<Spool*> spools_;
  LogFiles& files_;
  Records& records_;
  SystemLog& log_;
  const std::function<void()> on_news_;

  std::mutex mutex_;
  std::condition_variable_any changed_;
  State state_;  // Held by mutex_.

  // The thread's own.
  http::Client client_;
  client::AttemptApi server_;
  std::string buffer_;
  std::vector<uint64_t> sent_;
  std::vector<bool> asked_;  // Whether the server said how much it has.
  size_t first_rank_ = 0;
  SteadyTime heartbeat_at_{};
  SteadyTime scan_at_{};
  SteadyTime console_at_{};
  SteadyTime pause_until_{};
  milliseconds pause_{0};
  int refusals_ = 0;                       // In a row.
  bool reports_refused_ = false;           // The failure just now was that of a report.
  bool away_ = false;                      // The server has not answered for a while.
  SteadyTime answered_at_{};               // The newest answer to reports.
  SteadyTime contact_{};                   // When what it answered was sent: the lease began later.
  std::optional<SteadyTime> stuck_since_;  // The server takes nothing of the rest since.
  bool scanned_last_ = false;

  std::jthread thread_;  // The last: it ends before what it uses.
};

}  // namespace trainyard::supervisor
