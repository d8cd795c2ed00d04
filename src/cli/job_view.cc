#include "cli/job_view.h"

#include "cli/run_view.h"
#include "wire/json.h"

namespace trainyard::cli {
namespace {

Json object_of(const Json& run, std::string_view key) {
  const Json& found = wire::member(run, key);
  return found.is_object() ? found : Json::object();
}

// A word as a shell would have to read it to see it as it is.
std::string quoted(const std::string& word) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./=:,@%+";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

// A job's command is one text for a shell; other runs' words are put so that it is.
std::string command_text(const Json& run) {
  const Json& words = wire::member(run, "command");
  if (!words.is_array() || words.empty()) return {};
  if (cell_of(run, "commandForm") == "shell") return cell(words.front());
  std::string text;
  for (const Json& word : words) text += (text.empty() ? "" : " ") + quoted(cell(word));
  return text;
}

Json outputs_of(const Json& run) {
  Json outputs = {{"default", {{"type", "uri_folder"}, {"path", "outputs/"}}}};
  const Json named = object_of(run, "outputNames");
  for (const auto& [name, path] : named.items()) {
    const std::string text = cell(path);
    outputs[name] = {{"type", text.ends_with('/') ? "uri_folder" : "uri_file"}, {"path", text}};
  }
  return outputs;
}

Json resources_of(const Json& run) {
  return {{"instance_count", wire::member(run, "nodeCount")},
          {"cpus", wire::member(run, "cpus")},
          {"gpus", wire::member(run, "gpus")}};
}

Json distribution_of(const Json& run) {
  const int64_t ranks = run.value("processCountPerNode", int64_t{1});
  const std::string kind = cell_of(run, "distribution");
  if (kind == "tensorflow") {
    return {{"type", kind}, {"worker_count", ranks * run.value("nodeCount", int64_t{1})}};
  }
  if (ranks <= 1 && kind != "mpi") return nullptr;
  return {{"type", kind == "mpi" ? "mpi" : "pytorch"}, {"process_count_per_instance", ranks}};
}

Json limits_of(const Json& run) {
  const int64_t limit = run.value("timeLimitSeconds", int64_t{0});
  return limit == 0 ? Json() : Json::object({{"timeout", limit}});
}

std::string priority_of(const Json& run) {
  const std::string priority = cell_of(run, "priority");
  return priority == "normal" ? "medium" : priority;
}

std::string details(const Json& job, WallTime now) {
  Table table;
  const auto add = [&](std::string_view name, const std::string& value) {
    if (!value.empty()) table.rows.push_back({std::string(name), value});
  };
  const Json& created = wire::member(wire::member(job, "creation_context"), "created_at");
  add("job", cell_of(job, "name"));
  if (cell_of(job, "display_name") != cell_of(job, "name"))
    add("name", cell_of(job, "display_name"));
  const std::string exit = cell_of(job, "exit_code");
  add("status", cell_of(job, "status") + (exit.empty() ? "" : ", exit " + exit));
  add("reason", cell_of(job, "reason"));
  if (cell_of(job, "error") != cell_of(job, "reason")) add("error", cell_of(job, "error"));
  add("description", cell_of(job, "description"));
  add("command", cell_of(job, "command"));
  add("experiment", cell_of(job, "experiment_name"));
  add("compute", cell_of(job, "compute"));
  for (const auto& [name, value] : wire::member(job, "inputs").items())
    add("input", name + "=" + cell(value));
  for (const auto& [name, value] : wire::member(job, "tags").items())
    add("tag", name + "=" + cell(value));
  add("created", cell(created) + " (" + ago(created, now) + ")");
  add("started", cell_of(job, "start_time"));
  add("ended", cell_of(job, "end_time"));
  add("studio", cell_of(wire::member(wire::member(job, "services"), "Studio"), "endpoint"));
  return render_table(table, {});
}

// As a job file names it: azureml:NAME:VERSION; what has no name is shown as it is.
Json environment_of(const Json& run) {
  const Json environment = wire::member(run, "environment");
  const std::string name = environment.is_object() ? cell_of(environment, "name") : "";
  if (name.empty()) return environment;
  const std::string version = cell_of(environment, "version");
  return "azureml:" + name + (version.empty() ? "@latest" : ":" + version);
}

}  // namespace

Json job_json(const Json& run) {
  const std::string id = cell_of(run, "id");
  return {
      {"name", id},
      {"id", id},
      {"display_name", wire::member(run, "name")},
      {"experiment_name", wire::member(run, "experiment")},
      {"description", wire::member(run, "description")},
      {"type", "command"},
      {"status", wire::member(run, "status")},
      {"reason", wire::member(run, "reason")},
      {"error", wire::member(run, "error")},
      {"exit_code", wire::member(run, "exitCode")},
      {"command", command_text(run)},
      {"code", wire::member(run, "snapshotId")},
      {"compute", wire::member(run, "target")},
      {"environment", environment_of(run)},
      {"environment_variables", object_of(run, "environmentVariables")},
      {"inputs", object_of(run, "parameters")},
      {"outputs", outputs_of(run)},
      {"resources", resources_of(run)},
      {"distribution", distribution_of(run)},
      {"limits", limits_of(run)},
      {"queue_settings", {{"priority", priority_of(run)}}},
      {"tags", object_of(run, "tags")},
      {"properties", object_of(run, "properties")},
      {"metrics", object_of(run, "metrics")},
      {"parent_job_name", wire::member(run, "parentId")},
      {"archived", wire::member(run, "archived")},
      {"workspace_name", wire::member(run, "workspace")},
      {"creation_context",
       {{"created_at", wire::member(run, "createdAt")},
        {"created_by", wire::member(run, "user")},
        {"created_by_type", "User"}}},
      {"start_time", wire::member(run, "startedAt")},
      {"end_time", wire::member(run, "endedAt")},
      {"services",
       {{"Studio", {{"endpoint", wire::member(run, "studioUrl")}, {"type", "Studio"}}}}},
  };
}

std::vector<std::string> job_header() {
  return {"NAME", "DISPLAY NAME", "EXPERIMENT", "STATUS", "COMPUTE", "CREATED", "USER"};
}

std::vector<std::string> job_raw_row(const Json& job) {
  const Json& made = wire::member(job, "creation_context");
  return {cell_of(job, "name"),       cell_of(job, "display_name"), cell_of(job, "experiment_name"),
          cell_of(job, "status"),     cell_of(job, "compute"),      cell_of(made, "created_at"),
          cell_of(made, "created_by")};
}

std::vector<std::string> job_row(const Json& job, WallTime now) {
  std::vector<std::string> row = job_raw_row(job);
  row[5] = ago(wire::member(wire::member(job, "creation_context"), "created_at"), now);
  return row;
}

View job_view(Context& context) {
  const WallTime now = context.clock().wall();
  return {.table = [](const Json& job) { return Table{job_header(), {job_raw_row(job)}}; },
          .text = [now](const Json& job) { return details(job, now); }};
}

bool speaks_of_jobs(const Context& context) { return context.command().name.starts_with("job "); }

Json shaped_run(const Context& context, const Json& run) {
  return speaks_of_jobs(context) ? job_json(run) : run;
}

Status print_run(Context& context, const Json& run) {
  if (speaks_of_jobs(context)) return context.print(job_json(run), job_view(context));
  return context.print(run, run_details_view(context));
}

}  // namespace trainyard::cli
