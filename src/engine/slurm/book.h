#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"
#include "engine/slurm/patience.h"
#include "engine/slurm/queue_text.h"
#include "engine/slurm/reasons.h"
#include "engine/slurm/scale_policy.h"

namespace trainyard::engine::slurm {

inline bool is_over(const Job& job) { return phase_of(job.state) == Phase::ended; }

// What a Slurm engine knows and decides: no thread, no clock, no Slurm. The engine asks it what to
// do and tells it what came of it. Times are when something was begun or learnt, as it says.
class Book {
 public:
  // `owner`: whose jobs these are, see job_owner().
  Book(std::string owner, Patience patience) : owner_(std::move(owner)), patience_(patience) {}

  // ---- the control plane's wishes ----
  void place(const Assignment& assignment, SteadyTime now);
  void recover(const AttemptId& attempt, SteadyTime now);
  void kill(const AttemptId& attempt, SteadyTime now);
  void release(const AttemptId& attempt, SteadyTime now);
  Placement inspect(const AttemptId& attempt) const;
  // `silence`: why a Slurm that has not failed yet seems not to answer; empty: it does.
  std::string waits_for(const AttemptId& attempt, WallTime now,
                        const std::string& silence = {}) const;
  // Slurm showed its job as waiting when it was asked last, and does answer.
  bool seen_waiting(const AttemptId& attempt) const;
  // Nothing is handed in for as long as there is a reason not to.
  void hold(std::string why) { held_ = std::move(why); }
  bool held() const { return !held_.empty(); }
  // Where nodes find the server.
  void serve_at(std::string url) { server_url_ = std::move(url); }

  // ---- submitting ----
  // The next to hand in, now under way; none: nothing, or not before next_submit().
  std::optional<Assignment> take_submission(SteadyTime now);
  // The same, with those next to it that go together with it and have room in one array.
  using Together = std::function<bool(const Assignment& first, const Assignment& next)>;
  std::vector<Assignment> take_submissions(SteadyTime now, const Together& together);
  std::optional<SteadyTime> next_submit() const;
  // What came of those that were taken together. An array that Slurm refused is handed in again one
  // by one.
  void submitted(const std::vector<AttemptId>& attempts, const Result<int64_t>& number,
                 SteadyTime now);
  void submitted(const AttemptId& attempt, const Result<int64_t>& number, SteadyTime now) {
    submitted(std::vector{attempt}, number, now);
  }

  // ---- looking ----
  SteadyTime next_look() const { return next_look_; }
  void look_soon(SteadyTime now) { next_look_ = std::min(next_look_, now); }
  // `begun`: when the look was; what was submitted after it need not be in it.
  void looked(const Result<std::vector<Job>>& jobs, SteadyTime begun, SteadyTime now);
  void counted(std::vector<Node> nodes) { nodes_ = std::move(nodes); }
  bool anything_waits() const;
  const std::vector<Node>& nodes() const { return nodes_; }
  // Jobs, those to be handed in too, that nodes may be brought up for; in Slurm's order.
  std::vector<ScaleWant> wants() const;
  bool anything_wanted() const { return !wants().empty(); }
  // Why Slurm cannot be asked; empty: it can.
  const std::string& away() const { return away_; }
  // Our runs on each node.
  std::map<std::string, std::vector<RunId>> runs_on_nodes() const;

  // ---- cancelling ----
  struct Cancel {
    AttemptId attempt;
    int64_t number = 0;
    int index = -1;  // In the array of that number and name; -1: it is in none.
    std::string array;
  };
  std::optional<Cancel> take_cancel(SteadyTime now);
  std::optional<SteadyTime> next_cancel() const;

  // What there is to tell, once.
  using Told = std::pair<AttemptId, Engine::Going>;
  std::vector<Told> take_gone() { return std::exchange(gone_, {}); }

