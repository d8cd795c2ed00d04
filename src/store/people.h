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
Status remove_user(db::Transaction& transaction, std::string_view name, WallTime now);
Result<Token> insert_token(db::Transaction& transaction, std::string_view user,
                           std::string_view label, std::string_view secret,
                           std::optional<WallTime> expires, WallTime now);
Status revoke_token_of(db::Transaction& transaction, int64_t id, WallTime now);
Result<Identity> identify_by(db::Db& db, std::string_view secret, WallTime now);

}  // namespace trainyard::store
