#include "store/machines.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/text.h"
#include "model/compute.h"
#include "store/computes.h"
#include "store/workspaces.h"
#include "wire/machines.h"

namespace trainyard::store {
namespace {

constexpr size_t kKeyLength = 16;  // Of 32 letters.
constexpr size_t kUidMax = 64;
constexpr size_t kLabelMax = 255;

constexpr std::string_view kSelect =
    "SELECT m.id, m.key, m.uid, w.name, m.name, m.owner, m.facts, m.joined, m.heard "
    "FROM machines m LEFT JOIN workspaces w ON w.id = m.workspace_id ";

Result<Machine> read_machine(const db::Statement& row) {
  Machine machine{.id = row.integer(0),
                  .key = row.text(1),
                  .uid = row.text(2),
                  .workspace = row.is_null(3) ? std::string() : row.text(3),
                  .name = row.text(4),
                  .owner = row.text(5),
                  .personal = row.is_null(3),
                  .facts = {},
                  .joined = row.time(7),
                  .heard = row.maybe_time(8)};
  TRY_SET(const wire::Json facts, wire::parse(row.text(6)));
  TRY_SET(machine.facts, wire::decode_machine_facts(facts));
  return machine;
}

Result<std::optional<Machine>> find(db::Db& db, std::string_view where, db::Values values) {
  TRY_SET(db::Statement row, db.query(std::string(kSelect).append(where), values));
  TRY_SET(const bool any, row.next());
  if (!any) return std::optional<Machine>();
  TRY_SET(Machine machine, read_machine(row));
  return std::optional(std::move(machine));
}

std::string text_of(const MachineFacts& facts) { return wire::dump(wire::encode(facts)); }

std::string new_key() { return new_secret("").substr(0, kKeyLength); }

Status check_uid(std::string_view uid) {
  TRY(check_name(uid, "machine's id"));
  if (uid.size() > kUidMax) return fail(ErrorKind::invalid, "the machine's id is too long");
  return {};
}

// A target's name means one thing in its workspace.
Status check_free(db::Db& db, int64_t workspace, std::string_view name) {
  ComputeSpec like;
  like.name = name;
  TRY(check_compute(like));
  TRY_SET(db::Statement row, db.query("SELECT 1 FROM computes WHERE workspace_id = ? AND name = ?",
                                      {workspace, name}));
  TRY_SET(const bool taken, row.next());
  if (!taken) return {};
  return fail(ErrorKind::conflict, "the name '" + std::string(name) + "' is taken by a compute",
              "Join under another with --name NAME.");
}

struct Ticket {
  int64_t workspace_id = 0;
  std::string name;
  std::string used_by;
  std::string by;
};

Result<Ticket> read_ticket(db::Db& db, int64_t token) {
  TRY_SET(db::Statement row,
          db.query("SELECT n.workspace_id, n.name, n.used_by, t.user_name FROM node_tokens n "
                   "JOIN tokens t ON t.id = n.token WHERE n.token = ?",
                   {token}));
  TRY_SET(const bool any, row.next());
  if (!any) return fail(ErrorKind::denied, "the token lets no machine join");
  return Ticket{row.integer(0), row.text(1), row.text(2), row.text(3)};
}

}  // namespace

Result<std::vector<Machine>> all_machines(db::Db& db) {
  std::vector<Machine> machines;
  TRY_SET(db::Statement rows, db.query(std::string(kSelect).append("ORDER BY m.id")));
  while (true) {
    TRY_SET(const bool more, rows.next());
    if (!more) return machines;
    TRY_SET(Machine machine, read_machine(rows));
    machines.push_back(std::move(machine));
  }
}

Result<Machine> load_machine(db::Db& db, std::string_view key) {
  TRY_SET(std::optional<Machine> found, find(db, "WHERE m.key = ?", {key}));
  if (found) return *std::move(found);
  return fail(ErrorKind::not_found, "the machine is not known here (any more)",
              "Joined machines are listed by: trainyard node list");
}

Result<Token> insert_node_token(db::Transaction& transaction, const NewNodeToken& wanted,
                                WallTime now) {
  if (wanted.label.size() > kLabelMax) return fail(ErrorKind::invalid, "the label is too long");
  TRY_SET(const Workspace in, load_workspace(transaction.db(), wanted.workspace));
  if (!wanted.name.empty()) TRY(check_free(transaction.db(), in.id, wanted.name));
  Token token{.user = wanted.by,
              .kind = "node",
              .label = wanted.label,
              .created = now,
              .expires = wanted.expires,
              .parent = wanted.parent};
  TRY_SET(db::Statement made,
          transaction.query("INSERT INTO tokens (hash, kind, user_name, label, created, expires, "
                            "parent) VALUES (?, 'node', ?, ?, ?, ?, ?) RETURNING id",
                            {sha256(wanted.secret).hex(), wanted.by, wanted.label, now,
                             wanted.expires, wanted.parent}));
  TRY_SET(const bool any, made.next());
  ENSURE(any);
  token.id = made.integer(0);
  TRY(
      transaction.run("INSERT INTO node_tokens (token, workspace_id, name, used_by) "
                      "VALUES (?, ?, ?, '')",
                      {token.id, in.id, wanted.name}));
  return token;
}

Result<JoinedMachine> join_machine(db::Transaction& transaction, const Joining& joining,
                                   WallTime now) {
  TRY(check_uid(joining.uid));
  TRY_SET(const Ticket ticket, read_ticket(transaction.db(), joining.token));
  if (!ticket.used_by.empty() && ticket.used_by != joining.uid) {
    return fail(ErrorKind::denied, "the token was used by another machine: it is good for one",
                "An admin makes another with: trainyard node token");
  }
  std::string name = joining.name.empty() ? ticket.name : joining.name;
  if (!ticket.name.empty() && name != ticket.name) {
    return fail(ErrorKind::denied,
                "the token is for a machine named '" + ticket.name + "', not '" + name + "'");
  }
  if (name.empty()) name = name_from_host(joining.facts.host);
  TRY(check_free(transaction.db(), ticket.workspace_id, name));
  TRY_SET(const std::optional<Machine> there,
          find(transaction.db(), "WHERE m.workspace_id = ? AND m.name = ?",
               {ticket.workspace_id, name}));
  if (there && there->uid != joining.uid) {
    return fail(ErrorKind::conflict,
                "the name '" + name + "' is taken by another machine (host " + there->facts.host +
                    ", joined " + format_time(there->joined) + ")",
                "Join under another with --name NAME; or, if that one is no more, an admin frees "
                "it with: trainyard node remove " +
                    name);
  }
  const std::string credential = sha256(joining.credential).hex();
  if (there) {
    TRY(transaction.run("UPDATE machines SET credential = ?, facts = ? WHERE id = ?",
                        {credential, text_of(joining.facts), there->id}));
  } else {
    TRY(
        transaction.run("INSERT INTO machines (key, uid, workspace_id, name, owner, credential, "
                        "facts, joined) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                        {new_key(), joining.uid, ticket.workspace_id, name, ticket.by, credential,
                         text_of(joining.facts), now}));
  }
  TRY(transaction.run("UPDATE node_tokens SET used_by = ? WHERE token = ?",
                      {joining.uid, joining.token}));
  TRY_SET(std::optional<Machine> made,
          find(transaction.db(), "WHERE m.credential = ?", {credential}));
  ENSURE(made.has_value());
  return JoinedMachine{*std::move(made), !there.has_value()};
}

