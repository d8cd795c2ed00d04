#include "store/readers.h"

#include <exception>

namespace trainyard::store {
namespace {

constexpr int kConnectionsMax = 4;  // Half a megabyte each; more readers than cores gain nothing.
constexpr int kCacheKb = 512;

}  // namespace

Status Readers::read(const std::function<Status(db::Db&)>& look) {
  TRY_SET(std::unique_ptr<db::Db> connection, take());
  const auto looked = [&]() -> Status {
    try {
      TRY_SET(const db::Transaction transaction,
              db::Transaction::begin(*connection, db::Access::read));
      return look(*connection);
    } catch (const std::exception& thrown) {
      return fail(ErrorKind::internal, thrown.what());
    }
  }();
  give_back(std::move(connection));
  return looked;
}

Result<std::unique_ptr<db::Db>> Readers::take() {
  std::unique_lock lock(mutex_);
  free_one_.wait(lock, [&] { return !free_.empty() || open_ < kConnectionsMax; });
  if (!free_.empty()) {
    std::unique_ptr<db::Db> connection = std::move(free_.back());
    free_.pop_back();
    return connection;
  }
  ++open_;
  lock.unlock();
  Result<std::unique_ptr<db::Db>> made =
      db::Db::open(database_, {.access = db::Access::read, .cache_kb = kCacheKb});
  if (!made) {
    lock.lock();
    --open_;
    free_one_.notify_one();
  }
  return made;
}

void Readers::give_back(std::unique_ptr<db::Db> connection) {
  std::lock_guard lock(mutex_);
  free_.push_back(std::move(connection));
  free_one_.notify_one();
}

}  // namespace trainyard::store
