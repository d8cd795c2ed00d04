#include <fmt/format.h>

#include <cmath>
#include <set>

#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/exit.h"
#include "cli/run_names.h"
#include "model/environment_record.h"
#include "model/parameters.h"

namespace trainyard::cli {
namespace {

constexpr Option kRunDiffRows[] = {
    {"--all", Takes::nothing, "", "Also what is the same in both."},
};

using Values = std::map<std::string, Json>;

struct Side {
  Json run;
  RunSpec spec;
  snapshot::Tree code;
  std::vector<std::string> lock;  // The exact versions in its environment, where they are known.
};

constexpr std::string_view kLockFile = "system_logs/environment_lock.txt";

// What was really there, else what was to be there.
std::vector<std::string> lock_of(client::Api& api, const RunId& id, const RunSpec& spec) {
  if (spec.environment.hash.empty()) return {};
  std::string text;
  const auto take = [&](std::string_view bytes) -> Status {
    text += bytes;
    return {};
  };
  for (uint64_t from = 0;;) {
    const auto part = api.file(id, kLockFile, from, 0, take);
    if (!part || part->next == std::exchange(from, part->next)) break;
  }
  if (text.empty()) return spec.environment.lock;
  std::vector<std::string> lines;
  for (std::string& line : split(text, '\n')) {
    if (!line.empty()) lines.push_back(std::move(line));
  }
  return lines;
}

Result<Side> load(Context& context, client::Api& api, const std::string& word) {
  Side side;
  TRY_SET(const RunId id, find_run(context, word));
  TRY_SET(side.run, api.run(id));
  TRY_SET(side.spec, api.spec(id));
  TRY_SET(side.code, api.snapshot(id));
  side.lock = lock_of(api, id, side.spec);
  return side;
}

Values members(const Json& run, std::string_view key) {
  Values values;
  const auto found = run.find(key);
  if (found == run.end() || !found->is_object()) return values;
  for (const auto& [name, value] : found->items()) values[name] = value;
  return values;
}

Values parameters_of(const Side& side) {
  Values values = members(side.run, "parameters");
  if (side.spec.form == CommandForm::shell) return values;
  for (const auto& [name, value] : command_parameters(side.spec.command)) values[name] = value;
  return values;
}

Values code_of(const Side& side) {
  Values values;
  for (const snapshot::Entry& entry : side.code.entries) {
    const bool link = entry.kind == snapshot::EntryKind::symlink;
    const bool program = entry.kind == snapshot::EntryKind::executable;
    values[entry.path] = link ? "-> " + entry.target
                              : entry.digest.hex().substr(0, 12) + ", " + format_size(entry.size) +
                                    (program ? ", executable" : "");
  }
  return values;
}

std::string without_place(const std::string& line) { return line.substr(0, line.find("  # ")); }

// "numpy==1.26.4" is the package numpy of that version.
void add_lock(const std::vector<std::string>& lock, Values& values) {
  for (const std::string& whole : lock) {
    const std::string line = whole.substr(0, whole.find(" --hash"));
    const size_t equals = line.find("==");
    if (equals == std::string::npos) {
      values["lock." + line] = line;
    } else {
      values["package." + line.substr(0, equals)] = line.substr(equals + 2);
    }
  }
}

// What the environment is made of: exact versions where they are known, else what was asked for.
void add_packages(const Side& side, Values& values) {
  const Environment& environment = side.spec.environment;
  const Recipe& recipe = environment.recipe;
  if (recipe.kind == EnvironmentKind::system) return;
  values["environmentKind"] = to_string(recipe.kind);
  values["environmentHash"] = environment.hash.substr(0, 12);
  if (!recipe.image.empty()) values["image"] = recipe.image;
  if (!recipe.python.empty()) values["python"] = recipe.python;
  if (!environment.arguments.empty()) values["dockerArguments"] = join(environment.arguments, " ");
  if (!side.lock.empty()) return add_lock(side.lock, values);
  for (const auto* lines : {&recipe.conda, &recipe.requirements}) {
    for (const std::string& line : *lines) values["asked." + without_place(line)] = "yes";
  }
}

// Where and in what it runs; of secrets the names.
Values environment_of(const Side& side) {
  const RunSpec& spec = side.spec;
  Values values = {{"environment", label(spec.environment)},
                   {"target", spec.target},
                   {"command", join(spec.command, " ")},
                   {"nodes", spec.nodes},
                   {"processesPerNode", spec.processes_per_node},
                   {"distribution", spec.distribution},
                   {"cpus", spec.resources.cpus},
                   {"gpus", spec.resources.gpus},
                   {"memoryBytes", spec.resources.memory_bytes},
                   {"timeLimitSeconds", spec.time_limit_s},
                   {"secrets", join(spec.secrets, ", ")}};
  add_packages(side, values);
  for (const auto& [name, value] : spec.environment.variables) values["env." + name] = value;
  for (const auto& [name, value] : spec.submit_environment) values["env." + name] = value;
  for (const auto& [name, value] : spec.environment_variables) values["env." + name] = value;
  return values;
}

Json compare(const Values& a, const Values& b, bool all) {
  std::set<std::string> names;
  for (const auto& [name, value] : a) names.insert(name);
  for (const auto& [name, value] : b) names.insert(name);
  Json list = Json::array();
  for (const std::string& name : names) {
    const auto left = a.find(name);
    const auto right = b.find(name);
    const Json before = left == a.end() ? Json() : left->second;
    const Json after = right == b.end() ? Json() : right->second;
    const bool same = before == after && (left == a.end()) == (right == b.end());
    if (same && !all) continue;
    const std::string_view change = same               ? "same"
                                    : left == a.end()  ? "added"
                                    : right == b.end() ? "removed"
                                                       : "changed";
    Json row = {{"name", name}, {"a", before}, {"b", after}, {"change", change}};
    if (before.is_number() && after.is_number()) {
      row["delta"] = after.get<double>() - before.get<double>();
    }
    list.push_back(std::move(row));
  }
  return list;
}

constexpr std::string_view kSections[] = {"parameters", "code", "environment", "metrics"};

std::string diff_words(const Json& diff) {
  std::string text;
  for (const std::string_view section : kSections) {
    const Json& rows = diff[std::string(section)];
    if (rows.empty()) {
      text += std::string(section) + ": the same\n";
      continue;
    }
    Table table{{std::string(section), cell_of(diff, "a"), cell_of(diff, "b"), ""}, {}};
    for (const Json& row : rows) {
      const auto delta = row.find("delta");
      std::string change = cell_of(row, "change");
      if (change == "changed") {
        change = delta == row.end() ? "" : fmt::format("{:+.6g}", delta->get<double>());
      }
      table.rows.push_back(
          {"  " + cell_of(row, "name"), cell_of(row, "a"), cell_of(row, "b"), change});
    }
    text += render_table(table, {});
  }
  return text;
}

Table rows_of(const Json& diff) {
  Table table{{"SECTION", "NAME", "A", "B", "CHANGE"}, {}};
  for (const std::string_view section : kSections) {
    for (const Json& row : diff[std::string(section)]) {
      table.rows.push_back({std::string(section), cell_of(row, "name"), cell_of(row, "a"),
                            cell_of(row, "b"), cell_of(row, "change")});
    }
  }
  return table;
}

}  // namespace

constinit const std::span<const Option> kRunDiffOptions = kRunDiffRows;

Result<int> run_diff(Context& context) {
  const auto& runs = context.args().words();
  if (runs.size() != 2) {
    return fail(ErrorKind::invalid, "which two runs?",
                "As in: trainyard run diff brisk-otter calm-finch");
  }
  const bool all = context.args().has("all");
  TRY_SET(client::Api * api, context.api());
  TRY_SET(const Side a, load(context, *api, runs[0]));
  TRY_SET(const Side b, load(context, *api, runs[1]));
  const Json diff = {
      {"a", cell_of(a.run, "id")},
      {"b", cell_of(b.run, "id")},
      {"parameters", compare(parameters_of(a), parameters_of(b), all)},
      {"code", compare(code_of(a), code_of(b), all)},
      {"environment", compare(environment_of(a), environment_of(b), all)},
      {"metrics", compare(members(a.run, "metrics"), members(b.run, "metrics"), all)}};
  TRY(context.print(diff, {.table = rows_of, .text = diff_words}));
  return kExitOk;
}

}  // namespace trainyard::cli
