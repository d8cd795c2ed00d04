#include "store/people.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/hash.h"
#include "base/id.h"
#include "store/machines.h"

namespace trainyard::store {
namespace {

constexpr size_t kTokenLabelMax = 255;
constexpr seconds kDeadTokensKept{30 * 24 * 3600};  // So that who uses one is told what it was.

std::unexpected<Error> no_such_user(std::string_view name) {
  return fail(ErrorKind::not_found, "user '" + std::string(name) + "' does not exist",
              "List the users with: trainyard user list");
}

// The fence against orphans: an attempt that is over, or is not the newest, may do nothing.
Status check_fence(const AttemptId& attempt, int newest, bool run_is_over, bool attempt_is_over) {
  if (!run_is_over && newest == attempt.number && !attempt_is_over) return {};
  const std::string why = newest > attempt.number ? "a newer one exists: " + std::to_string(newest)
                                                  : std::string("it has ended");
  return fail(ErrorKind::conflict, "attempt " + std::to_string(attempt.number) + " of run " +
                                       attempt.run.value + " is over: " + why);
}

// Revokes the tokens that `roots` (a condition on tokens t) selects, and all made with them.
Status revoke_with_children(db::Transaction& transaction, const std::string& roots,
                            db::Values values) {
  // The first value is the time.
  TRY(transaction.run(
      "UPDATE tokens SET revoked = COALESCE(revoked, ?) WHERE id IN (WITH RECURSIVE made (id) AS "
      "(SELECT t.id FROM tokens t WHERE t.kind <> 'attempt' AND (" +
          roots +
          ") UNION SELECT c.id FROM tokens c JOIN made ON c.parent = made.id) "
          "SELECT id FROM made)",
      values));
  return {};
}

std::optional<std::string> maybe_text(const db::Statement& row, int column) {
  return row.is_null(column) ? std::nullopt : std::optional<std::string>(row.text(column));
}

// The lower of the two.
Result<Role> role_of(const std::string& user_role, const std::optional<std::string>& limit) {
  TRY_SET(Role role, role_from(user_role));
  if (!limit) return role;
  TRY_SET(const Role most, role_from(*limit));
  return std::min(role, most);
}

// A machine that has joined; who let it in need not be there any more.
Result<Identity> identify_machine(db::Db& db, std::string_view secret) {
  TRY_SET(const std::optional<Machine> machine, machine_of_credential(db, secret));
  if (machine) return Identity{.user = machine->owner, .machine = machine->id};
  return fail(ErrorKind::denied, "the machine's credential is not known here (any more)",
              "Join again with a new token: trainyard node join");
}

}  // namespace

std::string system_user() {
  passwd entry{};
  passwd* found = nullptr;
  std::array<char, 4096> buffer{};
  const int failed = ::getpwuid_r(::geteuid(), &entry, buffer.data(), buffer.size(), &found);
  if (failed != 0 || found == nullptr) return "uid-" + std::to_string(::geteuid());
  // An account's name may be one that ours cannot be.
  return check_name(found->pw_name, "user") ? found->pw_name : "uid-" + std::to_string(::geteuid());
}

Result<std::vector<User>> list_users(db::Db& db) {
  std::vector<User> users;
  TRY_SET(db::Statement rows, db.query("SELECT id, name, role, created FROM users ORDER BY name"));
  while (true) {
    TRY_SET(const bool more, rows.next());
    if (!more) return users;
    User user{.id = rows.integer(0), .name = rows.text(1), .created = rows.time(3)};
    TRY_SET(user.role, role_from(rows.text(2)));
    users.push_back(std::move(user));
  }
}

Result<std::vector<Token>> list_tokens(db::Db& db) {
  std::vector<Token> tokens;
  TRY_SET(
      db::Statement rows,
      db.query("SELECT t.id, t.user_name, t.kind, COALESCE(u.role, 'reader'), t.label, t.created, "
               "t.expires, t.revoked, t.parent, t.role FROM tokens t LEFT JOIN users u "
               "ON u.name = t.user_name WHERE t.kind <> 'attempt' ORDER BY t.id DESC"));
  while (true) {
    TRY_SET(const bool more, rows.next());
    if (!more) return tokens;
    Token token{.id = rows.integer(0),
                .user = rows.text(1),
                .kind = rows.text(2),
                .label = rows.text(4),
                .created = rows.time(5),
                .expires = rows.maybe_time(6),
                .revoked = rows.maybe_time(7)};
    if (!rows.is_null(8)) token.parent = rows.integer(8);
    TRY_SET(token.role, role_of(rows.text(3), maybe_text(rows, 9)));
    tokens.push_back(std::move(token));
  }
}

Result<Role> role_of_user(db::Db& db, std::string_view name, Role otherwise) {
  TRY_SET(db::Statement row, db.query("SELECT role FROM users WHERE name = ?", {name}));
  TRY_SET(const bool any, row.next());
  if (!any) return otherwise;
  return role_from(row.text(0));
}

namespace {

// Whoever is made under the name of a deleted user must not bring back what that one's runs are to
// do: these are being canceled.
Status check_name_is_free(db::Db& db, std::string_view name) {
  TRY_SET(db::Statement row,
          db.query("SELECT 1 FROM deleted_users d WHERE d.name = ?1 AND EXISTS (SELECT 1 FROM runs "
                   "r INDEXED BY runs_open WHERE r.final = 0 AND r.user_name = ?1)",
                   {name}));
  TRY_SET(const bool any, row.next());
  if (!any) return {};
  return fail(ErrorKind::conflict,
              "runs of the deleted user '" + std::string(name) + "' are still being canceled",
              "Try again when they are over.");
}

}  // namespace

Result<User> insert_user(db::Transaction& transaction, std::string_view name, Role role,
                         WallTime now) {
  TRY(check_name(name, "user"));
  TRY(check_name_is_free(transaction.db(), name));
  TRY_SET(db::Statement row,
          transaction.query("INSERT INTO users (name, role, created) VALUES (?, ?, ?) "
                            "ON CONFLICT (name) DO NOTHING RETURNING id",
                            {name, to_string(role), now}));
  TRY_SET(const bool made, row.next());
  if (!made) return fail(ErrorKind::conflict, "user '" + std::string(name) + "' exists already");
  TRY(transaction.run("DELETE FROM deleted_users WHERE name = ?", {name}));
  return User{.id = row.integer(0), .name = std::string(name), .role = role, .created = now};
}

Result<std::optional<Role>> account_role(db::Db& db, std::string_view name) {
  TRY_SET(db::Statement row, db.query("SELECT (SELECT role FROM users WHERE name = ?1), "
                                      "EXISTS (SELECT 1 FROM deleted_users WHERE name = ?1)",
                                      {name}));
  TRY(row.next());
  if (row.is_null(0)) {
    return row.integer(1) != 0 ? std::optional<Role>() : std::optional(Role::admin);
  }
  TRY_SET(const Role role, role_from(row.text(0)));
  return role;
}

Status remove_user(db::Transaction& transaction, std::string_view name, WallTime now) {
  if (name == system_user()) {
    return fail(ErrorKind::conflict,
                "user '" + std::string(name) + "' is the account of the server itself and stays");
  }
  TRY_SET(const int64_t removed, transaction.run("DELETE FROM users WHERE name = ?", {name}));
  if (removed == 0) return no_such_user(name);
  TRY(transaction.run("INSERT OR IGNORE INTO deleted_users (name) VALUES (?)", {name}));
  TRY(transaction.run("DELETE FROM workspace_members WHERE user_name = ?", {name}));
  // A run there is canceled and never placed again; the machine gets no orders without a token.
  TRY(transaction.run("DELETE FROM machines WHERE workspace_id IS NULL AND owner = ?", {name}));
  // Revoked and not only without a user: one made later under the same name must not inherit them.
  return revoke_with_children(transaction, "t.user_name = ?", {now, name});
}

Status set_role(db::Transaction& transaction, std::string_view name, Role role, WallTime now) {
  if (name == system_user() && role != Role::admin) {
    return fail(ErrorKind::conflict,
                "user '" + std::string(name) + "' is the account of the server itself: an admin");
  }
  TRY_SET(const int64_t changed,
          transaction.run("UPDATE users SET role = ? WHERE name = ?", {to_string(role), name}));
  if (changed == 0) return no_such_user(name);
  if (role == Role::admin) return {};
  return revoke_with_children(
      transaction,
      "(t.kind = 'node' AND t.user_name = ?) OR (t.user_name <> ? AND t.parent IN "
      "(SELECT id FROM tokens WHERE user_name = ? AND kind <> 'attempt'))",
      {now, name, name, name});
}

Result<Token> insert_token(db::Transaction& transaction, const TokenWanted& wanted, WallTime now) {
  if (wanted.label.size() > kTokenLabelMax)
    return fail(ErrorKind::invalid, "the token's label is too long");
  const WallTime before = now - kDeadTokensKept;
  TRY(transaction.run("DELETE FROM tokens WHERE kind <> 'attempt' AND (expires < ? OR revoked < ?)",
                      {before, before}));
  Token token{.user = std::string(wanted.user),
              .kind = "user",
              .label = std::string(wanted.label),
              .created = now,
              .expires = wanted.expires,
              .parent = wanted.limits.parent};
  std::optional<std::string> limit;
  if (wanted.limits.role) limit = to_string(*wanted.limits.role);
  {
    TRY_SET(db::Statement found,
            transaction.query("SELECT role FROM users WHERE name = ?", {wanted.user}));
    TRY_SET(const bool any, found.next());
    if (!any) return no_such_user(wanted.user);
    TRY_SET(token.role, role_of(found.text(0), limit));
  }
  TRY_SET(db::Statement made,
          transaction.query("INSERT INTO tokens (hash, kind, user_name, label, created, expires, "
                            "parent, role) VALUES (?, 'user', ?, ?, ?, ?, ?, ?) RETURNING id",
                            {sha256(wanted.secret).hex(), wanted.user, wanted.label, now,
                             wanted.expires, wanted.limits.parent, limit}));
  TRY_SET(const bool any, made.next());
  ENSURE(any);
  token.id = made.integer(0);
  return token;
}

Status revoke_token_of(db::Transaction& transaction, int64_t id, WallTime now) {
  {
    TRY_SET(db::Statement found,
            transaction.query("SELECT 1 FROM tokens WHERE id = ? AND kind <> 'attempt'", {id}));
    TRY_SET(const bool any, found.next());
    if (!any) {
      return fail(ErrorKind::not_found, "token " + std::to_string(id) + " does not exist",
                  "List the tokens with: trainyard token list");
    }
  }
  return revoke_with_children(transaction, "t.id = ?", {now, id});
}

Result<Identity> identify_by(db::Db& db, std::string_view secret, WallTime now) {
  if (secret.starts_with(kMachinePrefix)) return identify_machine(db, secret);
  TRY_SET(db::Statement row,
          db.query("SELECT t.user_name, u.role, t.expires, t.revoked, r.id, t.attempt, r.attempt, "
                   "r.final, a.ended, t.kind, t.id, r.workspace_id, r.error, t.role FROM tokens t "
                   "LEFT JOIN users u ON u.name = t.user_name LEFT JOIN runs r ON r.number = t.run "
                   "LEFT JOIN attempts a ON a.run = t.run AND a.number = t.attempt "
                   "WHERE t.hash = ?",
                   {sha256(secret).hex()}));
  TRY_SET(const bool any, row.next());
  if (!any) {
    return fail(ErrorKind::denied, "the token is not known here",
                "Make one on the server with: trainyard token create");
  }
  const auto revoked = row.maybe_time(3);
  const auto expires = row.maybe_time(2);
  if (revoked && !row.is_null(4)) {
    // As for an attempt that is over: its supervisor kills what runs.
    return fail(ErrorKind::conflict, "attempt " + std::to_string(row.integer(5)) + " of run " +
                                         row.text(4) + " is over: " + row.text(12));
  }
  if (revoked) return fail(ErrorKind::denied, "the token was revoked " + format_time(*revoked));
  if (expires && *expires <= now) {
    return fail(ErrorKind::denied, "the token has expired " + format_time(*expires));
  }
  if (row.text(9) == "node") {
    return Identity{.user = row.text(0), .node_token = row.integer(10)};
  }
  if (!row.is_null(4)) {
    const AttemptId attempt{RunId{row.text(4)}, static_cast<int>(row.integer(5))};
    TRY(check_fence(attempt, static_cast<int>(row.integer(6)), row.integer(7) != 0,
                    !row.is_null(8)));
    return Identity{.user = row.text(0),
                    .role = Role::submitter,
                    .attempt = attempt,
                    .workspace = row.integer(11)};
  }
  if (row.is_null(1)) return fail(ErrorKind::denied, "the token's user does not exist any more");
  const std::optional<std::string> limit = maybe_text(row, 13);
  Identity identity{.user = row.text(0), .token = row.integer(10), .expires = expires};
  TRY_SET(identity.role, role_of(row.text(1), limit));
  if (limit) {
    TRY_SET(identity.role_limit, role_from(*limit));
  }
  return identity;
}

}  // namespace trainyard::store
