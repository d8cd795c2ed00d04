// Lines as the filters of a list of runs: whatever they say, SQLite sees values and no SQL.
#include <array>

#include "base/fake_clock.h"
#include "base/file.h"
#include "store/history.h"
#include "store/run_queries.h"
#include "tests/fuzz/input.h"

using namespace trainyard;

namespace {

constexpr int kRuns = 3;

struct House {
  TempDir dir;
  FakeClock clock;
  std::unique_ptr<store::Store> store;

  House() {
    auto opened = store::Store::open(dir.path() / "trainyard.db", clock, {});
    ENSURE(opened);
    store = *std::move(opened);
    const auto filled = store->write(Durable::no, [&](db::Transaction& transaction) -> Status {
      for (int i = 0; i < kRuns; ++i) {
        RunSpec spec = store::plain_spec();
        spec.tags = {{"k" + std::to_string(i), "v"}, {"all", "1"}};
        TRY(store::add_queued_run(transaction, RunId{"run-" + std::to_string(i)}, spec,
                                  clock.wall()));
      }
      return {};
    });
    ENSURE(filled);
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  static House house;
  std::array<std::string, 6> lines;
  std::string_view rest = fuzz::text_of(bytes, size);
  for (std::string& line : lines) {
    const auto [first, after] = fuzz::first_line(rest);
    line = first;
    rest = after;
  }
  store::RunFilter filter{.workspace = lines[0],
                          .experiment = lines[1],
                          .status = lines[2],
                          .target = lines[3],
                          .children = true,
                          .archived = store::RunFilter::Archived::any};
  if (!lines[4].empty()) {
    filter.tags.push_back({lines[4], lines[5].empty() ? std::nullopt : std::optional(lines[5])});
  }
  const auto status = house.store->read([&](db::Db& db) -> Status {
    const auto runs = store::list_runs(db, filter);
    ENSURE(runs || runs.error().kind == ErrorKind::invalid ||
           runs.error().kind == ErrorKind::not_found);
    if (runs) {
      ENSURE(runs->size() <= kRuns);
      for (const Run& run : *runs) {
        if (!filter.experiment.empty()) ENSURE(run.spec.experiment == filter.experiment);
        if (!filter.target.empty()) ENSURE(run.spec.target == filter.target);
        for (const auto& tag : filter.tags) ENSURE(run.spec.tags.contains(tag.name));
      }
    }
    const auto found = store::find_run_id(db, lines[0]);
    ENSURE(found || found.error().kind != ErrorKind::internal);
    return {};
  });
  ENSURE(status);
  return 0;
}
