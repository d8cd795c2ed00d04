#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "base/clock.h"
#include "base/file.h"

namespace trainyard::db {

// What stands in for a question mark of a statement. Borrowed text is copied by query() and run().
class Value {
 public:
  Value(std::nullptr_t) {}
  Value(std::integral auto number) : held_(static_cast<int64_t>(number)) {}
  Value(double number) : held_(number) {}
  Value(std::string_view text) : held_(text) {}
  Value(const std::string& text) : held_(std::string_view(text)) {}
  Value(const char* text) : held_(std::string_view(text)) {}
  Value(WallTime time) : held_(time.time_since_epoch().count()) {}
  template <class T>
  Value(const std::optional<T>& maybe) {
    if (maybe) *this = Value(*maybe);
  }

  using Held = std::variant<std::monostate, int64_t, double, std::string_view>;
  const Held& held() const { return held_; }

 private:
  Held held_;
};

// The rows of a running statement, as a database hands them out.
class Cursor {
 public:
  virtual ~Cursor() = default;
  virtual Result<bool> next() = 0;
  virtual bool is_null(int column) const = 0;
  virtual int64_t integer(int column) const = 0;
  virtual double real(int column) const = 0;
  virtual std::string_view text(int column) const = 0;  // Until the next next().
};

// A statement at work, one row at a time; columns count from 0.
//
//   TRY_SET(db::Statement found, db.query("SELECT id FROM runs WHERE number = ?", {7}));
//   TRY_SET(const bool any, found.next());
class Statement {
 public:
  explicit Statement(std::unique_ptr<Cursor> cursor) : cursor_(std::move(cursor)) {}

  Result<bool> next() { return cursor_->next(); }
  bool is_null(int column) const { return cursor_->is_null(column); }
  int64_t integer(int column) const { return cursor_->integer(column); }
  double real(int column) const { return cursor_->real(column); }
  std::string text(int column) const { return std::string(cursor_->text(column)); }
  WallTime time(int column) const { return WallTime(microseconds(integer(column))); }
  std::optional<WallTime> maybe_time(int column) const {
    if (is_null(column)) return std::nullopt;
    return time(column);
  }

 private:
  std::unique_ptr<Cursor> cursor_;
};

using Values = std::initializer_list<Value>;

enum class Access { read, write };

struct OpenOptions {
  Access access = Access::write;
  int cache_kb = 2048;
  // false: a commit never waits for the disk; for simulations.
  bool sync = true;
};

// One connection to a database: one thread at a time. SQLite now; nothing here says so, and
// PostgreSQL can stand behind the same calls. Statements are prepared once and kept.
//
// Errors by what can be done: a full disk is `no_space`, a busy database `unavailable`, a broken
// constraint `conflict`, a damaged file `internal` with advice.
class Db {
 public:
  static Result<std::unique_ptr<Db>> open(const fs::path& file, const OpenOptions& options);
  virtual ~Db() = default;

  Result<Statement> query(std::string_view sql, Values values = {}) {
    return query_with(sql, {values.begin(), values.size()});
  }
  // The same with a number of values that is not known when compiling.
  virtual Result<Statement> query_with(std::string_view sql, std::span<const Value> values) = 0;
  // Runs it to its end; how many rows it changed.
  virtual Result<int64_t> run(std::string_view sql, Values values = {}) = 0;
  // Several statements, none with a question mark.
  virtual Status script(std::string_view sql) = 0;

  // Asked every few thousand steps of a statement, i.e. several times a millisecond: true ends the
  // statement with `cancelled`. Null: never.
  virtual void give_up_when(std::function<bool()> give_up) = 0;

  // What the next transactions outlive: the power, or only our own crash. Not inside one.
  virtual Status set_durable(Durable durable) = 0;
  // false too when the database itself has rolled back, as it does on a full disk.
  virtual bool in_transaction() const = 0;

  virtual Result<int> version() = 0;  // Of the schema; 0: a new file.
  virtual Status set_version(int version) = 0;

  // A whole copy of what is committed now, into a file that is not there yet.
  virtual Status backup_to(const fs::path& file) = 0;
  // Looks at every page and every reference.
  virtual Status check() = 0;
};

// All or nothing: rolls back unless committed.
class Transaction {
 public:
  // Access::read sees one state of the database throughout.
  static Result<Transaction> begin(Db& db, Access access);
  Transaction(Transaction&& other) noexcept : db_(std::exchange(other.db_, nullptr)) {}
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();

  Status commit();

  Db& db() { return *db_; }
  Result<Statement> query(std::string_view sql, Values values = {}) {
    return db_->query(sql, values);
  }
  Result<int64_t> run(std::string_view sql, Values values = {}) { return db_->run(sql, values); }

 private:
  explicit Transaction(Db& db) : db_(&db) {}
  Db* db_;
};

// A part of a transaction that can be undone alone: undone unless kept.
class Savepoint {
 public:
  static Result<Savepoint> begin(Transaction& transaction);
  Savepoint(Savepoint&& other) noexcept : db_(std::exchange(other.db_, nullptr)) {}
  Savepoint& operator=(Savepoint&&) = delete;
  ~Savepoint();

  Status keep();

 private:
  explicit Savepoint(Db& db) : db_(&db) {}
  Db* db_;
};

}  // namespace trainyard::db
