#pragma once

#include "db/db.h"
#include "model/run.h"

// What people change of a run after it was submitted.
namespace trainyard::store {

// As the spec has them: a run nobody has changed has no row.
Labels labels_of(const RunSpec& spec);
// Columns display_name, description, tags, properties, the first at `column`.
Result<Labels> read_labels(const db::Statement& row, int column);

Result<Labels> load_labels(db::Db& db, int64_t run);
// All but `archived`, which is in the run's own row.
Status save_labels(db::Transaction& transaction, int64_t run, const Labels& labels);

// Makes the run's rows in `run_tags`, which lists filter by, those of `tags`.
Status save_tags(db::Transaction& transaction, int64_t run,
                 const std::map<std::string, std::string>& tags);

// Parameters that a script tells.
Status set_parameter(db::Transaction& transaction, int64_t run, std::string_view name,
                     std::string_view value);

}  // namespace trainyard::store
