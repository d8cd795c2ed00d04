#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "db/db.h"
#include "store/store.h"

namespace trainyard::store {

// A few connections that only read, opened when first needed. Thread-safe.
class Readers {
 public:
  Readers(fs::path database, Clock& clock) : database_(std::move(database)), clock_(clock) {}

  // `look` sees one state of the database throughout; any thread, several at once.
  Status read(const std::function<Status(db::Db&)>& look, ReadKind kind);

 private:
  // Connections of one kind; the slow reads have their own.
  struct Pool {
    const int max;
    std::condition_variable free_one{};
    std::vector<std::unique_ptr<db::Db>> free{};
    int open = 0;
  };

  Result<std::unique_ptr<db::Db>> take(Pool& pool);
  void give_back(Pool& pool, std::unique_ptr<db::Db> connection);

  const fs::path database_;
  Clock& clock_;
  std::mutex mutex_;
  Pool normal_{.max = 4};  // Half a megabyte each; more readers than cores gain nothing.
  Pool slow_{.max = 2};
};

}  // namespace trainyard::store
