#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "db/db.h"
#include "model/run.h"

// Secrets of a workspace; their values are sealed before they come here (seal/box.h).
namespace trainyard::store {

struct SecretHead {
  std::string name;
  std::string created_by;
  WallTime created{};
  WallTime changed{};
};
Result<std::vector<SecretHead>> list_secrets(db::Db& db, int64_t workspace);
// Made, or given another value.
Status set_secret(db::Transaction& transaction, int64_t workspace, std::string_view name,
                  std::string_view sealed, std::string_view by, WallTime now);
Status delete_secret(db::Transaction& transaction, int64_t workspace,
                     std::string_view name);  // not_found
Result<std::string> sealed_secret(db::Db& db, int64_t workspace, std::string_view name);
// not_found names the first that is not there.
Status check_secrets(db::Db& db, int64_t workspace, const std::vector<std::string>& names);

}  // namespace trainyard::store
