#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "db/db.h"
#include "model/run.h"

// What runs tell of themselves: series of points by name. All that is known of how points are kept
// is behind these functions.
namespace trainyard::store {

// Points of one run, put aside until they are written: a batch of 10,000 costs two statements a
// name and one a point.
class PointBatch {
 public:
  explicit PointBatch(int64_t run) : run_(run) {}

  void add(std::string_view name, std::string_view kind, Point point);
  Status write(db::Transaction& transaction);

 private:
  struct Series {
    std::string name;
    std::string kind;
    std::vector<Point> points;
  };
  static Status write_series(db::Transaction& transaction, int64_t run, const Series& series);

  int64_t run_;
  std::vector<Series> series_;
  std::map<std::string, size_t, std::less<>> by_name_;
};

// Fills in `metrics` and the parameters told by scripts. A latest value of more than 64 kB is left
// out; load_series() has it.
Status add_metrics(db::Db& db, Run& run);
// The same for an entry of a list: at most limits::kEntryFields of each, the first by name, and no
// latest value of more than 1 kB.
Status add_entry_metrics(db::Db& db, Run& run);

// When the newest point of a series was told; none: there is no such metric.
Result<std::optional<WallTime>> last_point_time(db::Db& db, int64_t run, std::string_view name);

Result<bool> has_metric(db::Db& db, int64_t run, std::string_view name);
Result<size_t> count_metrics(db::Db& db, int64_t run);
Result<size_t> count_parameters(db::Db& db, int64_t run);  // Those that scripts told.

struct SeriesPage {
  Metric metric;
  std::vector<Point> points;
};
// not_found
Result<SeriesPage> load_series(db::Db& db, int64_t run, std::string_view name, int64_t from,
                               int limit);

// ---- how far streams of records were taken, in bytes ----
Result<int64_t> records_taken(db::Db& db, int64_t run, int attempt, int rank);
Status set_records_taken(db::Transaction& transaction, int64_t run, int attempt, int rank,
                         int64_t taken);
struct RecordStream {
  int attempt = 0;
  int rank = 0;
  int64_t taken = 0;
};
Result<std::vector<RecordStream>> record_streams(db::Db& db, int64_t run);

}  // namespace trainyard::store
