// The nouns as users and their scripts see them: the contract's names.
#include "base/text.h"
#include "model/limits.h"
#include "wire/environments.h"
#include "wire/json.h"
#include "wire/records.h"

namespace trainyard::wire {
namespace {

Json time_or_null(const std::optional<WallTime>& time) {
  return time ? Json(format_time(*time)) : Json();
}

double seconds_between(WallTime from, WallTime to) {
  return static_cast<double>((to - from).count()) / 1e6;
}

Json attempts_to_json(const Run& run) {
  Json list = Json::array();
  for (const Attempt& attempt : run.attempts) {
    Json json = {{"number", attempt.number},
                 {"node", attempt.node},
                 {"placedAt", format_time(attempt.placed)},
                 {"startedAt", time_or_null(attempt.started)},
                 {"endedAt", time_or_null(attempt.ended)},
                 {"status", attempt.end ? std::string(to_string(attempt.end->cause)) : "live"},
                 {"exitCode", attempt.end ? Json(attempt.end->exit_code) : Json()},
                 {"reason", attempt.end ? attempt.end->error : ""},
                 {"warnings", attempt.end ? attempt.end->warnings : std::vector<std::string>()},
                 {"cpuSeconds", attempt.cpu_seconds},
                 {"memoryBytes", attempt.memory_bytes},
                 {"memoryPeakBytes", attempt.memory_peak_bytes},
                 {"gpus", attempt.gpus}};
    Json ranks = Json::array();
    if (attempt.end) {
      for (const RankExit& exit : attempt.end->ranks) {
        ranks.push_back(
            {{"rank", exit.rank}, {"exitCode", exit.exit_code}, {"signal", exit.signal}});
      }
    }
    json["ranks"] = std::move(ranks);
    list.push_back(std::move(json));
  }
  return list;
}

Json timeline_to_json(const Run& run, WallTime now) {
  Json list = Json::array();
  for (const Phase& phase : timeline(run, now)) {
    list.push_back({{"phase", phase.name},
                    {"attempt", phase.attempt},
                    {"startedAt", format_time(phase.started)},
                    {"endedAt", time_or_null(phase.ended)},
                    {"seconds", seconds_between(phase.started, phase.ended.value_or(now))},
                    {"text", phase.text}});
  }
  return list;
}

Json nodes_to_json(const Run& run) {
  Json nodes = Json::array();
  if (run.attempts.empty()) return nodes;
  for (const std::string& name : split(run.attempts.back().node, ',')) {
    if (!name.empty()) nodes.push_back(name);
  }
  return nodes;
}

// Those of its newest attempt, then the server's own.
Json warnings_to_json(const Run& run) {
  Json all = Json::array();
  if (!run.attempts.empty() && run.attempts.back().end) all = run.attempts.back().end->warnings;
  for (const std::string& warning : run.warnings) all.push_back(warning);
  return all;
}

constexpr size_t kAll = SIZE_MAX;

// Keys that are known to differ go to the end of the object: its operator[] looks at all before.
void append(Json& object, const std::string& key, Json value) {
  object.get_ref<Json::object_t&>().emplace_back(key, std::move(value));
}

Json map_to_json(const std::map<std::string, std::string>& map, size_t max = kAll) {
  Json object = Json::object();
  for (const auto& [key, value] : map) {
    if (object.size() == max) break;
    append(object, key, value);
  }
  return object;
}

// The latest of each.
Json metrics_to_json(const Run& run, size_t max) {
  Json object = Json::object();
  for (const Metric& metric : run.metrics) {
    if (object.size() == max) break;
    append(object, metric.name, point_value(metric.last));
  }
  return object;
}

enum class RunForm { whole, entry };

Json to_json(const Run& run, WallTime now, Json log_files, RunForm form) {
  const bool whole = form == RunForm::whole;
  const size_t max = whole ? kAll : limits::kEntryFields;
  const std::string& name = run.labels.display_name;
  Json json = {
      {"id", run.id.value},
      {"runId", run.id.value},
      {"name", name.empty() ? run.id.value : name},
      {"experiment", run.spec.experiment},
      {"experimentName", run.spec.experiment},
      {"description", run.labels.description},
      {"workspace", run.spec.workspace},
      {"user", run.user},
      {"status", std::string(to_string(run.life.status))},
      {"reason", run.reason},
      {"target", run.spec.target},
      {"command", run.spec.command},
      {"commandForm", std::string(to_string(run.spec.form))},
      {"preparation", run.spec.preparation},
      {"createdAt", format_time(run.created)},
      {"startedAt", time_or_null(run.started)},
      {"endedAt", time_or_null(run.ended)},
      {"exitCode", run.life.exit_code ? Json(*run.life.exit_code) : Json()},
      {"error", run.life.error.empty() ? Json() : Json(run.life.error)},
      {"tags", map_to_json(run.labels.tags, max)},
      {"properties", map_to_json(run.labels.properties)},
      {"parameters", map_to_json(run.parameters, max)},
      {"metrics", metrics_to_json(run, max)},
      {"attempts", whole ? attempts_to_json(run) : Json()},
      {"timeline", whole ? timeline_to_json(run, now) : Json()},
      {"parentId", run.parent.empty() ? Json() : Json(run.parent)},
      {"nodes", whole ? nodes_to_json(run) : Json()},
      {"warnings", whole ? warnings_to_json(run) : Json()},
      {"logFiles", std::move(log_files)},
      {"snapshotId", run.spec.snapshot.empty() ? Json() : Json(run.spec.snapshot)},
      {"snapshotFiles", run.snapshot_files},
      {"snapshotBytes", run.snapshot_bytes},
      {"outputsId", run.outputs.empty() ? Json() : Json(run.outputs)},
      {"environment", environment_to_json(run.spec.environment)},
      {"inputs", Json::array()},
      {"nodeCount", run.spec.nodes},
      {"processCountPerNode", run.spec.processes_per_node},
      {"rankCount", rank_count(run.spec)},
      {"distribution", run.spec.distribution},
      {"cpus", run.spec.resources.cpus},
      {"memoryBytes", run.spec.resources.memory_bytes},
      {"gpus", run.spec.resources.gpus},
      {"priority", std::string(to_string(run.spec.priority))},
      {"retries", run.life.retries},
      {"maxRetries", run.spec.retry.max},
      {"secrets", run.spec.secrets},
      {"outputNames", map_to_json(run.spec.outputs)},
      {"environmentVariables", whole ? map_to_json(run.spec.environment_variables) : Json()},
      {"interactive", run.spec.interactive},
      {"archived", run.labels.archived},
      {"timeLimitSeconds", run.spec.time_limit_s},
      {"cost", nullptr},
      {"studioUrl", nullptr},
      {"number", run.number},
      {"version", run.version},
  };
  if (whole) return json;
  for (const char* key :
       {"attempts", "timeline", "nodes", "logFiles", "warnings", "environmentVariables"}) {
    json.erase(key);
  }
  return json;
}

}  // namespace

Json run_to_json(const Run& run, WallTime now, Json log_files) {
  return to_json(run, now, std::move(log_files), RunForm::whole);
}

Json run_entry_to_json(const Run& run, WallTime now) {
  return to_json(run, now, {}, RunForm::entry);
}

Json user_to_json(const User& user) {
  return {{"name", user.name},
          {"role", std::string(to_string(user.role))},
          {"createdAt", format_time(user.created)}};
}

Json token_to_json(const Token& token) {
  return {{"id", token.id},
          {"user", token.user},
          {"kind", token.kind},
          {"role", std::string(to_string(token.role))},
          {"label", token.label},
          {"createdAt", format_time(token.created)},
          {"expiresAt", time_or_null(token.expires)},
          {"revokedAt", time_or_null(token.revoked)},
          {"parent", token.parent ? Json(*token.parent) : Json()}};
}

Json member_to_json(const Member& member) {
  return {{"user", member.user},
          {"role", std::string(to_string(member.role))},
          {"addedBy", member.added_by},
          {"addedAt", format_time(member.added)}};
}

Json workspace_to_json(const Workspace& workspace) {
  return {{"name", workspace.name},
          {"id", std::to_string(workspace.id)},
          {"subscriptionId", workspace.subscription_id},
          {"resourceGroup", workspace.resource_group},
          {"location", workspace.location},
          {"imageBuildCompute", workspace.image_build_compute},
          {"access", std::string(to_string(workspace.access))},
          {"retentionSeconds", workspace.retention.count()},
          {"createdBy", workspace.created_by},
          {"createdAt", format_time(workspace.created)}};
}

Json experiment_to_json(const Experiment& experiment) {
  return {{"name", experiment.name},
          {"id", std::to_string(experiment.id)},
          {"workspace", experiment.workspace},
          {"runCount", experiment.run_count},
          {"createdAt", format_time(experiment.created)}};
}

Json compute_to_json(const Compute& compute) {
  Json json = encode(compute.spec);
  json["workspace"] = compute.workspace;
  json["paused"] = compute.paused;
  json["createdBy"] = compute.created_by;
  json["createdAt"] = format_time(compute.created);
  return json;
}

}  // namespace trainyard::wire
