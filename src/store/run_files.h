#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "db/db.h"
#include "store/store.h"

// The names of a run's live files; their bytes lie under runs/RUN/files/, named by number.
namespace trainyard::store {

Result<std::vector<Store::RunFile>> list_run_files(db::Db& db, const RunId& run);
Result<std::optional<Store::RunFile>> find_run_file(db::Db& db, const RunId& run,
                                                    std::string_view path);
Result<Store::RunFile> get_or_create_run_file(db::Transaction& transaction, const RunId& run,
                                              std::string_view path);

}  // namespace trainyard::store
