#include "store/environments.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "base/id.h"
#include "base/text.h"
#include "store/deletion.h"
#include "store/workspaces.h"
#include "wire/json.h"

namespace trainyard::store {
namespace {

constexpr size_t kPatternMax = 255;

Result<Environment> read_json(const std::string& text) {
  TRY_SET(const wire::Json json, wire::parse(text));
  return wire::decode_environment(json);
}

std::string json_of(Environment environment) {
  environment.name.clear();
  environment.version.clear();
  environment.hash.clear();
  environment.recipe.platform.clear();
  return wire::dump(wire::encode(environment));
}

constexpr std::string_view kColumns =
    "e.name, e.version, e.environment, w.name, e.description, e.archived, e.created_by, e.created "
    "FROM environments e JOIN workspaces w ON w.id = e.workspace_id ";

Result<EnvironmentRecord> read_record(const db::Statement& row) {
  EnvironmentRecord record;
  TRY_SET(record.environment, read_json(row.text(2)));
  record.environment.name = row.text(0);
  record.environment.version = row.text(1);
  record.workspace = row.text(3);
  record.description = row.text(4);
  record.archived = row.integer(5) != 0;
  record.created_by = row.text(6);
  record.created = row.time(7);
  return record;
}

Result<std::vector<EnvironmentRecord>> read_records(db::Statement rows) {
  std::vector<EnvironmentRecord> records;
  while (true) {
    TRY_SET(const bool more, rows.next());
    if (!more) return records;
    TRY_SET(EnvironmentRecord record, read_record(rows));
    records.push_back(std::move(record));
  }
}

Result<std::optional<EnvironmentRecord>> read_one(db::Statement row) {
  TRY_SET(const bool any, row.next());
  if (!any) return std::optional<EnvironmentRecord>();
  TRY_SET(EnvironmentRecord record, read_record(row));
  return std::optional(std::move(record));
}

Result<std::optional<EnvironmentRecord>> find_same(db::Db& db, int64_t workspace,
                                                   std::string_view name,
                                                   std::string_view fingerprint) {
  TRY_SET(db::Statement row,
          db.query("SELECT " + std::string(kColumns) +
                       "WHERE e.workspace_id = ? AND e.name = ? AND e.fingerprint = ? AND "
                       "e.deleted IS NULL ORDER BY e.id LIMIT 1",
                   {workspace, name, fingerprint}));
  return read_one(std::move(row));
}

// One above the highest that is a number.
Result<std::string> next_version(db::Db& db, int64_t workspace, std::string_view name) {
  TRY_SET(db::Statement rows,
          db.query("SELECT version FROM environments WHERE workspace_id = ? AND name = ?",
                   {workspace, name}));
  int64_t highest = 0;
  while (true) {
    TRY_SET(const bool more, rows.next());
    if (!more) return std::to_string(highest + 1);
    const auto number = parse_int(rows.text(0), "version");
    if (number && *number < INT64_MAX) highest = std::max(highest, *number);
  }
}

Result<EnvironmentRecord> read_curated(const db::Statement& row) {
  EnvironmentRecord record;
  TRY_SET(record.environment, read_json(row.text(1)));
  record.environment.name = row.text(0);
  record.note = row.text(2);
  record.created_by = row.text(3);
  return record;
}

// '*' stands for anything.
bool is_like(std::string_view name, std::string_view pattern) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return name == pattern;
  const std::string_view head = pattern.substr(0, star);
  if (!name.starts_with(head)) return false;
  name.remove_prefix(head.size());
  const std::string_view rest = pattern.substr(star + 1);
  for (size_t cut = 0; cut <= name.size(); ++cut) {
    if (is_like(name.substr(cut), rest)) return true;
  }
  return false;
}

Status check_curated_name(std::string_view name) {
  std::string plain(name);
  std::erase(plain, '*');
  if (name.size() > kPatternMax || std::ranges::count(name, '*') > 3) {
    return fail(ErrorKind::invalid, "curated name '" + std::string(name) + "' is too long",
                "At most 255 characters, three of them '*'.");
  }
  return check_name(plain, "curated name");
}

// When one of that name and version (any, where it names none) was deleted.
Result<std::optional<WallTime>> deleted_at(db::Db& db, int64_t workspace,
                                           const EnvironmentName& name) {
  TRY_SET(db::Statement row,
          db.query("SELECT MAX(deleted) FROM environments WHERE workspace_id = ? AND name = ? AND "
                   "(? = '' OR version = ?)",
                   {workspace, name.name, name.version, name.version}));
  TRY_SET(const bool any, row.next());
  return any ? row.maybe_time(0) : std::optional<WallTime>();
}

std::string restore_hint(const EnvironmentName& name) {
  return "Restore it with: trainyard environment restore -n " + name.name +
         (name.version.empty() ? "" : " --version " + name.version);
}

// A version that was deleted is not given to another before it is purged.
Status check_not_deleted(db::Db& db, int64_t workspace, const EnvironmentName& name) {
  TRY_SET(const std::optional<WallTime> deleted, deleted_at(db, workspace, name));
  if (!deleted) return {};
  const std::string what = "environment " + name.name + ":" + name.version + " was deleted ";
  if (*deleted == kDeletedForGood) {
    return fail(ErrorKind::conflict, what + "for good, and is being removed",
                "Try again in a moment, or register it without a version.");
  }
  return fail(ErrorKind::conflict, what + "and can be restored",
              restore_hint(name) + ", or register it without a version");
}

std::unexpected<Error> no_such_environment(db::Db& db, std::string_view workspace,
                                           const EnvironmentName& name) {
  std::map<std::string, std::string> spelled;
  std::vector<std::string> known;
  const auto add = [&](const std::string& one) {
    if (one.find('*') != std::string::npos) return;
    spelled[lower(one)] = one;
    known.push_back(lower(one));
  };
  std::vector<std::string> versions;
  if (const auto all = list_environments(db, workspace, {.name = {}, .archived = true})) {
    for (const EnvironmentRecord& record : *all) add(record.environment.name);
  }
  if (const auto all = list_environments(db, workspace, {.name = name.name, .archived = true})) {
    for (const EnvironmentRecord& record : *all) versions.push_back(record.environment.version);
  }
  if (const auto all = list_curated(db)) {
    for (const EnvironmentRecord& record : *all) add(record.environment.name);
  }
  if (!versions.empty()) {
    if (name.version.empty()) {
      return fail(ErrorKind::not_found, "environment '" + name.name + "' is archived",
                  "Bring it back with: trainyard environment restore -n " + name.name);
    }
    return fail(ErrorKind::not_found,
                "environment '" + name.name + "' has no version " + name.version,
                "It has: " + join(versions, ", ") + ".");
  }
  if (const auto in = load_workspace(db, workspace)) {
    const auto deleted = deleted_at(db, in->id, name);
    if (deleted && *deleted && **deleted > kDeletedForGood) {
      return fail(ErrorKind::not_found, "environment '" + name.name + "' was deleted",
                  restore_hint(name));
    }
  }
  const std::string near = nearest(lower(name.name), known);
  return fail(ErrorKind::not_found, "environment '" + name.name + "' does not exist",
              (near.empty() ? "" : "Did you mean '" + spelled[near] + "'? ") +
                  std::string("They are listed by: trainyard environment list, and trainyard "
                              "environment curated list"));
}

}  // namespace

