#include "store/people.h"

#include <pwd.h>
#include <unistd.h>

#include <array>

#include "base/check.h"
#include "base/hash.h"
#include "base/id.h"
#include "store/machines.h"

namespace trainyard::store {
namespace {

constexpr size_t kTokenLabelMax = 255;

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
               "t.expires, t.revoked FROM tokens t LEFT JOIN users u ON u.name = t.user_name "
               "WHERE t.kind <> 'attempt' ORDER BY t.id DESC"));
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
    TRY_SET(token.role, role_from(rows.text(3)));
    tokens.push_back(std::move(token));
  }
}

Result<Role> role_of_user(db::Db& db, std::string_view name, Role otherwise) {
  TRY_SET(db::Statement row, db.query("SELECT role FROM users WHERE name = ?", {name}));
  TRY_SET(const bool any, row.next());
  if (!any) return otherwise;
  return role_from(row.text(0));
}

Result<User> insert_user(db::Transaction& transaction, std::string_view name, Role role,
                         WallTime now) {
  TRY(check_name(name, "user"));
  TRY_SET(db::Statement row,
          transaction.query("INSERT INTO users (name, role, created) VALUES (?, ?, ?) "
                            "ON CONFLICT (name) DO NOTHING RETURNING id",
                            {name, to_string(role), now}));
  TRY_SET(const bool made, row.next());
  if (!made) return fail(ErrorKind::conflict, "user '" + std::string(name) + "' exists already");
  return User{.id = row.integer(0), .name = std::string(name), .role = role, .created = now};
}

Status remove_user(db::Transaction& transaction, std::string_view name, WallTime now) {
  if (name == system_user()) {
    return fail(ErrorKind::conflict,
                "user '" + std::string(name) + "' is the account of the server itself and stays");
  }
  TRY_SET(const int64_t removed, transaction.run("DELETE FROM users WHERE name = ?", {name}));
  if (removed == 0) return no_such_user(name);
  // Revoked and not only without a user: one made later under the same name must not inherit them.
  TRY(
      transaction.run("UPDATE tokens SET revoked = ? WHERE user_name = ? AND kind <> 'attempt' AND "
                      "revoked IS NULL",
                      {now, name}));
  return {};
}

Result<Token> insert_token(db::Transaction& transaction, std::string_view user,
                           std::string_view label, std::string_view secret,
                           std::optional<WallTime> expires, WallTime now) {
  if (label.size() > kTokenLabelMax)
    return fail(ErrorKind::invalid, "the token's label is too long");
  Token token{.user = std::string(user),
              .kind = "user",
              .label = std::string(label),
              .created = now,
              .expires = expires};
  {
    TRY_SET(db::Statement found,
            transaction.query("SELECT role FROM users WHERE name = ?", {user}));
    TRY_SET(const bool any, found.next());
    if (!any) return no_such_user(user);
    TRY_SET(token.role, role_from(found.text(0)));
  }
  TRY_SET(db::Statement made,
          transaction.query("INSERT INTO tokens (hash, kind, user_name, label, created, expires) "
                            "VALUES (?, 'user', ?, ?, ?, ?) RETURNING id",
                            {sha256(secret).hex(), user, label, now, expires}));
  TRY_SET(const bool any, made.next());
  ENSURE(any);
  token.id = made.integer(0);
  return token;
}

Status revoke_token_of(db::Transaction& transaction, int64_t id, WallTime now) {
  TRY_SET(const int64_t changed,
          transaction.run("UPDATE tokens SET revoked = COALESCE(revoked, ?) WHERE id = ? AND "
                          "kind <> 'attempt'",
                          {now, id}));
  if (changed == 0) {
    return fail(ErrorKind::not_found, "token " + std::to_string(id) + " does not exist",
                "List the tokens with: trainyard token list");
  }
  return {};
}

Result<Identity> identify_by(db::Db& db, std::string_view secret, WallTime now) {
  if (secret.starts_with(kMachinePrefix)) return identify_machine(db, secret);
  TRY_SET(
      db::Statement row,
      db.query(
          "SELECT t.user_name, u.role, t.expires, t.revoked, r.id, t.attempt, r.attempt, "
          "r.final, a.ended, t.kind, t.id FROM tokens t LEFT JOIN users u ON u.name = t.user_name "
          "LEFT JOIN runs r ON r.number = t.run "
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
    return Identity{.user = row.text(0), .role = Role::submitter, .attempt = attempt};
  }
  if (row.is_null(1)) return fail(ErrorKind::denied, "the token's user does not exist any more");
  TRY_SET(const Role role, role_from(row.text(1)));
  return Identity{.user = row.text(0), .role = role};
}

}  // namespace trainyard::store
