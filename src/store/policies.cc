#include "store/policies.h"

#include "wire/json.h"

namespace trainyard::store {

Result<RolePolicy> load_policy(db::Db& db, Role role) {
  if (role == Role::admin) return unlimited_policy();
  TRY_SET(db::Statement row,
          db.query("SELECT policy FROM role_policies WHERE role = ?", {to_string(role)}));
  TRY_SET(const bool any, row.next());
  if (!any) return default_policy();
  TRY_SET(const wire::Json json, wire::parse(row.text(0)));
  return wire::decode_role_policy(json);
}

Status save_policy(db::Transaction& transaction, Role role, const RolePolicy& policy) {
  if (role != Role::submitter) {
    return fail(ErrorKind::invalid,
                "the policy of the role " + std::string(to_string(role)) + " is fixed",
                "Admins may use everything, and readers submit nothing.");
  }
  TRY(
      transaction.run("INSERT INTO role_policies (role, policy) VALUES (?, ?) "
                      "ON CONFLICT (role) DO UPDATE SET policy = excluded.policy",
                      {to_string(role), wire::dump(wire::encode(policy))}));
  return {};
}

}  // namespace trainyard::store