Result<std::vector<EnvironmentRecord>> list_environments(db::Db& db, std::string_view workspace,
                                                         const EnvironmentFilter& filter) {
  TRY_SET(const Workspace of, load_workspace(db, workspace));
  TRY_SET(db::Statement rows,
          db.query("SELECT " + std::string(kColumns) +
                       "WHERE e.workspace_id = ? AND (? = '' OR e.name = ?) AND "
                       "(? OR e.archived = 0) AND e.deleted IS NULL ORDER BY e.id DESC",
                   {of.id, filter.name, filter.name, filter.archived ? 1 : 0}));
  TRY_SET(std::vector<EnvironmentRecord> all, read_records(std::move(rows)));
  if (!filter.name.empty()) return all;
  std::vector<EnvironmentRecord> latest;
  std::map<std::string, bool> seen;
  for (EnvironmentRecord& record : all) {
    if (!std::exchange(seen[record.environment.name], true)) latest.push_back(std::move(record));
  }
  return latest;
}

Result<std::optional<EnvironmentRecord>> find_environment(db::Db& db, int64_t workspace,
                                                          const EnvironmentName& name) {
  TRY_SET(db::Statement row,
          db.query("SELECT " + std::string(kColumns) +
                       "WHERE e.workspace_id = ? AND e.name = ? AND e.deleted IS NULL AND "
                       "(e.version = ? OR (? = '' AND e.archived = 0)) ORDER BY e.id DESC LIMIT 1",
                   {workspace, name.name, name.version, name.version}));
  return read_one(std::move(row));
}

