#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "db/db.h"
#include "model/vm_size.h"
#include "wire/json.h"

// The table of sizes: one for all workspaces, an admin's to change. A name is one in any case.
namespace trainyard::store {

Result<std::vector<VmSize>> list_vm_sizes(db::Db& db);           // By GPUs, CPUs, memory and name.
Result<VmSize> load_vm_size(db::Db& db, std::string_view name);  // not_found, with a guess.
// The name as the table spells it; `invalid` with the nearest when it has none. Empty stays empty.
Result<std::string> known_size_name(db::Db& db, std::string_view name);
// Made, or changed in what `changes` holds (by the names of VmSize's fields).
Result<VmSize> set_vm_size(db::Transaction& transaction, std::string_view name,
                           const wire::Json& changes);
// `conflict` while a compute names it.
Status delete_vm_size(db::Transaction& transaction, std::string_view name);

}  // namespace trainyard::store
