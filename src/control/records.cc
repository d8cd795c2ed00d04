#include "wire/records.h"

#include <algorithm>
#include <set>

#include "base/hash.h"
#include "control/all_runs.h"
#include "control/insert.h"
#include "model/limits.h"
#include "store/labels.h"
#include "store/metrics.h"
#include "store/run_queries.h"
#include "store/warnings.h"

namespace trainyard::control {
namespace {

constexpr int kDepthMax = 16;  // Of children of children.

// Records being taken, inside the transaction. Points are put aside and written at the end; labels
// are loaded once a run and saved once.
class Taker {
 public:
  Taker(db::Transaction& transaction, const store::RunHead& head, WallTime now)
      : transaction_(transaction), head_(head), now_(now) {}

  Status take(const wire::Record& record);
  Status finish();

  std::vector<RunId> changed;          // Besides the run itself: its children.
  std::optional<std::string> failure;  // Why the script says that the run is to fail.

 private:
  struct About {
    store::RunHead head;
    store::PointBatch points;
    std::optional<Labels> labels;
    // How many it has, counted when the first new one comes, and which are known to be there.
    std::optional<size_t> metric_count;
    std::optional<size_t> parameter_count;
    std::set<std::string> metrics;
  };
  Result<About*> find(const std::string& child);
  Status check_descends(const RunId& id);
  Result<Labels*> labels_of(About& about);
  Status check_metric(About& about, const std::string& name);
  Status check_parameter(About& about, const wire::Record& record);
  Status add_child(const wire::Record& record);
  Status end_child(const wire::Record& record);
  Status write(About& about);
  Status close(const RunId& child);

