#include "db/db.h"

#include <doctest/doctest.h>

#include <fstream>

using namespace trainyard;
using db::Access;
using db::Db;
using db::Savepoint;
using db::Statement;
using db::Transaction;

namespace {

std::unique_ptr<Db> opened(const fs::path& folder, Access access = Access::write) {
  Result<std::unique_ptr<Db>> db = Db::open(folder / "test.db", {.access = access});
  REQUIRE(db);
  return *std::move(db);
}

int64_t number_of(Db& db, std::string_view sql) {
  Result<Statement> found = db.query(sql);
  REQUIRE(found);
  REQUIRE(found->next().value_or(false));
  return found->integer(0);
}

}  // namespace

TEST_CASE("what is bound comes back as it was") {
  TempDir dir;
  const auto db = opened(dir.path());
  REQUIRE(db->script("CREATE TABLE t (a, b, c, d, e, f)"));
  const WallTime at(microseconds(1'700'000'000'000'001));
  const std::string bytes("a\0b\xff", 4);
  REQUIRE(db->run("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?)",
                  {int64_t{1} << 60, 0.5, bytes, nullptr, at, ""}));
  Result<Statement> row = db->query("SELECT a, b, c, d, e, f FROM t");
  REQUIRE(row);
  REQUIRE(row->next().value_or(false));
  CHECK(row->integer(0) == int64_t{1} << 60);
  CHECK(row->real(1) == 0.5);
  CHECK(row->text(2) == bytes);
  CHECK(row->is_null(3));
  CHECK(row->maybe_time(3) == std::nullopt);
  CHECK(row->time(4) == at);
  CHECK(!row->is_null(5));
  CHECK(row->text(5).empty());
  CHECK(!row->next().value_or(true));
}

TEST_CASE("the same statement can run inside itself") {
  TempDir dir;
  const auto db = opened(dir.path());
  REQUIRE(db->script("CREATE TABLE t (a); INSERT INTO t VALUES (1), (2), (3)"));
  int pairs = 0;
  Result<Statement> outer = db->query("SELECT a FROM t");
  while (outer->next().value_or(false)) {
    Result<Statement> inner = db->query("SELECT a FROM t");
    while (inner->next().value_or(false)) ++pairs;
  }
  CHECK(pairs == 9);
}

TEST_CASE("a transaction that is not committed leaves nothing") {
  TempDir dir;
  const auto db = opened(dir.path());
  REQUIRE(db->script("CREATE TABLE t (a)"));
  {
    Result<Transaction> transaction = Transaction::begin(*db, Access::write);
    REQUIRE(transaction);
    REQUIRE(transaction->run("INSERT INTO t VALUES (1)"));
  }
  CHECK(number_of(*db, "SELECT COUNT(*) FROM t") == 0);
  CHECK(!db->in_transaction());
}

TEST_CASE("a savepoint undoes its own part alone") {
  TempDir dir;
  const auto db = opened(dir.path());
  REQUIRE(db->script("CREATE TABLE t (a)"));
  Result<Transaction> transaction = Transaction::begin(*db, Access::write);
  for (int number = 1; number <= 3; ++number) {
    Result<Savepoint> savepoint = Savepoint::begin(*transaction);
    REQUIRE(savepoint);
    REQUIRE(transaction->run("INSERT INTO t VALUES (?)", {number}));
    if (number != 2) REQUIRE(savepoint->keep());
  }
  REQUIRE(transaction->commit());
  CHECK(number_of(*db, "SELECT SUM(a) FROM t") == 4);
}

TEST_CASE("a reader sees one state while a writer goes on, and cannot write") {
  TempDir dir;
  const auto writer = opened(dir.path());
  REQUIRE(writer->script("CREATE TABLE t (a); INSERT INTO t VALUES (1)"));
  const auto reader = opened(dir.path(), Access::read);
  Result<Transaction> reading = Transaction::begin(*reader, Access::read);
  CHECK(number_of(*reader, "SELECT COUNT(*) FROM t") == 1);
  REQUIRE(writer->run("INSERT INTO t VALUES (2)"));
  CHECK(number_of(*reader, "SELECT COUNT(*) FROM t") == 1);
  REQUIRE(reading->commit());
  CHECK(number_of(*reader, "SELECT COUNT(*) FROM t") == 2);
  const auto refused = reader->run("INSERT INTO t VALUES (3)");
  REQUIRE(!refused);
  CHECK(refused.error().kind == ErrorKind::denied);
}

TEST_CASE("durability is switched between transactions") {
  TempDir dir;
  const auto db = opened(dir.path());
  CHECK(number_of(*db, "PRAGMA synchronous") == 2);
  REQUIRE(db->set_durable(Durable::no));
  CHECK(number_of(*db, "PRAGMA synchronous") == 1);
  REQUIRE(db->set_durable(Durable::yes));
  CHECK(number_of(*db, "PRAGMA synchronous") == 2);
}

TEST_CASE("a broken constraint is a conflict, a broken reference too") {
  TempDir dir;
  const auto db = opened(dir.path());
  REQUIRE(
      db->script("CREATE TABLE t (a INTEGER PRIMARY KEY);"
                 "CREATE TABLE u (a REFERENCES t(a)); INSERT INTO t VALUES (1)"));
  const auto twice = db->run("INSERT INTO t VALUES (1)");
  REQUIRE(!twice);
  CHECK(twice.error().kind == ErrorKind::conflict);
  const auto dangling = db->run("INSERT INTO u VALUES (7)");
  REQUIRE(!dangling);
  CHECK(dangling.error().kind == ErrorKind::conflict);
}

TEST_CASE("a file that is no database is refused with advice") {
  TempDir dir;
  REQUIRE(write_file(dir.path() / "test.db", std::string(8192, 'x')));
  const auto db = Db::open(dir.path() / "test.db", {});
  REQUIRE(!db);
  CHECK(db.error().kind == ErrorKind::internal);
  CHECK(db.error().hint.find("trainyard server check") != std::string::npos);
}

TEST_CASE("a damaged page is found by the check") {
  TempDir dir;
  {
    const auto db = opened(dir.path());
    REQUIRE(db->script("CREATE TABLE t (a); CREATE INDEX i ON t (a);"));
    REQUIRE(db->set_durable(Durable::no));
    for (int row = 0; row < 2000; ++row) REQUIRE(db->run("INSERT INTO t VALUES (?)", {row}));
    CHECK(db->check());
  }
  {
    std::fstream file(dir.path() / "test.db", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(4 * 4096);  // Past the two roots: leaves of table and index.
    file << std::string(4 * 4096, '\x7f');
  }
  const auto db = opened(dir.path());
  const Status checked = db->check();
  REQUIRE(!checked);
  CHECK(checked.error().kind == ErrorKind::internal);
}

TEST_CASE("a backup is a whole database, for our eyes only") {
  TempDir dir;
  const auto db = opened(dir.path());
  REQUIRE(db->script("CREATE TABLE t (a); INSERT INTO t VALUES (1), (2)"));
  const fs::path copy = dir.path() / "copy.db";
  REQUIRE(db->backup_to(copy));
  CHECK((fs::status(copy).permissions() & fs::perms::mask) ==
        (fs::perms::owner_read | fs::perms::owner_write));
  const auto copied = Db::open(copy, {});
  REQUIRE(copied);
  CHECK(number_of(**copied, "SELECT COUNT(*) FROM t") == 2);
  const Status again = db->backup_to(copy);
  REQUIRE(!again);
}
