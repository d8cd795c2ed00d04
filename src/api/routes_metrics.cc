#include "api/route.h"
#include "store/metrics.h"
#include "store/run_rows.h"
#include "wire/records.h"

// What runs tell of themselves.
namespace trainyard::api {
namespace {

constexpr size_t kRecordsBodyMax = 8 << 20;
constexpr int64_t kRanksMax = 1'000'000;

Json time_json(const Point& point) { return format_time(point.at); }

Json step_json(const Point& point) { return point.step ? Json(*point.step) : Json(); }

Result<http::Response> list_metrics(const Call& call) {
  TRY_SET(const RunId id, readable_run(call));
  Run run;
  std::vector<store::RecordStream> streams;
  const auto look = [&](db::Db& db) -> Status {
    TRY_SET(const store::RunHead head, store::run_head(db, id));
    run.number = head.number;
    TRY(store::add_metrics(db, run));
    TRY_SET(streams, store::record_streams(db, head.number));
    return {};
  };
  TRY(call.house.store.read(look));
  Json metrics = Json::array();
  for (const Metric& metric : run.metrics) {
    metrics.push_back({{"name", metric.name},
                       {"kind", metric.kind},
                       {"points", metric.points},
                       {"last", wire::point_value(metric.last)},
                       {"lastStep", step_json(metric.last)},
                       {"lastAt", time_json(metric.last)}});
  }
  Json taken = Json::object();
  for (const store::RecordStream& stream : streams) {
    taken[std::to_string(stream.attempt) + "/" + std::to_string(stream.rank)] = stream.taken;
  }
  return answer({{"metrics", std::move(metrics)}, {"streams", std::move(taken)}});
}

Result<http::Response> read_series(const Call& call) {
  TRY_SET(const RunId id, readable_run(call));
  const std::string_view name = call.request.query_or("name", "");
  TRY_SET(const int64_t from, query_number(call.request, "from", 0));
  TRY_SET(const int64_t limit, query_number(call.request, "limit", 1000, {1, 10'000}));
  store::SeriesPage page;
  const auto look = [&](db::Db& db) -> Status {
    TRY_SET(const store::RunHead head, store::run_head(db, id));
    TRY_SET(page, store::load_series(db, head.number, name, from, static_cast<int>(limit)));
    return {};
  };
  TRY(call.house.store.read(look));
  Json points = Json::array();
  for (const Point& point : page.points) {
    points.push_back({{"number", point.number},
                      {"at", time_json(point)},
                      {"step", step_json(point)},
                      {"value", wire::point_value(point)}});
  }
  const int64_t next = page.points.empty() ? from : page.points.back().number + 1;
  return answer({{"name", page.metric.name},
                 {"kind", page.metric.kind},
                 {"points", std::move(points)},
                 {"next", next < page.metric.points ? Json(next) : Json()}});
}

// A supervisor's: the bytes of a rank's stream.
Result<http::Response> append_records(const Call& call) {
  TRY_SET(const int64_t rank, parse_int(call.request.param("rank"), "rank"));
  TRY_SET(const int64_t from, query_number(call.request, "from", 0));
  if (rank < 0 || rank > kRanksMax) return fail(ErrorKind::invalid, "rank: is out of range");
  TRY_SET(const int64_t size,
          call.house.control->take_records(*call.identity.attempt, static_cast<int>(rank), from,
                                           call.request.body));
  return http::Response::json("{\"size\":" + std::to_string(size) + "}");
}

// Anybody else's. With a `stream` of the sender's own what is sent twice counts once, as above.
Result<http::Response> add_records(const Call& call) {
  TRY_SET(const RunId id, writable_run(call));
  TRY_SET(const int64_t stream, query_number(call.request, "stream", -1, {0, INT32_MAX}));
  if (stream >= 0) {
    TRY_SET(const int64_t from, query_number(call.request, "from", 0));
    TRY_SET(const int64_t size,
            call.house.control->take_records(AttemptId{id, 0}, static_cast<int>(stream), from,
                                             call.request.body));
    return answer({{"size", size}});
  }
  TRY_SET(const int64_t taken, call.house.control->take_records(id, call.request.body));
  return answer({{"taken", taken}});
}

using enum http::Method;
constexpr RouteRow kMetricsRoutes[] = {
    {get, "/api/v1/runs/{id}/metrics", Needs::reader, Attempts::own_workspace, list_metrics,
     "The run's metrics with their latest values, and how far its records were taken."},
    {get, "/api/v1/runs/{id}/series", Needs::reader, Attempts::own_workspace, read_series,
     "The points of the metric `name`, from number `from` on.", "name from limit"},
    {post, "/api/v1/runs/{id}/records", Needs::submitter, Attempts::own_workspace, add_records,
     "Takes record lines about a run that is not over: {\"taken\"}; by `stream` and `from`, "
     "each byte once: {\"size\"}.",
     "stream from", kRecordsBodyMax},
    {post, "/api/v1/runs/{id}/attempts/{n}/records/{rank}", Needs::attempt, Attempts::allowed,
     append_records, "Appends to a rank's stream of record lines: {\"size\"}.", "from",
     kRecordsBodyMax},
};

}  // namespace

std::span<const RouteRow> metric_routes() { return kMetricsRoutes; }

}  // namespace trainyard::api
