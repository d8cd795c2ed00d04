#include "store/run_list.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/text.h"
#include "store/deletion.h"
#include "store/workspaces.h"

namespace trainyard::store {
namespace {

// Where several indexes fit, this many of the newest entries of each tell which one to read: the
// one where they reach furthest back passes over the most runs. That takes 0.1 ms a range.
constexpr int64_t kProbeEntries = 1'000;

constexpr std::array<std::string_view, 4> kOutcomes = {"", "Completed", "Failed", "Canceled"};

constexpr int64_t kDeletedShelf = 4;

// A filter with its names looked up.
struct Scope {
  std::optional<int64_t> workspace;
  std::vector<int64_t> workspaces;         // That one, else all.
  bool hides = false;                      // There are deleted workspaces that still have runs.
  std::vector<int64_t> experiments;        // By the filter's name; in one workspace or in all.
  std::vector<std::string_view> outcomes;  // Values of runs.outcome: '' while a run is open.
  std::vector<std::string_view> statuses;  // Of open runs; empty: any.
  std::vector<int64_t> shelves;            // Values of runs.shelf.
};

using Row = std::vector<db::Value>;

// One way to read the runs of a filter: ranges of an index, each already in the order of the list.
struct Path {
  std::string from;         // The table and the index, which has all that `equal` names.
  std::string join;         // `runs r`, where `from` is another table.
  std::string equal;        // The columns of the index before the run's number.
  std::vector<Row> ranges;  // Their values.
  std::string_view number = "r.number";
  bool has_shelf = true;  // Among the columns of `equal`, and the outcome if the filter has one.
  const RunFilter::Tag* tag = nullptr;  // The one of the filter that is in `equal`.
};

// The conditions of a filter that its path may not cover.
struct Conditions {
  std::string sql;
  Row values;
};

template <class T>
std::string question_marks(const std::vector<T>& values) {
  std::string marks;
  for (size_t i = 0; i < values.size(); ++i) marks += i == 0 ? "?" : ", ?";
  return marks;
}

void add_condition(Conditions& conditions, std::string_view sql, db::Value value) {
  conditions.sql += sql;
  conditions.values.push_back(value);
}

template <class T>
void add_one_of(Conditions& conditions, std::string_view column, const std::vector<T>& values) {
  conditions.sql += std::string(column) + " IN (" + question_marks(values) + ")";
  for (const T& value : values) conditions.values.emplace_back(value);
}

Result<std::vector<int64_t>> read_numbers(db::Statement rows) {
  std::vector<int64_t> found;
  while (true) {
    TRY_SET(const bool more, rows.next());
    if (!more) return found;
    found.push_back(rows.integer(0));
  }
}

Status add_statuses(Scope& scope, std::string_view words) {
  if (words.empty()) {
    scope.outcomes.assign(kOutcomes.begin(), kOutcomes.end());
    return {};
  }
  for (const std::string& word : split(words, ',')) {
    TRY_SET(const RunStatus status, run_status_in_any_case(trim(word)));
    const std::string_view outcome = is_final(status) ? to_string(status) : std::string_view();
    if (!is_final(status)) scope.statuses.push_back(to_string(status));
    if (std::ranges::find(scope.outcomes, outcome) == scope.outcomes.end()) {
      scope.outcomes.push_back(outcome);
    }
  }
  return {};
}

std::vector<int64_t> shelves_of(const RunFilter& filter) {
  using enum RunFilter::Archived;
  if (filter.deleted == RunFilter::Deleted::only) return {kDeletedShelf};
  std::vector<int64_t> shelves;
  for (const int64_t archived : {0, 1}) {
    if (filter.archived != any && (filter.archived == only) != (archived == 1)) continue;
    if (filter.parent == 0) shelves.push_back(archived * 2);
    if (filter.parent > 0 || filter.children) shelves.push_back(archived * 2 + 1);
  }
  if (filter.deleted == RunFilter::Deleted::any) shelves.push_back(kDeletedShelf);
  return shelves;
}

Result<Scope> scope_of(db::Db& db, const RunFilter& filter) {
  Scope scope{.shelves = shelves_of(filter)};
  TRY(add_statuses(scope, filter.status));
  if (!filter.workspace.empty()) {
    TRY_SET(const Workspace found, load_workspace(db, filter.workspace));
    scope.workspace = found.id;
    scope.workspaces = {found.id};
  } else {
    TRY_SET(db::Statement rows, db.query("SELECT id FROM workspaces WHERE deleted IS NULL"));
    TRY_SET(scope.workspaces, read_numbers(std::move(rows)));
    TRY_SET(db::Statement hidden,
            db.query("SELECT 1 FROM workspaces WHERE deleted IS NOT NULL LIMIT 1"));
    TRY_SET(scope.hides, hidden.next());
    std::erase_if(scope.workspaces, [&](int64_t id) {
      return std::ranges::find(filter.closed, id) != filter.closed.end();
    });
  }
  if (filter.experiment.empty()) return scope;
  if (scope.workspace) {
    TRY_SET(db::Statement rows,
            db.query("SELECT id FROM experiments WHERE workspace_id = ? AND name = ?",
                     {*scope.workspace, filter.experiment}));
    TRY_SET(scope.experiments, read_numbers(std::move(rows)));
  } else {
    TRY_SET(db::Statement rows,
            db.query("SELECT e.id FROM experiments e CROSS JOIN workspaces w ON "
                     "w.id = e.workspace_id WHERE e.name = ? AND w.deleted IS NULL",
                     {filter.experiment}));
    TRY_SET(scope.experiments, read_numbers(std::move(rows)));
  }
  return scope;
}

// `head` and then each outcome with each shelf, the columns that all indexes of runs end with.
void add_ranges(Path& path, const Scope& scope, const Row& head) {
  for (const std::string_view outcome : scope.outcomes) {
    for (const int64_t shelf : scope.shelves) {
      Row values = head;
      values.emplace_back(outcome);
      values.emplace_back(shelf);
      path.ranges.push_back(std::move(values));
    }
  }
}

Path runs_path(std::string_view index, std::string_view head) {
  return {.from = "runs r INDEXED BY " + std::string(index),
          .equal = std::string(head) + "r.outcome = ? AND r.shelf = ?"};
}

Path tag_path(const Scope& scope, const RunFilter& filter, const RunFilter::Tag& tag) {
  const bool by_experiment = !filter.experiment.empty();
  const std::string unit = by_experiment ? "experiment" : "workspace";
  Path path{.from = "run_tags t INDEXED BY run_tags_" +
                    std::string(tag.value ? "of_" : "named_in_") + unit,
            .join = " CROSS JOIN runs r ON r.number = t.run",
            .equal = "t." + unit + "_id = ? AND t.name = ?",
            .number = "t.run",
            .has_shelf = false,
            .tag = &tag};
  if (tag.value) path.equal += " AND t.value = ?";
  for (const int64_t id : by_experiment ? scope.experiments : scope.workspaces) {
    Row values = {id, tag.name};
    if (tag.value) values.emplace_back(*tag.value);
    path.ranges.push_back(std::move(values));
  }
  return path;
}

// Open runs that are not queued: few, and not in the order of the list.
Path open_path(const Scope& scope) {
  Path path{.from = "runs r INDEXED BY runs_open",
            .equal = "r.final = 0 AND r.status = ?",
            .has_shelf = false};
  for (const std::string_view status : scope.statuses) path.ranges.push_back({status});
  return path;
}

// By an index each: the beginning of an id, the display name somebody gave a run later, and the one
// it was submitted with. Every character of an id is before '~'.
Path named_path(const std::string& word) {
  constexpr std::string_view kFrom =
      "(SELECT number FROM runs WHERE id >= ? AND id < ? || '~' "
      "UNION SELECT run FROM run_labels WHERE display_name = ? AND display_name <> '' "
      "UNION SELECT s.run FROM run_specs s WHERE json_extract(s.spec, '$.displayName') = ? "
      "AND json_extract(s.spec, '$.displayName') <> '' "
      "AND NOT EXISTS (SELECT 1 FROM run_labels l WHERE l.run = s.run)) named";
  return {.from = std::string(kFrom),
          .join = " CROSS JOIN runs r ON r.number = named.number",
          .equal = "1 = 1",
          .ranges = {{word, word, word, word}},
          .has_shelf = false};
}

bool only_live(const Scope& scope) {
  const bool open = scope.outcomes.size() == 1 && scope.outcomes.front().empty();
  return open && !scope.statuses.empty() &&
         std::ranges::find(scope.statuses, to_string(RunStatus::queued)) == scope.statuses.end();
}

// All that fit, the most selective by experience first.
std::vector<Path> paths_of(const Scope& scope, const RunFilter& filter) {
  if (!filter.named.empty()) return {named_path(filter.named)};
  std::vector<Path> paths;
  const auto add_path = [&](std::string_view index, std::string_view head,
                            const std::vector<Row>& heads) {
    Path& path = paths.emplace_back(runs_path(index, head));
    for (const Row& values : heads) add_ranges(path, scope, values);
  };
  const auto in_workspaces = [&](std::optional<db::Value> then) {
    std::vector<Row> heads;
    for (const int64_t id : scope.workspaces) {
      heads.push_back({id});
      if (then) heads.back().push_back(*then);
    }
    return heads;
  };
  for (const RunFilter::Tag& tag : filter.tags) paths.push_back(tag_path(scope, filter, tag));
  if (filter.parent > 0) add_path("runs_of_parent", "r.parent = ? AND ", {Row{filter.parent}});
  if (only_live(scope)) paths.push_back(open_path(scope));
  if (!filter.user.empty()) {
    add_path("runs_of_user", "r.workspace_id = ? AND r.user_name = ? AND ",
             in_workspaces(filter.user));
  }
  if (!filter.target.empty()) {
    add_path("runs_of_target", "r.workspace_id = ? AND r.target = ? AND ",
             in_workspaces(filter.target));
  }
  if (!filter.experiment.empty()) {
    std::vector<Row> heads;
    for (const int64_t id : scope.experiments) heads.push_back({id});
    add_path("runs_of_experiment", "r.experiment_id = ? AND ", heads);
  } else if ((scope.workspace || scope.hides || !filter.closed.empty()) && filter.user.empty() &&
             filter.target.empty()) {
    add_path("runs_of_workspace", "r.workspace_id = ? AND ", in_workspaces({}));
  } else if (!filter.user.empty() || !filter.target.empty() || filter.parent > 0) {
    return paths;  // Each of them is part of the whole.
  } else if (filter.status.empty()) {
    Path& path =
        paths.emplace_back(Path{.from = "runs r INDEXED BY runs_of_shelf", .equal = "r.shelf = ?"});
    for (const int64_t shelf : scope.shelves) path.ranges.push_back({shelf});
  } else {
    add_path("runs_of_outcome", "", {Row{}});
  }
  return paths;
}

// All of the filter but its shelf, outcome and tags where the path has them: another look at a
// column of the index costs nothing, at one of the run it does.
Conditions conditions_of(const Scope& scope, const RunFilter& filter, const Path& path) {
  Conditions conditions;
  if (!path.has_shelf) {
    add_one_of(conditions, " AND r.shelf", scope.shelves);
    add_one_of(conditions, " AND r.outcome", scope.outcomes);
  }
  if (!filter.experiment.empty()) {
    add_one_of(conditions, " AND r.experiment_id", scope.experiments);
  } else if (scope.workspace) {
    add_condition(conditions, " AND r.workspace_id = ?", *scope.workspace);
  }
  const bool may_be_hidden = scope.hides && !filter.named.empty();
  if (!filter.closed.empty() || may_be_hidden) {
    add_one_of(conditions, " AND r.workspace_id", scope.workspaces);
  }
  if (filter.parent > 0) add_condition(conditions, " AND r.parent = ?", filter.parent);
  if (filter.deleted == RunFilter::Deleted::only) {
    add_condition(conditions, " AND r.deleted > ?", kDeletedForGood);
    if (!filter.children && filter.parent == 0) {
      conditions.sql +=
          " AND NOT EXISTS (SELECT 1 FROM runs above WHERE above.number = r.parent AND "
          "above.deleted IS NOT NULL)";
    }
  }
  if (!filter.target.empty()) add_condition(conditions, " AND r.target = ?", filter.target);
  if (!filter.user.empty()) add_condition(conditions, " AND r.user_name = ?", filter.user);
  if (!scope.statuses.empty()) {
    add_one_of(conditions, " AND (r.outcome <> '' OR r.status", scope.statuses);
    conditions.sql += ")";
  }
  for (const RunFilter::Tag& tag : filter.tags) {
    if (&tag == path.tag) continue;
    add_condition(
        conditions,
        " AND EXISTS (SELECT 1 FROM run_tags has WHERE has.run = r.number AND has.name = ?",
        tag.name);
    if (tag.value) add_condition(conditions, " AND has.value = ?", *tag.value);
    conditions.sql += ")";
  }
  return conditions;
}

// The number of the oldest of the newest entries of a path; 0: it has fewer.
Result<int64_t> reach_of(db::Db& db, const Path& path, int64_t before) {
  const std::string number(path.number);
  const std::string sql = "SELECT " + number + " FROM " + path.from + " WHERE " + path.equal +
                          " AND " + number + " < ? ORDER BY " + number + " DESC LIMIT 1 OFFSET ?";
  int64_t reach = 0;
  for (Row values : path.ranges) {
    values.insert(values.end(), {before, kProbeEntries});
    TRY_SET(db::Statement row, db.query_with(sql, values));
    TRY_SET(const bool any, row.next());
    if (any) reach = std::max(reach, row.integer(0));
  }
  return reach;
}

// The path that reaches furthest back; among equals the first.
Result<Path> choose_path(db::Db& db, std::vector<Path> paths, int64_t before) {
  size_t best = 0;
  int64_t furthest = std::numeric_limits<int64_t>::max();
  for (size_t i = 0; i < paths.size() && paths.size() > 1; ++i) {
    TRY_SET(const int64_t reach, reach_of(db, paths[i], before));
    if (reach >= furthest) continue;
    best = i;
    furthest = reach;
  }
  return std::move(paths[best]);
}

}  // namespace

Result<std::vector<int64_t>> list_run_numbers(db::Db& db, const RunFilter& filter, int limit) {
  TRY_SET(const Scope scope, scope_of(db, filter));
  if (!filter.experiment.empty() && scope.experiments.empty()) return std::vector<int64_t>();
  if (scope.workspaces.empty()) return std::vector<int64_t>();
  const int64_t before = filter.before > 0 ? filter.before : std::numeric_limits<int64_t>::max();
  TRY_SET(const Path path, choose_path(db, paths_of(scope, filter), before));
  const Conditions conditions = conditions_of(scope, filter, path);
  const std::string number(path.number);
  const std::string sql = "SELECT " + number + " FROM " + path.from + path.join + " WHERE " +
                          path.equal + conditions.sql + " AND " + number + " < ? AND " + number +
                          " > ? ORDER BY " + number + " DESC LIMIT ?";
  std::vector<int64_t> numbers;
  int64_t floor = 0;  // The page is full of newer runs than this one.
  for (Row values : path.ranges) {
    values.insert(values.end(), conditions.values.begin(), conditions.values.end());
    values.insert(values.end(), {before, floor, limit});
    TRY_SET(db::Statement rows, db.query_with(sql, values));
    TRY_SET(const std::vector<int64_t> found, read_numbers(std::move(rows)));
    numbers.insert(numbers.end(), found.begin(), found.end());
    std::ranges::sort(numbers, std::greater());
    if (numbers.size() < static_cast<size_t>(limit)) continue;
    numbers.resize(static_cast<size_t>(limit));
    floor = numbers.back();
  }
  return numbers;
}

}  // namespace trainyard::store
