#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <vector>

#include "base/check.h"
#include "db/db.h"

// The one door of SQLite.
namespace trainyard::db {
namespace {

constexpr int kBusyTimeoutMs = 10'000;      // Another process: a backup or sqlite3(1) by hand.
constexpr size_t kStatementsMax = 200;      // We have about a hundred; a bound against a mistake.
constexpr int kWalCheckpointPages = 2'000;  // 8 MB: a checkpoint's two syncs every ~1,000 changes.
constexpr int kStepsBetweenAsking = 2'000;  // Of SQLite's machine; some 50 µs.
constexpr int kFindingsMax = 5;             // Of a check; the first ones tell.

constexpr const char* kDamagedHint =
    "The database is damaged. Look at it with: trainyard server check, and bring back a backup "
    "with: trainyard server restore";

ErrorKind kind_of(int code, int system_errno) {
  switch (code & 0xff) {
    case SQLITE_FULL:
      return ErrorKind::no_space;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return ErrorKind::unavailable;
    case SQLITE_CONSTRAINT:
      return ErrorKind::conflict;
    case SQLITE_PERM:
    case SQLITE_READONLY:
    case SQLITE_AUTH:
      return ErrorKind::denied;
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
      if (system_errno == ENOSPC || system_errno == EDQUOT) return ErrorKind::no_space;
      if (system_errno == EACCES || system_errno == EPERM) return ErrorKind::denied;
      return ErrorKind::unavailable;
    case SQLITE_TOOBIG:
      return ErrorKind::invalid;
    case SQLITE_INTERRUPT:
      return ErrorKind::cancelled;
    default:
      return ErrorKind::internal;
  }
}

std::unexpected<Error> sqlite_error(sqlite3* db, int code, std::string_view doing) {
  const int extended = db != nullptr ? sqlite3_extended_errcode(db) : code;
  const int number = db != nullptr ? sqlite3_system_errno(db) : 0;
  std::string message = std::string(doing) + ": ";
  message += db != nullptr ? sqlite3_errmsg(db) : sqlite3_errstr(code);
  const int primary = code & 0xff;
  if (primary == SQLITE_IOERR && number != 0) message += std::string(": ") + std::strerror(number);
  const bool damaged = primary == SQLITE_CORRUPT || primary == SQLITE_NOTADB;
  return fail(kind_of(extended, number), std::move(message), damaged ? kDamagedHint : "");
}

// "SELECT id FROM runs …", short enough for a message.
std::string shortened(std::string_view sql) {
  constexpr size_t kShown = 60;
  return sql.size() <= kShown ? std::string(sql) : std::string(sql.substr(0, kShown)) + "…";
}

// A prepared statement, kept between uses.
struct Prepared {
  sqlite3_stmt* handle = nullptr;
  bool in_use = false;
  ~Prepared() { sqlite3_finalize(handle); }
};

class SqliteCursor final : public Cursor {
 public:
  SqliteCursor(sqlite3* db, Prepared& prepared) : db_(db), prepared_(prepared) {
    ENSURE(!prepared_.in_use);
    prepared_.in_use = true;
  }
  ~SqliteCursor() override {
    sqlite3_reset(prepared_.handle);
    sqlite3_clear_bindings(prepared_.handle);
    prepared_.in_use = false;
  }

  Status bind(std::span<const Value> values) {
    ENSURE(sqlite3_bind_parameter_count(prepared_.handle) == static_cast<int>(values.size()));
    int index = 0;
    for (const Value& value : values) {
      const int code = bind_one(++index, value.held());
      if (code != SQLITE_OK) return sqlite_error(db_, code, "bind");
    }
    return {};
  }

  Result<bool> next() override {
    const int code = sqlite3_step(prepared_.handle);
    if (code == SQLITE_ROW) return true;
    if (code == SQLITE_DONE) return false;
    return sqlite_error(db_, code, shortened(sqlite3_sql(prepared_.handle)));
  }
  bool is_null(int column) const override {
    return sqlite3_column_type(prepared_.handle, column) == SQLITE_NULL;
  }
  int64_t integer(int column) const override {
    return sqlite3_column_int64(prepared_.handle, column);
  }
  double real(int column) const override { return sqlite3_column_double(prepared_.handle, column); }
  std::string_view text(int column) const override {
    const void* bytes = sqlite3_column_blob(prepared_.handle, column);
    const int size = sqlite3_column_bytes(prepared_.handle, column);
    return {static_cast<const char*>(bytes), static_cast<size_t>(size)};
  }

