#include "store/history.h"

#include <chrono>

namespace trainyard::store {
namespace {

constexpr std::string_view kNumbers =
    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) ";

}  // namespace

Status add_finished_runs(Store& store, int count) {
  const RunSpec spec = plain_spec();
  const std::string json = wire::dump(wire::encode(spec));
  const WallTime at{std::chrono::hours(24 * 365 * 30)};
  const std::string numbers(kNumbers);
  return store.write(Durable::no, [&](db::Transaction& t) -> Status {
    TRY_SET(const int64_t experiment, get_or_create_experiment(t, 1, spec.experiment, at));
    TRY(t.run("INSERT INTO runs " + numbers +
                  "SELECT i, printf('old-run-%08d', (i * 7919) % 99999989), 9, 1, ?, 'ada', "
                  "'local', 1, 0, CASE WHEN i % 10 = 0 THEN 'Failed' ELSE 'Completed' END, 1, 1, "
                  "0, 0, 0, '', 7, ?, ?, ?, ?, '', 0, 0, '', 1, 0, 0, '', 0, NULL, 0, 'local', "
                  "1, '', CASE WHEN i % 10 = 0 THEN 'Failed' ELSE 'Completed' END, NULL "
                  "FROM n",
              {count, experiment, at, at, at, at}));
    TRY(t.run("INSERT INTO run_specs " + numbers + "SELECT i, ? FROM n", {count, json}));
    TRY(t.run("INSERT INTO attempts " + numbers +
                  "SELECT i, 1, 'here', ?, ?, ?, 'ended', 6, 0.1, 0, 0, '', 1, '', 0, '', 0 FROM n",
              {count, at, at, at}));
    TRY(t.run("INSERT INTO events " + numbers +
                  ", k (seq, kind) AS (VALUES (1, 'submitted'), (2, 'queued'), (3, "
                  "'provisioning'), (4, 'preparing'), (5, 'starting'), (6, 'running'), (7, "
                  "'ended')) SELECT i, seq, ?, 1, kind, '' FROM n, k",
              {count, at}));
    TRY(t.run("INSERT INTO tokens (hash, kind, user_name, label, created, run, attempt) " +
                  numbers +
                  "SELECT lower(hex(randomblob(32))), 'attempt', 'ada', '', ?, i, 1 FROM n",
              {count, at}));
    return {};
  });
}

}  // namespace trainyard::store
