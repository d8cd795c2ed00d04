#include "db/db.h"

namespace trainyard::db {
namespace {

// For destructors, where nobody can be told: what fails here has been rolled back by the database.
void try_to(Db& db, std::string_view sql) {
  if (db.in_transaction()) static_cast<void>(db.run(sql).has_value());
}

}  // namespace

Result<Transaction> Transaction::begin(Db& db, Access access) {
  TRY(db.run(access == Access::write ? "BEGIN IMMEDIATE" : "BEGIN"));
  return Transaction(db);
}

Transaction::~Transaction() {
  if (db_) try_to(*db_, "ROLLBACK");
}

Status Transaction::commit() {
  TRY(db_->run("COMMIT"));
  db_ = nullptr;
  return {};
}

Result<Savepoint> Savepoint::begin(Transaction& transaction) {
  TRY(transaction.run("SAVEPOINT change"));
  return Savepoint(transaction.db());
}

Savepoint::~Savepoint() {
  if (!db_) return;
  try_to(*db_, "ROLLBACK TO change");
  try_to(*db_, "RELEASE change");
}

Status Savepoint::keep() {
  TRY(db_->run("RELEASE change"));
  db_ = nullptr;
  return {};
}

}  // namespace trainyard::db
