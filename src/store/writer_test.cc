#include "store/writer.h"

#include <doctest/doctest.h>

#include <atomic>
#include <stdexcept>
#include <thread>

#include "base/fake_clock.h"
#include "store/history.h"
#include "store/store.h"

using namespace trainyard;
using store::Writer;

namespace {

struct Table {
  TempDir dir;
  store::Reserve reserve{""};
  Writer writer{make(), reserve};

  std::unique_ptr<db::Db> make() {
    auto db = db::Db::open(dir.path() / "t.db", {});
    REQUIRE(db);
    REQUIRE((*db)->script("CREATE TABLE t (a INTEGER PRIMARY KEY)"));
    return *std::move(db);
  }
  int64_t count() {
    const auto db = db::Db::open(dir.path() / "t.db", {.access = db::Access::read});
    auto row = (*db)->query("SELECT COUNT(*) FROM t");
    REQUIRE(row->next());
    return row->integer(0);
  }
};

Status insert(db::Transaction& transaction, int value) {
  TRY(transaction.run("INSERT INTO t VALUES (?)", {value}));
  return {};
}

}  // namespace

TEST_CASE("one failing change does not undo those committed with it") {
  Table table;
  std::atomic<int> failed = 0;
  {
    std::vector<std::jthread> callers;
    for (int caller = 0; caller < 8; ++caller) {
      callers.emplace_back([&, caller] {
        for (int i = 0; i < 100; ++i) {
          const Status written = table.writer.write(Durable::no, [&](db::Transaction& t) -> Status {
            TRY(insert(t, caller * 1000 + i));
            if (i % 10 == 3) return fail(ErrorKind::conflict, "no");
            return {};
          });
          if (!written && written.error().kind == ErrorKind::conflict) ++failed;
        }
      });
    }
  }
  CHECK(failed == 80);
  CHECK(table.count() == 720);
}

TEST_CASE("changes that come while one commits are committed together") {
  Table table;
  int next = 0;
  // Each looks, inside its change, for rows of those before it that are not committed yet. Who
  // comes in time is the machine's business, so there is more than one try.
  std::atomic<int> saw_uncommitted = 0;
  for (int round = 0; round < 50 && saw_uncommitted == 0; ++round) {
    std::atomic<bool> hold = true;
    std::atomic<int> ready = 0;
    std::vector<std::jthread> callers;
    callers.emplace_back([&, value = next++] {
      CHECK(table.writer.write(Durable::no, [&](db::Transaction& t) -> Status {
        ++ready;
        hold.wait(true);
        return insert(t, value);
      }));
    });
    while (ready < 1) std::this_thread::yield();
    for (int caller = 0; caller < 8; ++caller) {
      callers.emplace_back([&, value = next++] {
        ++ready;
        CHECK(table.writer.write(Durable::yes, [&](db::Transaction& t) -> Status {
          TRY_SET(db::Statement seen, t.query("SELECT COUNT(*) FROM t"));
          TRY(seen.next());
          if (seen.integer(0) > table.count()) ++saw_uncommitted;
          return insert(t, value);
        }));
      });
    }
    while (ready < 9) std::this_thread::yield();
    hold = false;
    hold.notify_all();
  }
  CHECK(table.count() == next);
  CHECK(saw_uncommitted > 0);
}

TEST_CASE("a change that throws is our bug and harms no other") {
  Table table;
  const Status thrown = table.writer.write(
      Durable::no, [](db::Transaction&) -> Status { throw std::runtime_error("oops"); });
  REQUIRE(!thrown);
  CHECK(thrown.error().kind == ErrorKind::internal);
  CHECK(table.writer.write(Durable::no, [](db::Transaction& t) { return insert(t, 1); }));
  CHECK(table.count() == 1);
}

TEST_CASE("a change is tried again once the reserve is given up for a full disk") {
  TempDir dir;
  store::Reserve reserve(dir.path() / "reserve", 1024 * 1024);
  REQUIRE(fs::file_size(dir.path() / "reserve") == 1024 * 1024);
  auto db = db::Db::open(dir.path() / "t.db", {});
  REQUIRE((*db)->script("CREATE TABLE t (a INTEGER PRIMARY KEY)"));
  Writer writer(*std::move(db), reserve);
  int tries = 0;
  const auto change = [&](db::Transaction& t) -> Status {
    if (++tries == 1) return fail(ErrorKind::no_space, "full");
    return insert(t, 1);
  };
  CHECK(writer.write(Durable::yes, change));
  CHECK(tries == 2);
  CHECK(!fs::exists(dir.path() / "reserve"));
  // It is given up once; the next full disk is the caller's to hear of.
  tries = 0;
  const Status refused = writer.write(Durable::yes, change);
  REQUIRE(!refused);
  CHECK(refused.error().kind == ErrorKind::no_space);
  CHECK(tries == 1);
}