 private:
  int bind_one(int index, const Value::Held& held) {
    if (const auto* number = std::get_if<int64_t>(&held)) {
      return sqlite3_bind_int64(prepared_.handle, index, *number);
    }
    if (const auto* real = std::get_if<double>(&held)) {
      return sqlite3_bind_double(prepared_.handle, index, *real);
    }
    if (const auto* text = std::get_if<std::string_view>(&held)) {
      // The pragma-free spelling of SQLITE_TRANSIENT: that macro is an old-style cast.
      const auto copied = reinterpret_cast<sqlite3_destructor_type>(intptr_t{-1});
      const char* bytes = text->data() != nullptr ? text->data() : "";
      return sqlite3_bind_text64(prepared_.handle, index, bytes, text->size(), copied, SQLITE_UTF8);
    }
    return sqlite3_bind_null(prepared_.handle, index);
  }

  sqlite3* db_;
  Prepared& prepared_;
};

class SqliteDb final : public Db {
 public:
  SqliteDb(sqlite3* db, const OpenOptions& options) : db_(db), sync_(options.sync) {}
  ~SqliteDb() override {
    statements_.clear();
    sqlite3_close_v2(db_);
  }

  Status set_up(const OpenOptions& options) {
    sqlite3_extended_result_codes(db_, 1);
    sqlite3_busy_timeout(db_, kBusyTimeoutMs);
    const bool write = options.access == Access::write;
    // secure_delete (on in Debian's build) would write every freed page once more.
    std::string pragmas =
        "PRAGMA foreign_keys = ON; PRAGMA temp_store = MEMORY;"
        "PRAGMA secure_delete = OFF; PRAGMA mmap_size = 0;"
        "PRAGMA cache_size = -" +
        std::to_string(options.cache_kb) + ";";
    if (write) {
      pragmas += "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = " +
                 std::to_string(kWalCheckpointPages) + ";";
      pragmas += sync_ ? "PRAGMA synchronous = FULL;" : "PRAGMA synchronous = OFF;";
    } else {
      pragmas += "PRAGMA query_only = ON;";
    }
    return script(pragmas);
  }

  Result<Statement> query_with(std::string_view sql, std::span<const Value> values) override {
    TRY_SET(Prepared * prepared, prepare(sql));
    auto cursor = std::make_unique<SqliteCursor>(db_, *prepared);
    TRY(cursor->bind(values));
    return Statement(std::move(cursor));
  }

  Result<int64_t> run(std::string_view sql, Values values) override {
    TRY_SET(Prepared * prepared, prepare(sql));
    SqliteCursor cursor(db_, *prepared);
    TRY(cursor.bind({values.begin(), values.size()}));
    while (true) {
      TRY_SET(const bool more, cursor.next());
      if (!more) return sqlite3_changes64(db_);
    }
  }

  Status script(std::string_view sql) override {
    const std::string terminated(sql);
    const int code = sqlite3_exec(db_, terminated.c_str(), nullptr, nullptr, nullptr);
    if (code != SQLITE_OK) return sqlite_error(db_, code, shortened(sql));
    return {};
  }

  void give_up_when(std::function<bool()> give_up) override {
    give_up_ = std::move(give_up);
    const auto ask = [](void* db) { return static_cast<SqliteDb*>(db)->give_up_() ? 1 : 0; };
    if (give_up_) {
      sqlite3_progress_handler(db_, kStepsBetweenAsking, ask, this);
    } else {
      sqlite3_progress_handler(db_, 0, nullptr, nullptr);
    }
  }

