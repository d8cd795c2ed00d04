#include "store/run_list.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <set>
#include <thread>

#include "base/fake_clock.h"
#include "base/text.h"
#include "store/attempt_nodes.h"
#include "store/computes.h"
#include "store/deletion.h"
#include "store/environments.h"
#include "store/history.h"
#include "store/labels.h"
#include "store/machines.h"
#include "store/metrics.h"
#include "store/people.h"
#include "store/run_files.h"
#include "store/run_queries.h"
#include "store/secrets.h"
#include "store/vm_sizes.h"
#include "store/workspaces.h"

using namespace trainyard;
using store::RunFilter;
using store::Store;

namespace {

// A connection that notes every statement put to it.
class NotingDb final : public db::Db {
 public:
  explicit NotingDb(db::Db& db) : db_(db) {}

  Result<db::Statement> query_with(std::string_view sql,
                                   std::span<const db::Value> values) override {
    statements.insert(std::string(sql));
    return db_.query_with(sql, values);
  }
  Result<int64_t> run(std::string_view sql, db::Values values) override {
    statements.insert(std::string(sql));
    return db_.run(sql, values);
  }
  Status script(std::string_view sql) override { return db_.script(sql); }
  void give_up_when(std::function<bool()> give_up) override { db_.give_up_when(give_up); }
  Status set_durable(Durable durable) override { return db_.set_durable(durable); }
  bool in_transaction() const override { return db_.in_transaction(); }
  Result<int> version() override { return db_.version(); }
  Status set_version(int version) override { return db_.set_version(version); }
  Status backup_to(const fs::path& file) override { return db_.backup_to(file); }
  Status check() override { return db_.check(); }

  std::set<std::string> statements;

 private:
  db::Db& db_;
};

struct ListHome {
  TempDir dir;
  FakeClock clock;
  std::unique_ptr<Store> store = open();

  std::unique_ptr<Store> open() {
    auto opened = Store::open(dir.path() / "trainyard.db", clock, {.sync = false});
    REQUIRE_MESSAGE(opened, (opened ? "" : opened.error().message));
    return *std::move(opened);
  }