Result<EnvironmentMade> register_environment(db::Transaction& transaction,
                                             std::string_view workspace, EnvironmentRecord record) {
  Environment& environment = record.environment;
  db::Db& db = transaction.db();
  TRY(check_environment_name(environment.name));
  TRY_SET(const Workspace of, load_workspace(db, workspace));
  const std::string does = fingerprint(environment);
  if (environment.version.empty()) {
    TRY_SET(std::optional<EnvironmentRecord> same, find_same(db, of.id, environment.name, does));
    if (same) return EnvironmentMade{*std::move(same), false};
    TRY_SET(environment.version, next_version(db, of.id, environment.name));
  } else {
    TRY(check_name(environment.version, "version"));
    TRY_SET(std::optional<EnvironmentRecord> there,
            find_environment(db, of.id, {environment.name, environment.version}));
    if (there && fingerprint(there->environment) == does) {
      return EnvironmentMade{*std::move(there), false};
    }
    TRY(check_not_deleted(db, of.id, {environment.name, environment.version}));
    if (there) {
      return fail(ErrorKind::conflict,
                  "environment " + label(environment) + " is there and is another",
                  "A version stays as it is: leave the version out, and it gets the next.");
    }
  }
  record.workspace = of.name;
  TRY(
      transaction.run("INSERT INTO environments (workspace_id, name, version, environment, "
                      "fingerprint, description, archived, created_by, created) "
                      "VALUES (?, ?, ?, ?, ?, ?, 0, ?, ?)",
                      {of.id, environment.name, environment.version, json_of(environment), does,
                       record.description, record.created_by, record.created}));
  return EnvironmentMade{std::move(record), true};
}

Status delete_environment(db::Transaction& transaction, std::string_view workspace,
                          const EnvironmentName& name, WallTime when, std::string_view owner) {
  TRY_SET(const Workspace of, load_workspace(transaction.db(), workspace));
  if (!owner.empty()) {
    TRY_SET(db::Statement row,
            transaction.db().query(
                "SELECT version, created_by FROM environments WHERE workspace_id = ? AND name = ? "
                "AND (? = '' OR version = ?) AND (deleted IS NULL OR deleted > ?) AND created_by "
                "<> ? LIMIT 1",
                {of.id, name.name, name.version, name.version, when, owner}));
    TRY_SET(const bool others, row.next());
    if (others) {
      return fail(ErrorKind::denied,
                  "environment " + name.name + ":" + row.text(0) + " is " + row.text(1) +
                      "'s; only they or an admin delete it",
                  "Delete your own versions by --version, or ask an admin.");
    }
  }
  TRY_SET(const int64_t changed,
          transaction.run("UPDATE environments SET deleted = ? WHERE workspace_id = ? AND "
                          "name = ? AND (? = '' OR version = ?) AND (deleted IS NULL OR "
                          "deleted > ?)",
                          {when, of.id, name.name, name.version, name.version, when}));
  if (changed > 0) return {};
  return no_such_environment(transaction.db(), workspace, name);
}

Result<std::vector<EnvironmentRecord>> environments_with_trees(db::Db& db) {
  TRY_SET(db::Statement rows, db.query("SELECT " + std::string(kColumns) +
                                       "WHERE e.environment LIKE '%\"context\":%' ORDER BY e.id"));
  return read_records(std::move(rows));
}

Status archive_environment(db::Transaction& transaction, std::string_view workspace,
                           const EnvironmentName& name, bool archived) {
  TRY_SET(const Workspace of, load_workspace(transaction.db(), workspace));
  if (!archived) {
    TRY(
        transaction.run("UPDATE environments SET deleted = NULL WHERE workspace_id = ? AND "
                        "name = ? AND (? = '' OR version = ?) AND deleted > ?",
                        {of.id, name.name, name.version, name.version, kDeletedForGood}));
  }
  TRY_SET(const int64_t changed,
          transaction.run("UPDATE environments SET archived = ? WHERE workspace_id = ? AND "
                          "name = ? AND (? = '' OR version = ?) AND deleted IS NULL",
                          {archived ? 1 : 0, of.id, name.name, name.version, name.version}));
  if (changed > 0) return {};
  return no_such_environment(transaction.db(), workspace, name);
}