  db::Transaction& transaction_;
  const store::RunHead& head_;
  const WallTime now_;
  std::map<std::string, About> about_;  // By id.
  std::map<int64_t, size_t> children_;  // Of a run's number: those that are open.
};

// Only the run itself and its children, that are not over.
Result<Taker::About*> Taker::find(const std::string& child) {
  const std::string& id = child.empty() ? head_.id.value : child;
  const auto found = about_.find(id);
  if (found != about_.end()) return &found->second;
  store::RunHead head = head_;
  if (id != head_.id.value) {
    TRY_SET(head, store::run_head(transaction_.db(), RunId{child}));
    TRY(check_descends(head.id));
    if (is_final(head.life.status)) {
      return fail(ErrorKind::conflict, "run " + child + " is over");
    }
    changed.push_back(head.id);
  }
  const int64_t number = head.number;
  return &about_.emplace(id, About{std::move(head), store::PointBatch(number), {}, {}, {}, {}})
              .first->second;
}

// A child, or a child of one.
Status Taker::check_descends(const RunId& id) {
  RunId at = id;
  for (int depth = 0; depth < kDepthMax; ++depth) {
    TRY_SET(const Run run, store::load_run(transaction_.db(), at, store::Detail::brief));
    if (run.parent == head_.id.value) return {};
    if (run.parent.empty()) break;
    at = RunId{run.parent};
  }
  return fail(ErrorKind::denied, "run " + id.value + " is no child of " + head_.id.value);
}

Result<Labels*> Taker::labels_of(About& about) {
  if (!about.labels) {
    TRY_SET(about.labels, store::load_labels(transaction_.db(), about.head.number));
  }
  return &*about.labels;
}

Status Taker::take(const wire::Record& record) {
  if (record.kind == wire::RecordKind::child) return add_child(record);
  if (record.kind == wire::RecordKind::end) return end_child(record);
  TRY_SET(About * about, find(record.run));
  switch (record.kind) {
    case wire::RecordKind::points:
      TRY(check_metric(*about, record.name));
      for (const Point& point : record.points) {
        about->points.add(record.name, record.metric_kind, point);
      }
      return {};
    case wire::RecordKind::parameter:
      TRY(check_parameter(*about, record));
      return store::set_parameter(transaction_, about->head.number, record.name, record.value);
    case wire::RecordKind::tag: {
      TRY_SET(Labels * labels, labels_of(*about));
      if (record.removes) {
        labels->tags.erase(record.name);
        return {};
      }
      TRY(limits::check_pair("tag", record.name, record.value));
      if (!labels->tags.contains(record.name)) {
        TRY(limits::check_count("tags", labels->tags.size() + 1, limits::kTags));
      }
      labels->tags[record.name] = record.value;
      return {};
    }
    case wire::RecordKind::property: {
      TRY_SET(Labels * labels, labels_of(*about));
      TRY(limits::check_pair("property", record.name, record.value));
      TRY(limits::check_count("properties", labels->properties.size() + 1, limits::kProperties));
      labels->properties.emplace(record.name, record.value);  // The first stays.
      return {};
    }
    case wire::RecordKind::child:
    case wire::RecordKind::end:
      break;
  }
  return {};
}

// A name more than a run may have is not taken; points of the others are.
Status Taker::check_metric(About& about, const std::string& name) {
  if (about.metrics.contains(name)) return {};
  TRY_SET(const bool known, store::has_metric(transaction_.db(), about.head.number, name));
  if (!known) {
    if (!about.metric_count) {
      TRY_SET(about.metric_count, store::count_metrics(transaction_.db(), about.head.number));
    }
    TRY(limits::check_count("metrics", *about.metric_count + 1, limits::kMetrics));
    ++*about.metric_count;
  }
  about.metrics.insert(name);
  return {};
}

Status Taker::check_parameter(About& about, const wire::Record& record) {
  TRY(limits::check_pair("parameter", record.name, record.value));
  if (!about.parameter_count) {
    TRY_SET(about.parameter_count, store::count_parameters(transaction_.db(), about.head.number));
  }
  // Counts one that is set again, too: the next batch counts anew.
  TRY(limits::check_count("parameters", *about.parameter_count + 1, limits::kParameters));
  ++*about.parameter_count;
  return {};
}

Status Taker::add_child(const wire::Record& record) {
  TRY(check_name(record.run, "run id"));
  TRY_SET(const auto known, store::find_run_head(transaction_.db(), RunId{record.run}));
  if (known) return {};  // An attempt before told of it.
  TRY_SET(const About* above, find(record.parent));
  const store::RunHead& parent_head = above->head;
  // Counted once a batch: a script may make thousands at once.
  const auto [known_count, first] = children_.emplace(parent_head.number, 0);
  if (first) {
    TRY_SET(const auto siblings, store::open_children(transaction_.db(), parent_head.number));
    known_count->second = siblings.size();
  }
  TRY(limits::check_count("children", ++known_count->second, limits::kChildren));
  TRY_SET(const Run parent, store::load_run(transaction_.db(), head_.id, store::Detail::brief));
  Submission submission{.id = RunId{record.run}, .spec = {}, .user = parent.user};
  submission.spec.workspace = parent.spec.workspace;
  submission.spec.experiment = parent.spec.experiment;
  submission.spec.display_name = record.name;
  submission.spec.target = parent.spec.target;
  submission.spec.parent = parent_head.id.value;
  submission.spec.interactive = true;
  const std::string json = wire::dump(wire::encode(submission.spec));
  TRY(insert(transaction_, {.submission = submission,
                            .spec_json = json,
                            .spec_hash = sha256(json).hex(),
                            .snapshot = {},
                            .reason = {},
                            .now = now_}));
  return {};
}

Status Taker::end_child(const wire::Record& record) {
  TRY_SET(About * about, find(record.run));
  TRY_SET(const RunStatus status, run_status_from(record.value));
  if (about->head.id == head_.id) {
    // The supervisor ends the run when its processes end; until then only the reason is kept.
    if (status == RunStatus::failed) failure = record.error;
    return {};
  }
  TRY_SET(const Applied applied,
          apply(transaction_, about->head, EndedOutside{status, record.error}, {.at = now_}));
  TRY(close(about->head.id));
  for (const RunId& child : applied.children) {
    TRY(close(child));
    changed.push_back(child);
  }
  return {};
}

Status Taker::write(About& about) {
  TRY(about.points.write(transaction_));
  if (about.labels) TRY(store::save_labels(transaction_, about.head.number, *about.labels));
  return {};
}

// What a child told before its end is kept; its row, as we know it, is not the newest any more.
Status Taker::close(const RunId& child) {
  const auto found = about_.find(child.value);
  if (found == about_.end()) return {};
  TRY(write(found->second));
  about_.erase(found);
  return {};
}

Status Taker::finish() {
  for (auto& [child, about] : about_) {
    TRY(write(about));
    // Its readers are to see it; the run's own row is saved by the caller.
    if (about.head.id != head_.id) TRY(store::save_run(transaction_, about.head));
  }
  return {};
}

// Calls `each` for every whole line; returns how many bytes they are.
template <class Each>
Result<size_t> for_lines(std::string_view bytes, Each each) {
  size_t at = 0;
  while (true) {
    const size_t end = bytes.find('\n', at);
    if (end == std::string_view::npos) return at;
    if (end > at) TRY(each(bytes.substr(at, end - at)));
    at = end + 1;
  }
}

Status check_open(const store::RunHead& head) {
  if (!is_final(head.life.status)) return {};
  return fail(ErrorKind::conflict,
              "run " + head.id.value + " is over: " + std::string(to_string(head.life.status)));
}

struct Counts {
  int64_t taken = 0;
  int64_t skipped = 0;
  struct Cause {
    std::string first;  // The message of the first record that was skipped for it.
    int64_t count = 0;
  };
  std::map<std::string, Cause> causes;
  Cause others;  // All that are more than a run has warnings for.
};

// The message without the names in it: records of many names may be skipped for one cause.
std::string cause_of(std::string_view message) {
  std::string cause;
  for (size_t at = 0; at < message.size();) {
    const size_t quote = message.find('\'', at);
    cause += message.substr(at, quote - at);
    if (quote == std::string_view::npos) break;
    const size_t end = message.find('\'', quote + 1);
    at = end == std::string_view::npos ? message.size() : end + 1;
  }
  return cause;
}

Status take_record(Taker& taker, std::string_view line, WallTime now) {
  try {
    TRY_SET(const wire::Record record, wire::parse_record(line, now));
    return taker.take(record);
  } catch (const std::exception& error) {
    // Sent again it would throw again: for its sender this is a line that is no record.
    return fail(ErrorKind::invalid, error.what());
  }
}

Status take_line(Taker& taker, std::string_view line, WallTime now, Counts& counts) {
  Status taken = take_record(taker, line, now);
  if (taken) {
    ++counts.taken;
    return {};
  }
  // What the script wrote wrongly is its own affair; what the disk says is ours.
  const ErrorKind kind = taken.error().kind;
  if (kind == ErrorKind::no_space || kind == ErrorKind::unavailable ||
      kind == ErrorKind::internal) {
    return taken;
  }
  ++counts.skipped;
  std::string cause = cause_of(taken.error().message);
  const bool full = counts.causes.size() >= store::kCausesMax && !counts.causes.contains(cause);
  Counts::Cause& one = full ? counts.others : counts.causes[cause];
  if (one.count++ == 0) one.first = taken.error().message;
  return {};
}

// A line that is no record counts as taken, so that nobody sends it for ever; the run says so.
Status warn_of_skipped(db::Transaction& transaction, const store::RunHead& head,
                       const Counts& counts) {
  const auto warn = [&](const std::string& cause, const Counts::Cause& skipped) {
    return store::warn_run(transaction, head.number,
                           {.kind = "records_skipped",
                            .cause = cause,
                            .text = "a record was not taken: " + skipped.first,
                            .count = skipped.count});
  };
  for (const auto& [cause, skipped] : counts.causes) TRY(warn(cause, skipped));
  if (counts.others.count > 0) TRY(warn("others", counts.others));
  return {};
}

}  // namespace

Result<int64_t> AllRuns::take_records(const AttemptId& attempt, int rank, int64_t from,
                                      std::string_view bytes) {
  int64_t taken = 0;
  Counts counts;
  std::vector<RunId> changed;
  const auto change = [&](db::Transaction& transaction) -> Status {
    counts = {};
    TRY_SET(store::RunHead head, store::run_head(transaction.db(), attempt.run));
    TRY(attempt.number == 0 ? check_open(head) : check_live(head, attempt));
    TRY_SET(taken, store::records_taken(transaction.db(), head.number, attempt.number, rank));
    const auto size = static_cast<int64_t>(bytes.size());
    if (from > taken || from + size <= taken) return {};
    const WallTime now = parts_.clock.wall();
    Taker taker(transaction, head, now);
    TRY_SET(const size_t whole,
            for_lines(bytes.substr(static_cast<size_t>(taken - from)),
                      [&](std::string_view line) { return take_line(taker, line, now, counts); }));
    if (whole == 0) return {};
    TRY(taker.finish());
    if (taker.failure && attempt.number > 0 && !head.life.cancel_asked) {
      head.life.error = taker.failure->empty() ? "failed" : *taker.failure;
    }
    TRY(warn_of_skipped(transaction, head, counts));
    taken += static_cast<int64_t>(whole);
    TRY(store::set_records_taken(transaction, head.number, attempt.number, rank, taken));
    TRY(store::save_run(transaction, head));
    changed = std::move(taker.changed);
    changed.push_back(head.id);
    return {};
  };
  // A supervisor has its bytes until the run is over; a program outside drops them at our answer.
  TRY(parts_.store.write(attempt.number == 0 ? Durable::yes : Durable::no, change));
  if (counts.skipped > 0) {
    parts_.log.warn("records skipped", {{"attempt", attempt.str()}, {"lines", counts.skipped}});
  }
  if (parts_.changed) {
    for (const RunId& run : changed) parts_.changed(run);
  }
  return taken;
}

Result<int64_t> AllRuns::take_records(const RunId& run, std::string_view lines) {
  Counts counts;
  std::vector<RunId> changed;
  const auto change = [&](db::Transaction& transaction) -> Status {
    counts = {};
    TRY_SET(store::RunHead head, store::run_head(transaction.db(), run));
    TRY(check_open(head));
    const WallTime now = parts_.clock.wall();
    Taker taker(transaction, head, now);
    TRY(for_lines(lines,
                  [&](std::string_view line) { return take_line(taker, line, now, counts); }));
    TRY(taker.finish());
    TRY(warn_of_skipped(transaction, head, counts));
    TRY(store::save_run(transaction, head));
    changed = std::move(taker.changed);
    changed.push_back(head.id);
    return {};
  };
  TRY(parts_.store.write(Durable::yes, change));
  if (parts_.changed) {
    for (const RunId& id : changed) parts_.changed(id);
  }
  return counts.taken;
}

}  // namespace trainyard::control
