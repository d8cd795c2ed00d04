#include "store/metrics.h"

#include <algorithm>

#include "base/check.h"
#include "model/limits.h"

namespace trainyard::store {
namespace {

constexpr int kPointsMax = 10'000;       // Of one page.
constexpr int kTextMax = 64 * 1024;      // Of a latest value, in bytes.
constexpr int kEntryTextMax = 1 * 1024;  // The same in a list.

std::optional<std::string_view> text_of(const Point& point) {
  if (point.value && point.text.empty()) return std::nullopt;
  return point.text;
}

Point read_point(const db::Statement& row, int column) {
  Point point;
  point.at = row.time(column);
  if (!row.is_null(column + 1)) point.step = row.integer(column + 1);
  if (!row.is_null(column + 2)) point.value = row.real(column + 2);
  point.text = row.text(column + 3);
  return point;
}

Metric read_metric(const db::Statement& row, int column) {
  Metric metric{.name = row.text(column),
                .kind = row.text(column + 1),
                .points = row.integer(column + 2),
                .last = read_point(row, column + 3)};
  metric.last.number = metric.points - 1;
  return metric;
}

// In the order in which they were first told. The index by name finds the first of 200,000 as
// quickly as the first of ten.
Status add_some(db::Db& db, Run& run, int limit, int text_max) {
  std::vector<std::pair<int64_t, Metric>> found;
  TRY_SET(db::Statement metrics,
          db.query("SELECT id, name, kind, points, last_at, last_step, last_value, "
                   "CASE WHEN length(last_text) <= ? THEN last_text END "
                   "FROM metrics WHERE run = ? ORDER BY name LIMIT ?",
                   {text_max, run.number, limit}));
  while (true) {
    TRY_SET(const bool more, metrics.next());
    if (!more) break;
    found.emplace_back(metrics.integer(0), read_metric(metrics, 1));
  }
  std::ranges::sort(found, {}, &std::pair<int64_t, Metric>::first);
  for (auto& [id, metric] : found) run.metrics.push_back(std::move(metric));
  TRY_SET(db::Statement parameters,
          db.query("SELECT name, value FROM parameters WHERE run = ? ORDER BY name LIMIT ?",
                   {run.number, limit}));
  while (true) {
    TRY_SET(const bool more, parameters.next());
    if (!more) return {};
    run.parameters[parameters.text(0)] = parameters.text(1);
  }
}

}  // namespace

void PointBatch::add(std::string_view name, std::string_view kind, Point point) {
  auto found = by_name_.find(name);
  if (found == by_name_.end()) {
    found = by_name_.emplace(name, series_.size()).first;
    series_.push_back({std::string(name), std::string(kind), {}});
  }
  Series& series = series_[found->second];
  series.kind = kind;
  series.points.push_back(std::move(point));
}

Status PointBatch::write(db::Transaction& transaction) {
  for (const Series& series : series_) TRY(write_series(transaction, run_, series));
  return {};
}

Status PointBatch::write_series(db::Transaction& transaction, int64_t run, const Series& series) {
  const Point& last = series.points.back();
  const auto count = static_cast<int64_t>(series.points.size());
  int64_t metric = 0;
  int64_t number = 0;
  {
    TRY_SET(
        db::Statement row,
        transaction.query(
            "INSERT INTO metrics (run, name, kind, points, last_value, last_text, last_step, "
            "last_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (run, name) DO UPDATE SET "
            "kind = excluded.kind, points = points + excluded.points, "
            "last_value = excluded.last_value, last_text = excluded.last_text, "
            "last_step = excluded.last_step, last_at = excluded.last_at RETURNING id, points",
            {run, series.name, series.kind, count, last.value, text_of(last), last.step, last.at}));
    TRY_SET(const bool any, row.next());
    ENSURE(any);
    metric = row.integer(0);
    number = row.integer(1) - count;
  }
  for (const Point& point : series.points) {
    TRY(transaction.run(
        "INSERT INTO points (metric, number, at, step, value, text) VALUES (?, ?, ?, ?, ?, ?)",
        {metric, number++, point.at, point.step, point.value, text_of(point)}));
  }
  return {};
}

Status add_metrics(db::Db& db, Run& run) { return add_some(db, run, -1, kTextMax); }

Status add_entry_metrics(db::Db& db, Run& run) {
  return add_some(db, run, static_cast<int>(limits::kEntryFields), kEntryTextMax);
}

Result<std::optional<WallTime>> last_point_time(db::Db& db, int64_t run, std::string_view name) {
  TRY_SET(db::Statement row,
          db.query("SELECT last_at FROM metrics WHERE run = ? AND name = ?", {run, name}));
  TRY_SET(const bool any, row.next());
  if (!any) return std::optional<WallTime>();
  return std::optional(row.time(0));
}

Result<bool> has_metric(db::Db& db, int64_t run, std::string_view name) {
  TRY_SET(const std::optional<WallTime> last, last_point_time(db, run, name));
  return last.has_value();
}

Result<size_t> count_metrics(db::Db& db, int64_t run) {
  TRY_SET(db::Statement row, db.query("SELECT COUNT(*) FROM metrics WHERE run = ?", {run}));
  TRY_SET(const bool any, row.next());
  return any ? static_cast<size_t>(row.integer(0)) : 0;
}

Result<size_t> count_parameters(db::Db& db, int64_t run) {
  TRY_SET(db::Statement row, db.query("SELECT COUNT(*) FROM parameters WHERE run = ?", {run}));
  TRY_SET(const bool any, row.next());
  return any ? static_cast<size_t>(row.integer(0)) : 0;
}

Result<SeriesPage> load_series(db::Db& db, int64_t run, std::string_view name, int64_t from,
                               int limit) {
  SeriesPage page;
  int64_t id = 0;
  {
    TRY_SET(db::Statement row,
            db.query("SELECT name, kind, points, last_at, last_step, last_value, last_text, id "
                     "FROM metrics WHERE run = ? AND name = ?",
                     {run, name}));
    TRY_SET(const bool any, row.next());
    if (!any) {
      return fail(ErrorKind::not_found, "metric '" + std::string(name) + "' was not told");
    }
    page.metric = read_metric(row, 0);
    id = row.integer(7);
  }
  TRY_SET(db::Statement rows,
          db.query("SELECT at, step, value, text, number FROM points WHERE metric = ? AND "
                   "number >= ? ORDER BY number LIMIT ?",
                   {id, from, std::clamp(limit, 1, kPointsMax)}));
  while (true) {
    TRY_SET(const bool more, rows.next());
    if (!more) return page;
    Point point = read_point(rows, 0);
    point.number = rows.integer(4);
    page.points.push_back(std::move(point));
  }
}

Result<int64_t> records_taken(db::Db& db, int64_t run, int attempt, int rank) {
  TRY_SET(db::Statement row,
          db.query("SELECT taken FROM record_streams WHERE run = ? AND attempt = ? AND rank = ?",
                   {run, attempt, rank}));
  TRY_SET(const bool any, row.next());
  return any ? row.integer(0) : 0;
}

Status set_records_taken(db::Transaction& transaction, int64_t run, int attempt, int rank,
                         int64_t taken) {
  TRY(
      transaction.run("INSERT INTO record_streams (run, attempt, rank, taken) VALUES (?, ?, ?, ?) "
                      "ON CONFLICT (run, attempt, rank) DO UPDATE SET taken = excluded.taken",
                      {run, attempt, rank, taken}));
  return {};
}

Result<std::vector<RecordStream>> record_streams(db::Db& db, int64_t run) {
  std::vector<RecordStream> streams;
  TRY_SET(db::Statement rows,
          db.query("SELECT attempt, rank, taken FROM record_streams WHERE run = ?", {run}));
  while (true) {
    TRY_SET(const bool more, rows.next());
    if (!more) return streams;
    streams.push_back(
        {static_cast<int>(rows.integer(0)), static_cast<int>(rows.integer(1)), rows.integer(2)});
  }
}

}  // namespace trainyard::store