 private:
  enum class Stage {
    waiting,     // To be submitted.
    submitting,  // By a thread, just now.
    unsure,      // Slurm has it or has not: the next look tells.
    placed,      // Slurm has it.
    gone,        // Told to be gone, and kept to know it again.
    over,        // Released: forgotten once Slurm has no job of it.
  };
  struct Entry {
    Stage stage = Stage::waiting;
    SteadyTime since{};                    // In this stage.
    std::optional<Assignment> assignment;  // Until Slurm has it; none for what was recovered.
    Resources resources;                   // Of every node; of what was recovered not known.
    int nodes = 1;                         // Until there is a job.
    std::optional<Job> job;                // As seen last.
    size_t order = SIZE_MAX;               // Among Slurm's, as seen last.
    int64_t number = 0;
    int index = -1;                     // In the array of that number;
    std::string array;                  // and its name.
    std::optional<SteadyTime> missing;  // Since when Slurm does not show it.
    std::optional<SteadyTime> ended;
    std::optional<SteadyTime> ending;
    std::optional<SteadyTime> never;
    bool killed = false;
    bool under_way = false;  // Handed in just now, and told to be gone.
    bool cancelled = false;  // By us.
    bool released = false;
    std::optional<SteadyTime> cancel_at;  // Next.
  };
  using Entries = std::map<AttemptId, Entry>;
  struct Seen {
    std::optional<Job> job;
    size_t order = SIZE_MAX;
    std::vector<Job> twins;  // Of the same attempt, besides.
  };

  // Of every array that is seen, by number and name, the places that are.
  using Arrays = std::map<std::pair<int64_t, std::string>, std::set<int>>;

  void set(Entry& entry, Stage stage, SteadyTime now);
  void tell_gone(const AttemptId& attempt, Entry& entry, Engine::Going going, SteadyTime now);
  void taken(const Cancel& job, SteadyTime now);
  void not_taken(const AttemptId& attempt, const Error& error, bool as_array, SteadyTime now);
  struct Whose {
    std::vector<AttemptId> attempts;  // By their place in an array; empty: it is not ours.
    bool unmarked = false;            // Submitted by the version before: no compute is named.
  };
  Whose whose(const Job& job) const;
  std::map<AttemptId, Seen> sort_out(const std::vector<Job>& jobs, const Arrays& arrays) const;
  std::vector<std::pair<AttemptId, Job>> each_of(const Job& job, const Arrays& arrays) const;
  Arrays arrays_in(const std::vector<Job>& jobs) const;
  static bool can_cancel(const Entry& entry);
  static Cancel cancel_of(const AttemptId& attempt, int64_t number, int index, std::string array);
  static std::optional<Job> cut_out(const Entry& entry, const Arrays& arrays, SteadyTime begun);
  void see(const AttemptId& attempt, Entry& entry, const Job& job, SteadyTime now);
  // true: it is to be forgotten.
  bool miss(const AttemptId& attempt, Entry& entry, SteadyTime begun, SteadyTime now);
  void cut_short(const AttemptId& attempt, const Job& job, SteadyTime now);
  SteadyTime free_from(const AttemptId& attempt) const;
  void see_orphan(const AttemptId& attempt, const Job& job, SteadyTime now);
  bool busy() const;
  bool any_killed() const;
  std::string place_in_line(const AttemptId& attempt) const;

  const std::string owner_;
  const Patience patience_;
  Entries entries_;
  std::deque<AttemptId> line_;  // In which order they are submitted.
  struct Doomed {
    SteadyTime at{};  // When it is cancelled.
    Cancel job;
  };
  std::map<AttemptId, Doomed> orphans_;
  std::map<std::pair<AttemptId, int64_t>, Doomed> twins_;
  std::vector<Node> nodes_;
  std::vector<Told> gone_;
  // Runs whose last attempt somebody else cancelled, until the next one of theirs comes.
  struct Cut {
    int attempt = 0;
    std::string words;
    SteadyTime at{};
  };
  std::map<std::string, Cut> cut_;

  SteadyTime next_look_{};
  SteadyTime last_look_{};
  std::optional<SteadyTime> last_away_;  // When Slurm last did not answer.
  SteadyTime no_submit_before_{};
  SteadyTime alone_until_{};
  seconds retry_{1};
  seconds look_pause_{1};
  std::string server_url_;
  std::string held_;
  std::string away_;  // Why Slurm cannot be asked; empty: it can.
  std::string full_;
};

}  // namespace trainyard::engine::slurm
