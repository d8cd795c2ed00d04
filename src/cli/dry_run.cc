#include "cli/dry_run.h"

#include <algorithm>

#include "base/text.h"
#include "cli/exit.h"
#include "cli/run_view.h"
#include "cli/snapshot_advice.h"
#include "model/environment_record.h"

namespace trainyard::cli {
namespace {

constexpr size_t kIgnoredKept = 1'000;
constexpr size_t kRowsShown = 20;  // Of files, and of what is ignored.

Json code_to_json(const fs::path& code, const snapshot::Captured& captured) {
  Json files = Json::array();
  for (const snapshot::Entry& entry : captured.tree.entries) {
    files.push_back({{"path", entry.path}, {"size", entry.size}});
  }
  return {{"folder", code.string()},
          {"fileCount", captured.tree.files()},
          {"bytes", captured.tree.bytes()},
          {"ignored", captured.ignored},
          {"files", std::move(files)}};
}

Json plan_to_json(const RunSpec& spec) {
  Json variables = Json::array();
  for (const auto& [name, value] : spec.environment_variables) variables.push_back(name);
  return {{"command", spec.command},
          {"workspace", spec.workspace},
          {"experiment", spec.experiment},
          {"name", spec.display_name},
          {"target", spec.target},
          {"environment", label(spec.environment)},
          {"nodes", spec.nodes},
          {"processesPerNode", spec.processes_per_node},
          {"cpus", spec.resources.cpus},
          {"gpus", spec.resources.gpus},
          {"memoryBytes", spec.resources.memory_bytes},
          {"environmentVariables", std::move(variables)},
          {"secrets", spec.secrets}};
}

// The largest first.
std::string files_text(const Json& code) {
  std::vector<Json> files(code["files"].begin(), code["files"].end());
  std::ranges::stable_sort(files, std::greater(),
                           [](const Json& file) { return file["size"].get<uint64_t>(); });
  Table table;
  for (const Json& file : files) {
    if (table.rows.size() == kRowsShown) break;
    table.rows.push_back({"  " + cell_of(file, "path"), format_size(file["size"])});
  }
  std::string text = render_table(table, {});
  if (files.size() > kRowsShown) {
    text += "  … " + std::to_string(files.size() - kRowsShown) + " more, smaller ones: -o json\n";
  }
  return text;
}

std::string plan_text(const Json& plan) {
  Table table;
  const auto add = [&](std::string_view name, const std::string& value) {
    if (!value.empty()) table.rows.push_back({std::string(name), value});
  };
  add("command", command_line(plan["command"]));
  for (const char* key : {"experiment", "workspace", "name", "target", "environment"}) {
    add(key, cell_of(plan, key));
  }
  const std::string processes = cell_of(plan, "processesPerNode");
  add("nodes", cell_of(plan, "nodes") + ", with " + processes +
                   (processes == "1" ? " process each" : " processes each"));
  const Json& code = wire::member(plan, "code");
  if (!code.is_object()) return render_table(table, {});
  add("code", cell_of(code, "folder") + ": " + cell_of(code, "fileCount") + " files, " +
                  format_size(code["bytes"].get<uint64_t>()));
  std::vector<std::string> ignored;
  for (const Json& path : code["ignored"]) {
    ignored.push_back(ignored.size() == kRowsShown ? "…" : cell(path));
    if (ignored.size() > kRowsShown) break;
  }
  add("ignored", join(ignored, ", "));
  return render_table(table, {}) + files_text(code);
}

}  // namespace

Result<int> dry_run(Context& context, const Submission& submission) {
  TRY(check_spec(submission.spec));
  Json plan = plan_to_json(submission.spec);
  if (submission.code) {
    TRY(check_code_folder(context, *submission.code));
    TRY_SET(const snapshot::Captured captured,
            capture_folder(context, *submission.code, kIgnoredKept));
    for (const std::string& line : snapshot_advice(captured)) context.warn(line);
    plan["code"] = code_to_json(*submission.code, captured);
  }
  TRY(context.print(plan, {.table = any_table, .text = plan_text}));
  context.say("nothing was submitted");
  return kExitOk;
}

}  // namespace trainyard::cli
