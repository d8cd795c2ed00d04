#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "model/assignment.h"
#include "model/report.h"
#include "random.h"
#include "scribe.h"

namespace trainyard::sim {

// A supervisor on its node, as far as the server can tell: it goes through its phases, journals
// each, sends what is not acknowledged, and obeys. Its journal outlives it.
class Node {
 public:
  // One of the version before numbers its samples as reports and forgets them when it is killed; it
  // never goes back to where the server is.
  enum class Version { before, current };
  Node(const Assignment& assignment, Version version, Random& random, SteadyTime now);

  struct Entry {
    Report report;
    SteadyTime happened{};
  };

  const AttemptId& id() const { return id_; }
  const Resources& resources() const { return resources_; }
  const std::vector<int>& gpus() const { return gpus_; }
  bool alive() const { return alive_; }
  bool ranks() const { return ranks_; }  // Processes of the user are there.
  bool ranks_ever() const { return ranks_ever_; }
  bool ended() const { return ended_.has_value(); }
  const std::optional<AttemptEnd>& end() const { return ended_; }
  double cpu_seconds() const { return cpu_seconds_; }
  int64_t acknowledged() const { return acknowledged_; }
  const std::vector<Entry>& journal() const { return journal_; }
  int64_t last_seq() const { return seq_; }
  Version version() const { return version_; }
  const std::string& epoch() const { return epoch_; }
  const std::vector<Entry>& samples() const { return samples_; }  // To be sent.
  // An end is sent when the server has all else.
  bool may_end() const { return version_ == Version::before || all_told(); }
  bool all_acknowledged() const { return acknowledged_ == seq_; }
  // What its ranks tell of the run, one each.
  std::vector<Scribe>& scribes() { return scribes_; }
  const std::vector<Scribe>& scribes() const { return scribes_; }

  // When it next does something by itself.
  std::optional<SteadyTime> next_step() const;
  SteadyTime next_send() const { return next_send_; }
  bool mute(SteadyTime now) const { return now < mute_until_; }

  void step(Random& random, SteadyTime now);
  void sent(SteadyTime now) { next_send_ = now + kHeartbeat; }
  // The answer to a message with samples up to number `sample`.
  void take(const Orders& orders, int64_t sample);
  void fall_silent(SteadyTime until) { mute_until_ = until; }
  // With all its processes: they live in its PID namespace.
  void die();
  // A new supervisor on the old journal: it only brings to an end what was.
  void revive(SteadyTime now);

 private:
  static constexpr seconds kHeartbeat{10};

  enum class Stage { placed, preparing, starting, running, finalizing, bereft, ended };

  void run_on(Random& random, SteadyTime now);
  void finish(Random& random, SteadyTime now);
  bool all_told() const;
  void write(Report report, SteadyTime now);
  void write_end(EndCause cause, int exit_code, SteadyTime now);

  AttemptId id_;
  Resources resources_;
  std::vector<int> gpus_;
  std::vector<Scribe> scribes_;
  Version version_;
  std::vector<Entry> journal_;
  std::vector<Entry> samples_;
  int64_t seq_ = 0;
  int64_t sample_count_ = 0;
  int64_t acknowledged_ = 0;
  std::string epoch_;
  Stage stage_ = Stage::placed;
  bool alive_ = true;
  bool ranks_ = false;
  bool ranks_ever_ = false;
  bool cancel_ = false;
  std::optional<AttemptEnd> ended_;
  double cpu_seconds_ = 0;
  int samples_left_ = 0;
  milliseconds pace_{8000};  // A phase takes up to this.
  SteadyTime next_step_{};
  SteadyTime next_send_{};
  SteadyTime mute_until_{};
};

}  // namespace trainyard::sim
