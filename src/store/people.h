#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "db/db.h"
#include "model/run.h"
#include "store/store.h"

// Users and tokens. Of a secret only its SHA-256 is ever written.
namespace trainyard::store {

// The account this process runs as: over the Unix socket one is the admin of this name.
std::string system_user();

Result<std::vector<User>> list_users(db::Db& db);
Result<std::vector<Token>> list_tokens(db::Db& db);  // Attempts' tokens are not shown.
// `otherwise` for a user who is not there (any more).
Result<Role> role_of_user(db::Db& db, std::string_view name, Role otherwise);
Result<User> insert_user(db::Transaction& transaction, std::string_view name, Role role,
                         WallTime now);
// The role of a user, or admin for an account that uses the Unix socket and has no row; nothing for
// a user that was deleted.
Result<std::optional<Role>> account_role(db::Db& db, std::string_view name);
// With their memberships and their own machines; their tokens are revoked, and what these made.
Status remove_user(db::Transaction& transaction, std::string_view name, WallTime now);
// not_found; conflict for the account of the server itself. Who is no admin any more leaves no
// tokens that they made for others, and no machine joins by theirs.
Status set_role(db::Transaction& transaction, std::string_view name, Role role, WallTime now);
struct TokenWanted {
  std::string_view user;
  std::string_view label;
  std::string_view secret;
  std::optional<WallTime> expires;
  Store::TokenLimits limits = {};
};
// Removes tokens that have expired or were revoked long ago, too.
Result<Token> insert_token(db::Transaction& transaction, const TokenWanted& wanted, WallTime now);
Status revoke_token_of(db::Transaction& transaction, int64_t id, WallTime now);
Result<Identity> identify_by(db::Db& db, std::string_view secret, WallTime now);

}  // namespace trainyard::store
