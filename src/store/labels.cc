#include "store/labels.h"

#include "store/run_queries.h"
#include "wire/json.h"

namespace trainyard::store {
namespace {

std::string to_text(const std::map<std::string, std::string>& map) {
  return wire::dump(wire::Json(map));
}

Result<std::map<std::string, std::string>> to_map(std::string_view text) {
  TRY_SET(const wire::Json object, wire::parse(text));
  std::map<std::string, std::string> map;
  for (const auto& [key, value] : object.items()) map[key] = value.get<std::string>();
  return map;
}

}  // namespace

Labels labels_of(const RunSpec& spec) {
  return {.display_name = spec.display_name,
          .description = spec.description,
          .tags = spec.tags,
          .properties = spec.properties};
}

Result<Labels> read_labels(const db::Statement& row, int column) {
  Labels labels;
  labels.display_name = row.text(column);
  labels.description = row.text(column + 1);
  TRY_SET(labels.tags, to_map(row.text(column + 2)));
  TRY_SET(labels.properties, to_map(row.text(column + 3)));
  return labels;
}

Result<Labels> load_labels(db::Db& db, int64_t run) {
  {
    TRY_SET(db::Statement row, db.query("SELECT display_name, description, tags, properties "
                                        "FROM run_labels WHERE run = ?",
                                        {run}));
    TRY_SET(const bool any, row.next());
    if (any) return read_labels(row, 0);
  }
  TRY_SET(db::Statement row, db.query("SELECT spec FROM run_specs WHERE run = ?", {run}));
  TRY_SET(const bool any, row.next());
  if (!any) return Labels{};
  TRY_SET(const wire::Json json, wire::parse(row.text(0)));
  TRY_SET(const RunSpec spec, wire::decode_run_spec(json));
  return labels_of(spec);
}

Status save_labels(db::Transaction& transaction, int64_t run, const Labels& labels) {
  TRY(
      transaction.run("INSERT INTO run_labels (run, display_name, description, tags, properties) "
                      "VALUES (?, ?, ?, ?, ?) ON CONFLICT (run) DO UPDATE SET "
                      "display_name = excluded.display_name, description = excluded.description, "
                      "tags = excluded.tags, properties = excluded.properties",
                      {run, labels.display_name, labels.description, to_text(labels.tags),
                       to_text(labels.properties)}));
  return save_tags(transaction, run, labels.tags);
}

Status save_tags(db::Transaction& transaction, int64_t run,
                 const std::map<std::string, std::string>& tags) {
  std::map<std::string, std::string> before;
  {
    TRY_SET(db::Statement rows,
            transaction.query("SELECT name, value FROM run_tags WHERE run = ?", {run}));
    while (true) {
      TRY_SET(const bool more, rows.next());
      if (!more) break;
      before[rows.text(0)] = rows.text(1);
    }
  }
  for (const auto& [name, value] : before) {
    if (tags.contains(name)) continue;
    TRY(transaction.run("DELETE FROM run_tags WHERE run = ? AND name = ?", {run, name}));
  }
  for (const auto& [name, value] : tags) {
    const auto known = before.find(name);
    if (known != before.end() && known->second == value) continue;
    TRY(
        transaction.run("INSERT INTO run_tags (run, name, value, workspace_id, experiment_id) "
                        "SELECT number, ?, ?, workspace_id, experiment_id FROM runs "
                        "WHERE number = ? "
                        "ON CONFLICT (run, name) DO UPDATE SET value = excluded.value",
                        {name, value, run}));
  }
  return {};
}

Status set_parameter(db::Transaction& transaction, int64_t run, std::string_view name,
                     std::string_view value) {
  TRY(
      transaction.run("INSERT INTO parameters (run, name, value) VALUES (?, ?, ?) "
                      "ON CONFLICT (run, name) DO UPDATE SET value = excluded.value",
                      {run, name, value}));
  return {};
}

}  // namespace trainyard::store
