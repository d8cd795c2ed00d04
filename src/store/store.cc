#include "store/store.h"

#include <fcntl.h>

#include "base/check.h"
#include "base/id.h"
#include "store/migrate.h"
#include "store/people.h"
#include "store/readers.h"
#include "store/reserve.h"
#include "store/run_files.h"
#include "store/run_queries.h"
#include "store/workspaces.h"
#include "store/writer.h"

namespace trainyard::store {
namespace {

constexpr int kWriterCacheKb = 2048;

// What every home has.
Status seed(db::Db& db, WallTime now) {
  TRY_SET(db::Transaction transaction, db::Transaction::begin(db, db::Access::write));
  const std::string admin = system_user();
  TRY(
      transaction.run("INSERT INTO users (name, role, created) VALUES (?, 'admin', ?) "
                      "ON CONFLICT (name) DO NOTHING",
                      {admin, now}));
  TRY(
      transaction.run("INSERT INTO workspaces (name, subscription_id, resource_group, created_by, "
                      "created) VALUES ('default', '', '', ?, ?) ON CONFLICT (name) DO NOTHING",
                      {admin, now}));
  return transaction.commit();
}

class SqlStore final : public Store {
 public:
  SqlStore(fs::path database, std::unique_ptr<db::Db> db, Clock& clock, const StoreOptions& options)
      : database_(std::move(database)),
        clock_(clock),
        reserve_(options.reserve),
        writer_(std::move(db), reserve_),
        readers_(database_, clock) {}

  Status write(Durable durable, std::function<Status(db::Transaction&)> change) override {
    return writer_.write(durable, change);
  }
  Status read(const std::function<Status(db::Db&)>& look, ReadKind kind) override {
    return readers_.read(look, kind);
  }
  Status check_space() override { return reserve_.check(); }

  Result<WallTime> newest_time() override { return get<WallTime>(newest_time_in); }
  Result<Run> run(const RunId& id) override {
    return get<Run>([&](db::Db& db) { return load_run(db, id, Detail::whole); });
  }
  Result<RunId> find_run(std::string_view beginning) override {
    return get<RunId>([&](db::Db& db) { return find_run_id(db, beginning); });
  }
  Result<std::vector<Run>> runs(const RunFilter& filter) override {
    return get<std::vector<Run>>([&](db::Db& db) { return list_runs(db, filter); });
  }
  Result<std::vector<Workspace>> workspaces() override {
    return get<std::vector<Workspace>>(list_workspaces);
  }
  Result<Workspace> workspace(std::string_view name) override {
    return get<Workspace>([&](db::Db& db) { return load_workspace(db, name); });
  }
  Result<std::vector<Experiment>> experiments(std::string_view workspace) override {
    return get<std::vector<Experiment>>(
        [&](db::Db& db) { return list_experiments(db, workspace); });
  }
  Result<std::vector<User>> users() override { return get<std::vector<User>>(list_users); }
  Result<std::vector<Token>> tokens() override { return get<std::vector<Token>>(list_tokens); }

  Result<User> create_user(std::string_view name, Role role) override {
    return change<User>(
        [&](db::Transaction& t) { return insert_user(t, name, role, clock_.wall()); });
  }
  Status delete_user(std::string_view name) override {
    return write(Durable::yes,
                 [&](db::Transaction& t) { return remove_user(t, name, clock_.wall()); });
  }
  Result<NewToken> create_token(std::string_view user, std::string_view label,
                                std::optional<WallTime> expires,
                                const TokenLimits& limits) override {
    NewToken made{.secret = new_secret("tyu_")};
    TRY_SET(made.token, change<Token>([&](db::Transaction& t) {
              return insert_token(t, {user, label, made.secret, expires, limits}, clock_.wall());
            }));
    return made;
  }
  Status revoke_token(int64_t id) override {
    return write(Durable::yes,
                 [&](db::Transaction& t) { return revoke_token_of(t, id, clock_.wall()); });
  }
  Result<Identity> identify(std::string_view secret) override {
    return get<Identity>([&](db::Db& db) { return identify_by(db, secret, clock_.wall()); });
  }

  Result<Workspace> create_workspace(const Workspace& workspace) override {
    return change<Workspace>([&](db::Transaction& t) {
      Workspace made = workspace;
      made.created = clock_.wall();
      return insert_workspace(t, std::move(made));
    });
  }
  Status delete_workspace(std::string_view name) override {
    return write(Durable::yes,
                 [&](db::Transaction& t) { return remove_workspace(t, name, clock_.wall()); });
  }

  Result<std::vector<RunFile>> files(const RunId& run) override {
    return get<std::vector<RunFile>>([&](db::Db& db) { return list_run_files(db, run); });
  }
  Result<RunFile> file(const RunId& run, std::string_view path) override {
    TRY_SET(const std::optional<RunFile> known,
            get<std::optional<RunFile>>([&](db::Db& db) { return find_run_file(db, run, path); }));
    if (known) return *known;
    return change<RunFile>([&](db::Transaction& t) { return get_or_create_run_file(t, run, path); },
                           Durable::no);
  }

  // Both on a connection of their own: they take long, and a reader may not write even a copy.
  Status backup_to(const fs::path& database) override {
    TRY_SET(const std::unique_ptr<db::Db> db, db::Db::open(database_, {}));
    TRY_WITHIN("back up the database", db->backup_to(database));
    return {};
  }
  Status check() override {
    TRY_SET(const std::unique_ptr<db::Db> db,
            db::Db::open(database_, {.access = db::Access::read}));
    return db->check();
  }
  Result<int64_t> count_runs(RunStatus status) override {
    return get<int64_t>([&](db::Db& db) { return count_runs_in(db, status); });
  }

 private:
  template <class T, class F>
  Result<T> get(F&& look) {
    std::optional<T> got;
    TRY(read(
        [&](db::Db& db) -> Status {
          TRY_SET(got, look(db));
          return {};
        },
        ReadKind::normal));
    ENSURE(got);
    return *std::move(got);
  }

  template <class T, class F>
  Result<T> change(F&& make, Durable durable = Durable::yes) {
    std::optional<T> made;
    TRY(write(durable, [&](db::Transaction& transaction) -> Status {
      TRY_SET(made, make(transaction));
      return {};
    }));
    ENSURE(made);
    return *std::move(made);
  }

  const fs::path database_;
  Clock& clock_;
  Reserve reserve_;
  Writer writer_;
  Readers readers_;
};

}  // namespace

Result<std::unique_ptr<Store>> Store::open(const fs::path& database, Clock& clock,
                                           const StoreOptions& options) {
  // SQLite would make it readable for all; the files beside it get the modes that it has.
  TRY(open_file(database, O_RDWR | O_CREAT, 0600));
  TRY_SET(std::unique_ptr<db::Db> db,
          db::Db::open(database, {.cache_kb = kWriterCacheKb, .sync = options.sync}));
  TRY_WITHIN(database.string(), migrate(*db, migrations()));
  TRY_WITHIN(database.string(), seed(*db, clock.wall()));
  return std::unique_ptr<Store>(
      std::make_unique<SqlStore>(database, std::move(db), clock, options));
}

Result<WallTime> Store::newest_time_of(const fs::path& database) {
  std::error_code missing;
  if (!fs::exists(database, missing)) return WallTime{};
  TRY_SET(const std::unique_ptr<db::Db> db, db::Db::open(database, {.access = db::Access::read}));
  TRY_SET(const int version, db->version());
  if (version == 0) return WallTime{};
  return newest_time_in(*db);
}

}  // namespace trainyard::store
