#include <doctest/doctest.h>

#include "base/fake_clock.h"
#include "store/history.h"
#include "store/run_queries.h"
#include "store/run_rows.h"

// Runs that are held for their environments.
using namespace trainyard;

namespace {

struct HeldHome {
  TempDir dir;
  FakeClock clock;
  std::unique_ptr<store::Store> store =
      store::Store::open(dir.path() / "trainyard.db", clock, {.sync = false}).value();

  void add(const std::string& id, const std::string& held, Priority priority = Priority::normal) {
    RunSpec spec = store::plain_spec();
    spec.target = "lab";
    spec.priority = priority;
    change([&](db::Transaction& transaction) -> Status {
      TRY_SET(store::RunHead head,
              store::add_queued_run(transaction, RunId{id}, spec, clock.wall()));
      head.held = held;
      return store::save_run(transaction, head);
    });
  }
  void change(const std::function<Status(db::Transaction&)>& how) {
    const Status done = store->write(Durable::no, how);
    REQUIRE_MESSAGE(done, (done ? "" : done.error().message));
  }
  void look(const std::function<Status(db::Db&)>& how) { REQUIRE(store->read(how)); }
  std::vector<std::string> front() {
    std::vector<std::string> ids;
    look([&](db::Db& db) -> Status {
      TRY_SET(const auto queued, store::queue_front(db, "default/lab", 10));
      for (const store::QueuedRun& run : queued) ids.push_back(run.id.value);
      return {};
    });
    return ids;
  }
};

}  // namespace

TEST_CASE("a run that is held is passed by, and has its place when it is not any more") {
  HeldHome home;
  home.add("first", "8f31c0", Priority::high);
  home.add("second", "");
  home.add("third", "8f31c0");
  home.add("fourth", "");
  CHECK(home.front() == std::vector<std::string>{"second", "fourth"});
  home.look([&](db::Db& db) -> Status {
    TRY_SET(const auto before, store::count_queued_before(db, "default/lab", Priority::normal, 4));
    CHECK(before == 1);
    TRY_SET(const auto between,
            store::count_queued_between(db, "default/lab", Priority::normal, 2, 4));
    CHECK(between == 0);
    TRY_SET(auto counts, store::count_queued(db));
    CHECK(counts["default/lab"].queued == 4);
    CHECK(counts["default/lab"].held == 2);
    TRY_SET(const Run run, store::load_run(db, RunId{"third"}, store::Detail::brief));
    CHECK(run.held == "8f31c0");
    return {};
  });
  home.change([&](db::Transaction& transaction) -> Status {
    TRY_SET(store::RunHead head, store::run_head(transaction.db(), RunId{"first"}));
    CHECK(head.held == "8f31c0");
    head.held.clear();
    return store::save_run(transaction, head);
  });
  CHECK(home.front() == std::vector<std::string>{"first", "second", "fourth"});
}

TEST_CASE("those that are held are found by what they are held for") {
  HeldHome home;
  home.add("run-1", "bb");
  home.add("run-2", "aa");
  home.add("run-3", "");
  home.add("run-4", "aa");
  std::vector<std::string> found;
  home.look([&](db::Db& db) -> Status {
    TRY_SET(const auto runs, store::held_runs(db));
    for (const store::HeldRun& run : runs) found.push_back(run.environment + " " + run.id.value);
    return {};
  });
  CHECK(found == std::vector<std::string>{"aa run-2", "aa run-4", "bb run-1"});
}