  Status set_durable(Durable durable) override {
    if (!sync_ || durable_ == durable) return {};
    // The pragma acts while it is prepared, so it cannot be a kept statement.
    TRY(script(durable == Durable::yes ? "PRAGMA synchronous = FULL"
                                       : "PRAGMA synchronous = NORMAL"));
    durable_ = durable;
    return {};
  }

  bool in_transaction() const override { return sqlite3_get_autocommit(db_) == 0; }

  Result<int> version() override {
    TRY_SET(Statement found, query("PRAGMA user_version", {}));
    TRY_SET(const bool any, found.next());
    return any ? static_cast<int>(found.integer(0)) : 0;
  }
  Status set_version(int version) override {
    return script("PRAGMA user_version = " + std::to_string(version));
  }

  Status backup_to(const fs::path& file) override {
    // Made by us first, for its mode; VACUUM INTO takes an empty file. It reads one state of the
    // database and lets writers go on, where SQLite's backup calls would begin anew at each commit.
    TRY_SET(const Fd made, open_file(file, O_RDWR | O_CREAT | O_EXCL, 0600));
    TRY(run("VACUUM INTO ?", {file.string()}));
    if (::fsync(made.get()) != 0) return fail_errno(errno, "sync " + file.string());
    return sync_dir(file.parent_path());
  }

  Status check() override {
    TRY(check_one("PRAGMA integrity_check", [](const Statement& row) {
      return row.text(0) == "ok" ? std::string() : row.text(0);
    }));
    return check_one("PRAGMA foreign_key_check", [](const Statement& row) {
      return "table " + row.text(0) + " row " + std::to_string(row.integer(1)) +
             " refers to a row of " + row.text(2) + " that is not there";
    });
  }

 private:
  Result<Prepared*> prepare(std::string_view sql) {
    const auto [first, last] = statements_.equal_range(sql);
    for (auto found = first; found != last; ++found) {
      if (!found->second->in_use) return found->second.get();
    }
    if (statements_.size() >= kStatementsMax) {
      std::erase_if(statements_, [](const auto& entry) { return !entry.second->in_use; });
    }
    auto prepared = std::make_unique<Prepared>();
    const int code = sqlite3_prepare_v3(db_, sql.data(), static_cast<int>(sql.size()),
                                        SQLITE_PREPARE_PERSISTENT, &prepared->handle, nullptr);
    if (code != SQLITE_OK) return sqlite_error(db_, code, shortened(sql));
    return statements_.emplace(sql, std::move(prepared))->second.get();
  }

  template <class F>
  Status check_one(std::string_view pragma, F&& finding_of) {
    std::string findings;
    TRY_SET(Statement rows, query(pragma, {}));
    for (int found = 0; found < kFindingsMax;) {
      TRY_SET(const bool more, rows.next());
      if (!more) break;
      const std::string finding = finding_of(rows);
      if (finding.empty()) continue;
      findings += (found++ == 0 ? "" : "; ") + finding;
    }
    if (findings.empty()) return {};
    return fail(ErrorKind::internal, "the database is damaged: " + findings,
                "Bring back a backup with: trainyard server restore");
  }

  sqlite3* db_;
  const bool sync_;
  Durable durable_ = Durable::yes;
  std::function<bool()> give_up_;
  std::multimap<std::string, std::unique_ptr<Prepared>, std::less<>> statements_;
};

}  // namespace

Result<std::unique_ptr<Db>> Db::open(const fs::path& file, const OpenOptions& options) {
  // Counting memory takes a lock shared by all connections at every allocation.
  static const int configured = sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
  static_cast<void>(configured);
  sqlite3* handle = nullptr;
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX |
                    (options.access == Access::write ? SQLITE_OPEN_CREATE : 0);
  const int code = sqlite3_open_v2(file.c_str(), &handle, flags, nullptr);
  if (handle == nullptr) return fail(ErrorKind::unavailable, "open " + file.string());
  auto db = std::make_unique<SqliteDb>(handle, options);
  if (code != SQLITE_OK) return sqlite_error(handle, code, "open " + file.string());
  TRY_WITHIN("open " + file.string(), db->set_up(options));
  return std::unique_ptr<Db>(std::move(db));
}

}  // namespace trainyard::db
