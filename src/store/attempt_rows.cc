#include <fmt/format.h>

#include "base/hash.h"
#include "store/run_queries.h"
#include "store/run_rows.h"
#include "wire/json.h"

namespace trainyard::store {
namespace {

std::string end_json(const Attempt& attempt) {
  return attempt.end ? wire::dump(wire::encode(*attempt.end)) : std::string();
}

}  // namespace

Result<AttemptRow> attempt_row(db::Db& db, int64_t run, int number) {
  TRY_SET(db::Statement row,
          db.query("SELECT number, node, placed, started, ended, cpu_seconds, memory_bytes, "
                   "memory_peak_bytes, outcome, gpus, phase, report_seq, sample_seq, "
                   "instance, outage_s FROM attempts "
                   "WHERE run = ? AND number = ?",
                   {run, number}));
  TRY_SET(const bool any, row.next());
  if (!any) {
    return fail(ErrorKind::not_found, "attempt " + std::to_string(number) + " does not exist");
  }
  AttemptRow found;
  TRY_SET(found.attempt, read_attempt(row));
  found.phase = row.text(10);
  found.report_seq = row.integer(11);
  found.sample_seq = row.integer(12);
  found.instance = row.text(13);
  found.outage_s = row.integer(14);
  return found;
}

Status insert_attempt(db::Transaction& transaction, int64_t run, const AttemptRow& row) {
  TRY(transaction.run(
      "INSERT INTO attempts (run, number, node, placed, phase, report_seq, cpu_seconds, "
      "memory_bytes, memory_peak_bytes, outcome, released, gpus, outage_s) VALUES (?, ?, ?, ?, '', "
      "0, 0, 0, 0, '', 0, ?, ?)",
      {run, row.attempt.number, row.attempt.node, row.attempt.placed,
       fmt::format("{}", fmt::join(row.attempt.gpus, ",")), row.outage_s}));
  return {};
}

Status save_attempt(db::Transaction& transaction, int64_t run, const AttemptRow& row) {
  const Attempt& attempt = row.attempt;
  TRY(transaction.run(
      "UPDATE attempts SET node = ?, started = ?, ended = ?, cpu_seconds = ?, memory_bytes = ?, "
      "memory_peak_bytes = ?, outcome = ?, phase = ?, report_seq = ?, sample_seq = ?, instance = ? "
      "WHERE run = ? AND number = ?",
      {attempt.node, attempt.started, attempt.ended, attempt.cpu_seconds, attempt.memory_bytes,
       attempt.memory_peak_bytes, end_json(attempt), row.phase, row.report_seq, row.sample_seq,
       row.instance, run, attempt.number}));
  return {};
}

Status set_attempt_token(db::Transaction& transaction, const RunHead& head, int attempt,
                         std::string_view secret, WallTime now) {
  TRY(transaction.run("DELETE FROM tokens WHERE run = ? AND attempt = ?", {head.number, attempt}));
  TRY(
      transaction.run("INSERT INTO tokens (hash, kind, user_name, label, created, run, attempt) "
                      "VALUES (?, 'attempt', ?, '', ?, ?, ?)",
                      {sha256(secret).hex(), head.user, now, head.number, attempt}));
  return {};
}

Result<std::string> attempt_token_hash(db::Db& db, int64_t run, int attempt) {
  TRY_SET(db::Statement row,
          db.query("SELECT hash FROM tokens WHERE run = ? AND attempt = ? AND revoked IS NULL",
                   {run, attempt}));
  TRY_SET(const bool found, row.next());
  if (!found) return fail(ErrorKind::not_found, "the attempt has no token");
  return row.text(0);
}

Result<std::vector<UnreleasedAttempt>> unreleased_attempts(db::Db& db) {
  std::vector<UnreleasedAttempt> attempts;
  TRY_SET(db::Statement rows,
          db.query("SELECT r.id, a.number, r.queue FROM attempts a JOIN runs r ON r.number = a.run "
                   "WHERE a.released = 0 AND a.ended IS NOT NULL"));
  while (true) {
    TRY_SET(const bool more, rows.next());
    if (!more) return attempts;
    attempts.push_back({{RunId{rows.text(0)}, static_cast<int>(rows.integer(1))}, rows.text(2)});
  }
}

Status mark_released(db::Transaction& transaction, const AttemptId& attempt) {
  TRY(
      transaction.run("UPDATE attempts SET released = 1 WHERE run = (SELECT number FROM runs WHERE "
                      "id = ?) AND number = ?",
                      {attempt.run.value, attempt.number}));
  return {};
}

}  // namespace trainyard::store