Result<Machine> personal_machine(db::Transaction& transaction, std::string_view owner,
                                 std::string_view uid, const MachineFacts& facts, WallTime now) {
  TRY(check_uid(uid));
  const std::string_view where = "WHERE m.workspace_id IS NULL AND m.owner = ? AND m.uid = ?";
  TRY_SET(std::optional<Machine> there, find(transaction.db(), where, {owner, uid}));
  if (there && there->facts == facts) return *std::move(there);
  if (there) {
    TRY(transaction.run("UPDATE machines SET name = ?, facts = ? WHERE id = ?",
                        {name_from_host(facts.host), text_of(facts), there->id}));
  } else {
    TRY(
        transaction.run("INSERT INTO machines (key, uid, name, owner, facts, joined) "
                        "VALUES (?, ?, ?, ?, ?, ?)",
                        {new_key(), uid, name_from_host(facts.host), owner, text_of(facts), now}));
  }
  TRY_SET(there, find(transaction.db(), where, {owner, uid}));
  ENSURE(there.has_value());
  return *std::move(there);
}

Status note_machine(db::Transaction& transaction, int64_t id, const MachineFacts& facts,
                    WallTime heard) {
  TRY(transaction.run("UPDATE machines SET facts = ?, heard = ? WHERE id = ?",
                      {text_of(facts), heard, id}));
  return {};
}

Status delete_machine(db::Transaction& transaction, const Machine& machine, Force force) {
  TRY_SET(const TargetRuns runs, count_runs_on(transaction.db(), queue_of(machine)));
  if (runs.queued + runs.live > 0 && force == Force::no) {
    return fail(ErrorKind::conflict,
                "machine " + machine.name + " has runs: " + std::to_string(runs.queued) +
                    " queued, " + std::to_string(runs.live) + " live, the oldest " + runs.first,
                "Wait for them, cancel them with: trainyard run cancel, or say --force: live ones "
                "fail then.");
  }
  TRY(transaction.run("DELETE FROM machines WHERE id = ?", {machine.id}));
  return {};
}

Result<std::optional<Machine>> machine_of_credential(db::Db& db, std::string_view secret) {
  return find(db, "WHERE m.credential = ?", {sha256(secret).hex()});
}

}  // namespace trainyard::store
