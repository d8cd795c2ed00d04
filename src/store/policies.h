#pragma once

#include "db/db.h"
#include "model/policy.h"
#include "model/run.h"

// The policy of each role: one table for the whole server, the admin's to change.
namespace trainyard::store {

// Admins are always allowed everything.
Result<RolePolicy> load_policy(db::Db& db, Role role);
// `invalid` for a role whose policy is fixed.
Status save_policy(db::Transaction& transaction, Role role, const RolePolicy& policy);

}  // namespace trainyard::store
