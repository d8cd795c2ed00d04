#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "db/db.h"

namespace trainyard::store {

// A few connections that only read, opened when first needed. Thread-safe.
class Readers {
 public:
  explicit Readers(fs::path database) : database_(std::move(database)) {}

  // `look` sees one state of the database throughout; any thread, several at once.
  Status read(const std::function<Status(db::Db&)>& look);

 private:
  Result<std::unique_ptr<db::Db>> take();
  void give_back(std::unique_ptr<db::Db> connection);

  const fs::path database_;
  std::mutex mutex_;
  std::condition_variable free_one_;
  std::vector<std::unique_ptr<db::Db>> free_;
  int open_ = 0;
};

}  // namespace trainyard::store
