#include "api/run_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "wire/json.h"

namespace trainyard::api {
namespace {

struct NameForm {
  std::string_view start;
  std::string_view before_rank;
  std::string_view kind;
  logs::View view;
};
constexpr std::string_view kEnd = ".txt";
constexpr NameForm kForms[] = {
    {"user_logs/std_log", "_process_", "console", logs::View::both},
    {"stdout", "-", "view", logs::View::out},
    {"stderr", "-", "view", logs::View::err},
    {"azureml-logs/70_driver_log", "_", "alias", logs::View::both},
};

constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kTypes = {{
    {".json", "application/json"},
    {".png", "image/png"},
    {".jpg", "image/jpeg"},
    {".jpeg", "image/jpeg"},
    {".txt", "text/plain; charset=utf-8"},
    {".log", "text/plain; charset=utf-8"},
    {".csv", "text/plain; charset=utf-8"},
    {".py", "text/plain; charset=utf-8"},
    {".md", "text/plain; charset=utf-8"},
}};

std::string name_of(const NameForm& form, int rank, int ranks) {
  if (ranks <= 1) return fmt::format("{}{}", form.start, kEnd);
  return fmt::format("{}{}{}{}", form.start, form.before_rank, rank, kEnd);
}

uint64_t listed_size(const snapshot::Entry& entry) {
  return entry.kind == snapshot::EntryKind::symlink ? entry.target.size() : entry.size;
}

constexpr std::string_view kClassicFolder = "azureml-logs/";
// Each with the kinds of the events that begin it and that come after it, of each attempt.
struct ClassicLog {
  std::string_view name;
  std::string_view from;
  std::string_view to;
};
constexpr ClassicLog kClassicLogs[] = {{"55_azureml-execution", "provisioning", {}},
                                       {"65_job_prep", "preparing", "running"},
                                       {"75_job_post", "finalizing", {}}};

// The events of the run, or of its attempts from the kind `from` on and before the kind `to`.
std::string history_text(const Run& run, std::string_view from, std::string_view to) {
  std::string text;
  bool within = from.empty();
  int attempt = 0;
  for (const RunEventRecord& event : run.events) {
    if (!from.empty() && event.attempt != std::exchange(attempt, event.attempt)) within = false;
    if (event.kind == from) within = true;
    if (event.kind == to) within = false;
    if (!within) continue;
    text += format_time(event.at) + " ";
    if (event.attempt > 0) text += fmt::format("attempt {} ", event.attempt);
    text += event.text.empty() ? event.kind : event.kind + ": " + event.text;
    text += '\n';
  }
  return text;
}

std::string process_info(const Run& run) {
  wire::Json processes = wire::Json::array();
  const Attempt& attempt = run.attempts.back();
  std::vector<std::string> nodes = split(attempt.node, ',');
  const int per_node = std::max(1, run.spec.processes_per_node);
  for (int rank = 0; rank < rank_count(run.spec); ++rank) {
    const auto node = static_cast<size_t>(rank / per_node);
    const wire::Json name = node < nodes.size() ? wire::Json(nodes[node]) : wire::Json();
    processes.push_back({{"rank", rank}, {"node", name}, {"attempt", attempt.number}});
  }
  return wire::dump(
      {{"runId", run.id.value}, {"command", run.spec.command}, {"processes", processes}});
}

// A tree that is missing is found by `server check`; it must not hide the run's other files.
void add_tree(House& house, std::string_view id, std::string_view start, std::string_view kind,
              std::vector<ListedFile>& files) {
  if (id.empty()) return;
  const auto tree = house.trees.tree(id);
  if (!tree) return;
  for (const snapshot::Entry& entry : (*tree)->entries) {
    if (entry.kind == snapshot::EntryKind::folder) continue;
    files.push_back({fmt::format("{}{}", start, entry.path), listed_size(entry), kind});
  }
}

}  // namespace

std::vector<ConsoleName> console_names(int rank, int ranks) {
  std::vector<ConsoleName> names;
  for (const NameForm& form : kForms) {
    names.push_back({name_of(form, rank, ranks), form.kind, rank, form.view});
  }
  return names;
}

std::optional<ConsoleName> find_console_name(std::string_view path, int ranks) {
  for (const NameForm& form : kForms) {
    if (!path.starts_with(form.start)) continue;
    int rank = 0;
    const size_t digits = path.find_last_of("-_") + 1;
    const std::string_view number = path.substr(digits, path.find('.', digits) - digits);
    if (ranks > 1) {
      const Result<int64_t> parsed = parse_int(number, "rank");
      if (!parsed || *parsed < 0 || *parsed >= ranks) continue;
      rank = static_cast<int>(*parsed);
    }
    ConsoleName name{name_of(form, rank, ranks), form.kind, rank, form.view};
    if (name.path == path) return name;
  }
  return std::nullopt;
}

std::string lifecycle_text(const Run& run) { return history_text(run, {}, {}); }

std::vector<std::string> classic_names(const Run& run) {
  std::vector<std::string> names;
  if (run.attempts.empty()) return names;
  names.push_back(fmt::format("{}60_control_log.txt", kClassicFolder));
  names.push_back(fmt::format("{}process_info.json", kClassicFolder));
  for (const std::string& node : split(run.attempts.back().node, ',')) {
    if (node.empty()) continue;
    for (const ClassicLog& log : kClassicLogs) {
      names.push_back(fmt::format("{}{}-{}.txt", kClassicFolder, log.name, node));
    }
  }
  return names;
}

std::optional<std::string> classic_text(const Run& run, std::string_view path) {
  if (!path.starts_with(kClassicFolder)) return std::nullopt;
  const std::vector<std::string> names = classic_names(run);
  if (std::ranges::find(names, path) == names.end()) return std::nullopt;
  path.remove_prefix(kClassicFolder.size());
  if (path == "process_info.json") return process_info(run);
  for (const ClassicLog& log : kClassicLogs) {
    if (path.starts_with(log.name)) return history_text(run, log.from, log.to);
  }
  return history_text(run, {}, {});
}

std::optional<std::string> versions_text(const House& house, const Run& run) {
  const Environment& environment = run.spec.environment;
  if (run.life.attempt == 0 || environment.recipe.kind != EnvironmentKind::venv) return {};
  const auto kept = read_file(house.home.environments() / "locks" / environment.hash);
  if (!kept || trim(*kept).empty()) return std::nullopt;
  std::string text;
  for (const std::string& line : environment.left_out) {
    text += fmt::format("# left out, as Trainyard provides it: {}\n", line);
  }
  return text + *kept;
}

Result<std::vector<ListedFile>> list_files(House& house, const Run& run) {
  std::vector<ListedFile> files;
  const int ranks = rank_count(run.spec);
  for (int rank = 0; rank < ranks && run.life.attempt > 0; ++rank) {
    for (ConsoleName& name : console_names(rank, ranks)) {
      TRY_SET(const uint64_t size, house.logs.size(run.id, rank, name.view));
      files.push_back({std::move(name.path), size, name.kind});
    }
  }
  TRY_SET(const auto logs, house.store.files(run.id));
  bool versions = false;
  for (const store::Store::RunFile& file : logs) {
    TRY_SET(const uint64_t size, house.logs.file_size(run.id, file.number));
    const bool system = file.path.starts_with("system_logs/");
    files.push_back({file.path, size, system ? "system" : "log"});
    if (file.path == kBuildLog) files.push_back({std::string(kBuildLogAlias), size, "alias"});
    versions = versions || file.path == kVersionsFile;
  }
  if (const auto text = versions_text(house, run); text && !versions) {
    files.push_back({std::string(kVersionsFile), text->size(), "system"});
  }
  files.push_back({std::string(kLifecycle), lifecycle_text(run).size(), "system"});
  for (std::string& name : classic_names(run)) {
    const uint64_t size = classic_text(run, name)->size();
    files.push_back({std::move(name), size, "alias"});
  }
  const size_t first_output = files.size();
  add_tree(house, run.outputs, "outputs/", "output", files);
  // No supervisor ships the logs of an interactive run: its program uploads them as outputs.
  for (size_t i = first_output; run.spec.interactive && i < files.size(); ++i) {
    if (!files[i].path.starts_with("outputs/logs/")) continue;
    files[i].path.erase(0, std::string_view("outputs/").size());
    files[i].kind = "log";
  }
  add_tree(house, run.spec.snapshot, "snapshot/", "snapshot", files);
  return files;
}

std::string_view content_type(std::string_view path) {
  for (const auto& [ending, type] : kTypes) {
    if (path.ends_with(ending)) return type;
  }
  return "application/octet-stream";
}

}  // namespace trainyard::api
