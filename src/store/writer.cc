#include "store/writer.h"

#include <algorithm>
#include <exception>

namespace trainyard::store {
namespace {

constexpr size_t kBatchMax = 256;  // Bounds how long the first of a batch waits for the last.

Status call(const Writer::Change& change, db::Transaction& transaction) {
  try {
    return change(transaction);
  } catch (const std::exception& thrown) {
    return fail(ErrorKind::internal, thrown.what());
  }
}

}  // namespace

Status Writer::write(Durable durable, const Change& change) {
  Request request{.durable = durable, .change = change};
  std::unique_lock lock(mutex_);
  waiting_.push_back(&request);
  request.turn.wait(lock, [&] { return request.done || waiting_.front() == &request; });
  if (request.done) return std::move(request.status);

  // We lead. Those who come from here on wait behind this batch.
  const size_t size = std::min(waiting_.size(), kBatchMax);
  const Batch batch(waiting_.begin(), waiting_.begin() + static_cast<ptrdiff_t>(size));
  lock.unlock();
  commit(batch);
  lock.lock();
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<ptrdiff_t>(size));
  for (Request* other : batch) {
    if (other == &request) continue;
    other->done = true;
    other->turn.notify_one();
  }
  if (!waiting_.empty()) waiting_.front()->turn.notify_one();
  return std::move(request.status);
}

void Writer::commit(const Batch& batch) {
  Status outcome = try_commit(batch);
  if (!outcome && outcome.error().kind == ErrorKind::no_space && reserve_.give_up()) {
    outcome = try_commit(batch);
  }
  if (outcome) return;
  for (Request* request : batch) request->status = std::unexpected(outcome.error());
}

Status Writer::try_commit(const Batch& batch) {
  const bool durable = std::any_of(batch.begin(), batch.end(),
                                   [](Request* r) { return r->durable == Durable::yes; });
  TRY(db_->set_durable(durable ? Durable::yes : Durable::no));
  TRY_SET(db::Transaction transaction, db::Transaction::begin(*db_, db::Access::write));
  bool any = false;
  for (Request* request : batch) {
    request->status = apply(transaction, *request, batch.size() == 1);
    any = any || request->status.has_value();
    const bool full = !request->status && request->status.error().kind == ErrorKind::no_space;
    // On some errors the database rolls the whole transaction back by itself.
    if (full || !db_->in_transaction()) {
      if (!request->status) return request->status;
      return fail(ErrorKind::unavailable, "the database rolled a change back");
    }
  }
  // All failed: nothing to keep, and no disk to wait for.
  return any ? transaction.commit() : Status();
}

Status Writer::apply(db::Transaction& transaction, Request& request, bool alone) {
  // One alone is undone with its transaction.
  if (alone) return call(request.change, transaction);
  TRY_SET(db::Savepoint savepoint, db::Savepoint::begin(transaction));
  TRY(call(request.change, transaction));
  return savepoint.keep();
}

}  // namespace trainyard::store