  struct NewRun {
    std::string workspace = "default";
    std::string experiment = "history";
    std::string user = "ada";
    std::string target = "local";
    std::map<std::string, std::string> tags;
    std::string name;
    RunStatus status = RunStatus::queued;
    bool archived = false;
    std::optional<WallTime> deleted;
    std::optional<int64_t> parent;
  };
  int64_t add(const NewRun& wanted) {
    int64_t number = 0;
    const Status added = store->write(Durable::no, [&](db::Transaction& t) -> Status {
      RunSpec spec = store::plain_spec();
      spec.workspace = wanted.workspace;
      spec.experiment = wanted.experiment;
      spec.target = wanted.target;
      spec.tags = wanted.tags;
      spec.display_name = wanted.name;
      TRY_SET(const Workspace in, store::load_workspace(t.db(), wanted.workspace));
      TRY_SET(const int64_t experiment,
              store::get_or_create_experiment(t, in.id, wanted.experiment, clock.wall()));
      const std::string json = wire::dump(wire::encode(spec));
      TRY_SET(store::RunHead head,
              store::insert_run(t, {.id = RunId{"run-" + std::to_string(++made)},
                                    .workspace_id = in.id,
                                    .experiment_id = experiment,
                                    .spec = spec,
                                    .spec_json = json,
                                    .spec_hash = "",
                                    .user = wanted.user,
                                    .created = clock.wall(),
                                    .parent = wanted.parent}));
      head.life.status = wanted.status;
      if (wanted.archived) TRY(store::save_archived(t, head, true));
      number = head.number;
      TRY(store::save_run(t, head));
      TRY(t.run("UPDATE runs SET deleted = ? WHERE number = ?", {wanted.deleted, number}));
      return {};
    });
    REQUIRE(added);
    return number;
  }
  int made = 0;
};

bool has_tag(const Run& run, const RunFilter::Tag& tag) {
  const auto found = run.labels.tags.find(tag.name);
  return found != run.labels.tags.end() && (!tag.value || *tag.value == found->second);
}

bool has_status(const Run& run, std::string_view words) {
  if (words.empty()) return true;
  const auto wanted = split(words, ',');
  return std::ranges::find(wanted, to_string(run.life.status)) != wanted.end();
}

bool fits_deleted(const Run& run, const std::map<std::string, int64_t>& deleted,
                  const RunFilter& filter) {
  if (filter.deleted == RunFilter::Deleted::no) return !run.deleted;
  if (!run.deleted || *run.deleted == store::kDeletedForGood) return false;
  return filter.parent > 0 || filter.children || !deleted.contains(run.parent);
}

// The same filter, the slow way.
bool fits(const Run& run, const std::map<std::string, int64_t>& numbers, const RunFilter& filter) {
  const int64_t parent = run.parent.empty() ? 0 : numbers.at(run.parent);
  const bool listed_deleted = filter.deleted == RunFilter::Deleted::only;
  using enum RunFilter::Archived;
  // A workspace that is named is checked before.
  const bool closed =
      filter.workspace.empty() && std::ranges::any_of(filter.closed, [&](int64_t id) {
        return std::to_string(id) == run.workspace_id;
      });
  return !closed && (filter.workspace.empty() || run.spec.workspace == filter.workspace) &&
         (filter.experiment.empty() || run.spec.experiment == filter.experiment) &&
         has_status(run, filter.status) &&
         (filter.target.empty() || run.spec.target == filter.target) &&
         (filter.user.empty() || run.user == filter.user) &&
         (filter.parent > 0 ? parent == filter.parent
                            : listed_deleted || filter.children || parent == 0) &&
         std::ranges::all_of(filter.tags, [&](const auto& tag) { return has_tag(run, tag); }) &&
         (listed_deleted || filter.archived == any ||
          run.labels.archived == (filter.archived == only)) &&
         (filter.before == 0 || run.number < filter.before);
}

template <class T>
T pick(std::mt19937& random, const std::vector<T>& from) {
  return from[random() % from.size()];
}

RunFilter random_filter(std::mt19937& random, const std::vector<int64_t>& parents) {
  const auto perhaps = [&] { return random() % 3 == 0; };
  RunFilter filter{.limit = static_cast<int>(1 + random() % 40)};
  using Choices = std::vector<std::string>;
  if (perhaps()) filter.workspace = pick(random, Choices{"default", "lab"});
  if (perhaps()) filter.closed = pick(random, std::vector<std::vector<int64_t>>{{1}, {2}, {1, 2}});
  if (perhaps()) filter.experiment = pick(random, Choices{"history", "other", "none"});
  if (perhaps()) {
    filter.status = pick(random, Choices{"Queued", "Running", "Completed", "Failed,Running",
                                         "Preparing,Running", "Canceled,Queued"});
  }
  if (perhaps()) filter.target = pick(random, Choices{"local", "gpu", "none"});
  if (perhaps()) filter.user = pick(random, Choices{"ada", "bob", "nobody"});
  if (perhaps()) filter.tags.push_back({"model", pick(random, Choices{"a", "b", "c", "none"})});
  if (perhaps()) filter.tags.push_back({pick(random, Choices{"team", "none"}), std::nullopt});
  if (perhaps()) filter.parent = pick(random, parents);
  filter.children = perhaps();
  filter.archived = pick(random, std::vector<RunFilter::Archived>{
                                     RunFilter::Archived::no, RunFilter::Archived::no,
                                     RunFilter::Archived::only, RunFilter::Archived::any});
  if (perhaps()) filter.deleted = RunFilter::Deleted::only;
  if (perhaps()) filter.before = static_cast<int64_t>(1 + random() % 300);
  return filter;
}

ListHome::NewRun random_run(std::mt19937& random, const std::vector<int64_t>& parents) {
  const auto perhaps = [&] { return random() % 4 == 0; };
  ListHome::NewRun run{
      .status = pick(random, std::vector<RunStatus>{RunStatus::queued, RunStatus::running,
                                                    RunStatus::preparing, RunStatus::completed,
                                                    RunStatus::failed, RunStatus::canceled})};
  if (perhaps()) run.experiment = "other";
  if (perhaps()) run.user = "bob";
  if (perhaps()) run.target = "gpu";
  if (!perhaps()) run.tags["model"] = pick(random, std::vector<std::string>{"a", "b", "c"});
  if (perhaps()) run.tags["team"] = "x";
  run.archived = perhaps();
  if (perhaps()) run.deleted = WallTime(seconds(1'000));
  if (perhaps()) run.deleted = store::kDeletedForGood;
  if (perhaps()) {
    run.parent = pick(random, parents);
  } else if (perhaps()) {
    run.workspace = "lab";
  }
  return run;
}

// The tables that grow with runs: no statement of a list may read one from end to end.
constexpr std::string_view kLarge[] = {"runs",
                                       "run_specs",
                                       "attempts",
                                       "events",
                                       "run_files",
                                       "snapshots",
                                       "tokens",
                                       "metrics",
                                       "points",
                                       "record_streams",
                                       "attempt_nodes",
                                       "run_tags",
                                       "run_labels",
                                       "r",
                                       "parameters",
                                       "s",
                                       "l",
                                       "t",
                                       "has",
                                       "above",
                                       "p"};

// The statement's plan, where it scans one of them.
std::string scans(db::Db& db, const std::string& sql) {
  const std::vector<db::Value> nothing(static_cast<size_t>(std::ranges::count(sql, '?')),
                                       db::Value(nullptr));
  auto plan = db.query_with("EXPLAIN QUERY PLAN " + sql, nothing);
  REQUIRE_MESSAGE(plan, sql);
  std::string found;
  while (plan->next().value_or(false)) {
    const std::vector<std::string> words = split(plan->text(3), ' ');
    if (words.size() < 2 || words[0] != "SCAN") continue;
    // Partial indexes of what is open: small whatever the history holds.
    if (words.back() == "runs_held" || words.back() == "attempts_unreleased") continue;
    if (std::ranges::find(kLarge, words[1]) != std::end(kLarge)) found += plan->text(3) + "; ";
  }
  return found;
}

}  // namespace

TEST_CASE("every combination of filters finds what a look at every run finds") {
  ListHome home;
  REQUIRE(home.store->create_workspace({.name = "lab", .created_by = "ada"}));
  std::mt19937 random(7);  // NOLINT: the same runs each time.
  const std::vector<int64_t> parents = {home.add({}), home.add({.status = RunStatus::running}),
                                        home.add({.deleted = WallTime(seconds(1'000))})};
  for (int i = 0; i < 300; ++i) home.add(random_run(random, parents));
  const auto all = home.store->runs({.children = true,
                                     .archived = RunFilter::Archived::any,
                                     .deleted = RunFilter::Deleted::any,
                                     .limit = 1000});
  REQUIRE(all);
  REQUIRE(all->size() == 303);
  std::map<std::string, int64_t> numbers;
  std::map<std::string, int64_t> deleted;
  for (const Run& run : *all) {
    numbers[run.id.value] = run.number;
    if (run.deleted) deleted[run.id.value] = run.number;
  }
  int found_some = 0;
  for (int i = 0; i < 3000; ++i) {
    const RunFilter filter = random_filter(random, parents);
    std::vector<int64_t> expected;
    for (const Run& run : *all) {
      if (fits(run, numbers, filter) && fits_deleted(run, deleted, filter)) {
        expected.push_back(run.number);
      }
    }
    if (expected.size() > static_cast<size_t>(filter.limit)) {
      expected.resize(static_cast<size_t>(filter.limit));
    }
    std::vector<int64_t> found;
    REQUIRE(home.store->read([&](db::Db& db) -> Status {
      TRY_SET(found, store::list_run_numbers(db, filter, filter.limit));
      return {};
    }));
    CAPTURE(i);
    REQUIRE(found == expected);
    found_some += found.empty() ? 0 : 1;
  }
  CHECK(found_some > 500);
}

TEST_CASE("a list follows the tags as they change") {
  ListHome home;
  home.add({.tags = {{"model", "a"}, {"old", "1"}}});
  const auto with = [&](const RunFilter::Tag& tag) {
    return home.store->runs({.tags = {tag}}).value().size();
  };
  CHECK(with({"model", "a"}) == 1);
  REQUIRE(home.store->write(Durable::no, [&](db::Transaction& t) -> Status {
    return store::save_labels(t, 1, {.tags = {{"model", "b"}, {"new", ""}}});
  }));
  CHECK(with({"model", "a"}) == 0);
  CHECK(with({"model", "b"}) == 1);
  CHECK(with({"old", std::nullopt}) == 0);
  CHECK(with({"new", ""}) == 1);
}

TEST_CASE("a list by name has runs whose id begins with it and runs that are called so now") {
  ListHome home;
  REQUIRE(home.store->create_workspace({.name = "lab", .created_by = "ada"}));
  home.add({.name = "run-1"});
  home.add({.name = "best"});
  home.add({.workspace = "lab", .name = "best", .status = RunStatus::completed});
  home.add({});
  home.add({.name = "best", .deleted = WallTime(seconds(1'000))});
  const auto named = [&](const std::string& name, const std::string& workspace = {}) {
    std::vector<int64_t> found;
    const auto runs = home.store->runs({.workspace = workspace, .named = name});
    for (const Run& run : *runs) found.push_back(run.number);
    return found;
  };
  CHECK(named("run-1") == std::vector<int64_t>{1});
  CHECK(named("run-") == std::vector<int64_t>{4, 3, 2, 1});
  CHECK(named("best") == std::vector<int64_t>{3, 2});
  CHECK(named("best", "lab") == std::vector<int64_t>{3});
  CHECK(named("bes").empty());
  REQUIRE(home.store->write(Durable::no, [&](db::Transaction& t) -> Status {
    return store::save_labels(t, 2, {.display_name = "worst"});
  }));
  CHECK(named("worst") == std::vector<int64_t>{2});
  CHECK(named("best") == std::vector<int64_t>{3});
  REQUIRE(home.store->delete_workspace("lab"));
  CHECK(named("best").empty());
}

TEST_CASE("no statement of a list scans a table that grows with runs") {
  ListHome home;
  REQUIRE(home.store->create_workspace({.name = "lab", .created_by = "ada"}));
  std::mt19937 random(11);  // NOLINT: the same filters each time.
  const int64_t parent = home.add({});
  for (int i = 0; i < 30; ++i) home.add(random_run(random, {parent}));
  const Status looked = home.store->read([&](db::Db& db) -> Status {
    NotingDb noting(db);
    for (int i = 0; i < 1000; ++i) {
      TRY(store::list_runs(noting, random_filter(random, {parent})));
    }
    TRY(store::list_runs(noting, {.named = "run-1"}));
    const RunId id{"run-1"};
    TRY(store::load_run(noting, id, store::Detail::whole));
    TRY(store::find_run_id(noting, "run-1"));
    TRY(store::count_runs_in(noting, RunStatus::completed));
    TRY(store::count_runs_in(noting, RunStatus::running));
    TRY(store::list_workspaces(noting));
    TRY(store::list_experiments(noting, "default"));
    TRY(store::list_users(noting));
    TRY(store::list_computes(noting, "default"));
    TRY(store::list_run_files(noting, id));
    TRY(store::record_streams(noting, 1));
    static_cast<void>(store::load_series(noting, 1, "loss", 0, 10));
    TRY(store::queue_front(noting, "local", 10));
    TRY(store::count_queued(noting));
    TRY(store::count_queued_before(noting, "local", Priority::normal, 7));
    TRY(store::held_runs(noting));
    TRY(store::live_runs(noting));
    TRY(store::open_children(noting, 1));
    TRY(store::unreleased_attempts(noting));
    CHECK(noting.statements.size() > 50);
    for (const std::string& sql : noting.statements) {
      CAPTURE(sql);
      CHECK(scans(db, sql) == "");
    }
    return {};
  });
  CHECK_MESSAGE(looked, (looked ? "" : looked.error().message));
}

TEST_CASE("a statement that takes too long is ended, and others read meanwhile") {
  constexpr std::string_view kEndless =
      "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT COUNT(*) FROM n";
  TempDir dir;
  MonotoneClock clock;
  auto store = Store::open(dir.path() / "trainyard.db", clock, {.sync = false});
  REQUIRE(store);
  const auto endless = [&](db::Db& db) -> Status {
    TRY_SET(db::Statement rows, db.query(kEndless));
    TRY(rows.next());
    return {};
  };
  const Status tried = (*store)->read(endless, store::ReadKind::first_try);
  REQUIRE(!tried);
  CHECK(tried.error().kind == ErrorKind::cancelled);

  std::atomic<bool> stop = false;
  std::atomic<int> slow = 0;
  const auto until_stopped = [&](db::Db& db) -> Status {
    ++slow;
    while (!stop) TRY(store::list_workspaces(db));
    return {};
  };
  {
    std::vector<std::jthread> readers;
    for (int i = 0; i < 8; ++i) {
      readers.emplace_back([&] { CHECK((*store)->read(until_stopped, store::ReadKind::slow)); });
    }
    while (slow == 0) std::this_thread::yield();
    CHECK((*store)->workspaces());
    CHECK((*store)->read([](db::Db&) { return Status(); }, store::ReadKind::first_try));
    stop = true;
  }
  CHECK(slow == 8);
}
