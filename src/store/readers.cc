#include "store/readers.h"

#include <exception>

namespace trainyard::store {
namespace {

constexpr int kCacheKb = 512;
constexpr milliseconds kFirstTryMax{10};  // Of CPU time: a busy machine makes no list a slow one.
constexpr milliseconds kReadMax{10'000};

std::unexpected<Error> too_slow(ReadKind kind) {
  if (kind == ReadKind::first_try) {
    return fail(ErrorKind::cancelled, "the list takes more than 10 ms of CPU time");
  }
  return fail(ErrorKind::unavailable, "the database did not answer within 10 s",
              "Ask for less: name a workspace, an experiment or a status, or fewer rows.");
}

}  // namespace

Status Readers::read(const std::function<Status(db::Db&)>& look, ReadKind kind) {
  Pool& pool = kind == ReadKind::slow ? slow_ : normal_;
  TRY_SET(std::unique_ptr<db::Db> connection, take(pool));
  const SteadyTime until = clock_.steady() + kReadMax;
  const microseconds cpu_until = thread_cpu_time() + kFirstTryMax;
  bool late = false;
  connection->give_up_when([&] {
    late =
        clock_.steady() > until || (kind == ReadKind::first_try && thread_cpu_time() > cpu_until);
    return late;
  });
  const auto looked = [&]() -> Status {
    try {
      TRY_SET(const db::Transaction transaction,
              db::Transaction::begin(*connection, db::Access::read));
      return look(*connection);
    } catch (const std::exception& thrown) {
      return fail(ErrorKind::internal, thrown.what());
    }
  }();
  connection->give_up_when(nullptr);
  give_back(pool, std::move(connection));
  if (!looked && late) return too_slow(kind);
  return looked;
}

Result<std::unique_ptr<db::Db>> Readers::take(Pool& pool) {
  std::unique_lock lock(mutex_);
  pool.free_one.wait(lock, [&] { return !pool.free.empty() || pool.open < pool.max; });
  if (!pool.free.empty()) {
    std::unique_ptr<db::Db> connection = std::move(pool.free.back());
    pool.free.pop_back();
    return connection;
  }
  ++pool.open;
  lock.unlock();
  Result<std::unique_ptr<db::Db>> made =
      db::Db::open(database_, {.access = db::Access::read, .cache_kb = kCacheKb});
  if (!made) {
    lock.lock();
    --pool.open;
    pool.free_one.notify_one();
  }
  return made;
}

void Readers::give_back(Pool& pool, std::unique_ptr<db::Db> connection) {
  std::lock_guard lock(mutex_);
  pool.free.push_back(std::move(connection));
  pool.free_one.notify_one();
}

}  // namespace trainyard::store
