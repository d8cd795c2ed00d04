#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "db/db.h"
#include "store/reserve.h"

namespace trainyard::store {

// The only way anything is written. Callers' changes that come together go into one transaction,
// each in a savepoint of its own: eight callers cost one fdatasync, not eight. There is no thread:
// the first caller of a batch commits it for all, the next batch is led by the first of those who
// came meanwhile. Thread-safe.
class Writer {
 public:
  using Change = std::function<Status(db::Transaction&)>;

  // `reserve` is given up when the disk is full, and the batch is tried again.
  Writer(std::unique_ptr<db::Db> db, Reserve& reserve) : db_(std::move(db)), reserve_(reserve) {}

  // Returns when `change` is committed, or with why not. `change` runs on any caller's thread, and
  // once more if its first transaction failed; it must not write by itself.
  Status write(Durable durable, const Change& change);

 private:
  struct Request {
    Durable durable;
    const Change& change;
    Status status;
    bool done = false;
    std::condition_variable turn;
  };
  using Batch = std::vector<Request*>;

  void commit(const Batch& batch);
  // An error is the whole batch's; a single change's own one is in its request.
  Status try_commit(const Batch& batch);
  Status apply(db::Transaction& transaction, Request& request, bool alone);

  const std::unique_ptr<db::Db> db_;  // Used by the one who leads.
  Reserve& reserve_;
  std::mutex mutex_;
  std::deque<Request*> waiting_;  // The first one leads.
};

}  // namespace trainyard::store