Result<std::vector<EnvironmentRecord>> list_curated(db::Db& db) {
  std::vector<EnvironmentRecord> records;
  TRY_SET(db::Statement rows, db.query("SELECT name, environment, note, changed_by FROM "
                                       "curated_environments ORDER BY name"));
  while (true) {
    TRY_SET(const bool more, rows.next());
    if (!more) return records;
    TRY_SET(EnvironmentRecord record, read_curated(rows));
    records.push_back(std::move(record));
  }
}

Result<std::optional<EnvironmentRecord>> find_curated(db::Db& db, std::string_view name) {
  TRY_SET(std::vector<EnvironmentRecord> all, list_curated(db));
  const std::string low = lower(name);
  EnvironmentRecord* best = nullptr;
  for (EnvironmentRecord& record : all) {
    const std::string pattern = lower(record.environment.name);
    if (pattern == low) return std::optional(std::move(record));
    if (!is_like(low, pattern)) continue;
    if (best == nullptr || best->environment.name.size() < pattern.size()) best = &record;
  }
  if (best == nullptr) return std::optional<EnvironmentRecord>();
  best->environment.name = name;
  return std::optional(std::move(*best));
}

Status set_curated(db::Transaction& transaction, const EnvironmentRecord& record) {
  TRY(check_curated_name(record.environment.name));
  TRY(transaction.run(
      "INSERT INTO curated_environments (name, environment, note, changed_by) VALUES (?, ?, ?, ?) "
      "ON CONFLICT (name) DO UPDATE SET environment = excluded.environment, "
      "note = excluded.note, changed_by = excluded.changed_by",
      {record.environment.name, json_of(record.environment), record.note, record.created_by}));
  return {};
}

Status delete_curated(db::Transaction& transaction, std::string_view name) {
  TRY_SET(const int64_t changed,
          transaction.run("DELETE FROM curated_environments WHERE name = ?", {name}));
  if (changed > 0) return {};
  std::vector<std::string> known;
  if (const auto all = list_curated(transaction.db())) {
    for (const EnvironmentRecord& record : *all) known.push_back(record.environment.name);
  }
  const std::string near = nearest(name, known);
  return fail(ErrorKind::not_found, "there is no curated environment '" + std::string(name) + "'",
              (near.empty() ? "" : "Did you mean '" + near + "'? ") +
                  std::string("They are listed by: trainyard environment curated list"));
}

Result<EnvironmentRecord> resolve_environment(db::Db& db, std::string_view workspace,
                                              const EnvironmentName& name) {
  TRY_SET(const Workspace of, load_workspace(db, workspace));
  TRY_SET(std::optional<EnvironmentRecord> registered, find_environment(db, of.id, name));
  if (registered) return *std::move(registered);
  // Versions of curated ones are their makers', not ours: users' files name them all the same.
  TRY_SET(const auto known,
          list_environments(db, workspace, {.name = name.name, .archived = true}));
  if (known.empty()) {
    TRY_SET(std::optional<EnvironmentRecord> curated, find_curated(db, name.name));
    if (curated) return *std::move(curated);
  }
  return no_such_environment(db, workspace, name);
}

Result<std::optional<RunId>> build_run(db::Db& db, std::string_view hash) {
  TRY_SET(db::Statement row, db.query("SELECT run FROM environment_builds WHERE hash = ?", {hash}));
  TRY_SET(const bool any, row.next());
  return any ? std::optional<RunId>(RunId{row.text(0)}) : std::nullopt;
}

Status set_build_run(db::Transaction& transaction, std::string_view hash, const RunId& run) {
  TRY(
      transaction.run("INSERT INTO environment_builds (hash, run) VALUES (?, ?) "
                      "ON CONFLICT (hash) DO UPDATE SET run = excluded.run",
                      {hash, run.value}));
  return {};
}

}  // namespace trainyard::store
