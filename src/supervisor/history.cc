#include "supervisor/history.h"

#include <algorithm>

#include "wire/json.h"

namespace trainyard::supervisor {
namespace {

using wire::Json;

Json record(const char* kind) {
  Json json;
  json["t"] = kind;
  return json;
}

std::string text_of(const Json& json, const char* key) {
  return wire::string_member(json, key).value_or("");
}
int64_t number_of(const Json& json, const char* key) {
  return wire::int_member(json, key).value_or(0);
}
EndCause cause_of(const Json& json) {
  return end_cause_from(text_of(json, "cause")).value_or(EndCause::lost);
}

void take_begin(const Json& json, History& history) {
  history.begun = true;
  history.instance = text_of(json, "instance");
  history.supervisor = static_cast<pid_t>(number_of(json, "pid"));
  runtime::Leftovers& left = history.leftovers;
  left.isolation = text_of(json, "isolation") == "sweep" ? runtime::Isolation::sweep
                                                         : runtime::Isolation::pid_namespace;
  left.init = static_cast<pid_t>(number_of(json, "init"));
  left.init_start_ticks = static_cast<uint64_t>(number_of(json, "initStart"));
  left.boot = text_of(json, "boot");
  left.mark = text_of(json, "mark");
}

void take_report(const Json& json, History& history) {
  const auto found = json.find("report");
  if (found == json.end()) return;
  Result<Report> report = wire::decode_report(*found);
  if (!report) return;
  // In the journal of an earlier version samples lie between.
  report->after = history.reports.empty() ? 0 : history.reports.back().report.seq;
  history.seq = std::max(history.seq, report->seq);
  // It is written before the ranks are started: from here on user code may have run.
  if (report->kind == ReportKind::starting) history.facts.ranks_started = true;
  if (report->kind == ReportKind::sample) return;
  history.reports.push_back({*report, SteadyTime(microseconds(number_of(json, "steady"))),
                             WallTime(microseconds(number_of(json, "wall")))});
}

void take(const Json& json, History& history) {
  const std::string kind = text_of(json, "t");
  Facts& facts = history.facts;
  if (kind == "begin") take_begin(json, history);
  if (kind == "instance") history.instance = text_of(json, "id");
  if (kind == "report") take_report(json, history);
  if (kind == "sample") history.seq = std::max(history.seq, number_of(json, "seq"));
  if (kind == "exit") {
    facts.ranks_started = true;
    facts.exits.push_back({static_cast<int>(number_of(json, "rank")),
                           static_cast<int>(number_of(json, "exitCode")),
                           static_cast<int>(number_of(json, "signal"))});
  }
  if (kind == "stop") facts.stop = Stop{cause_of(json), text_of(json, "text")};
  if (kind == "failure") {
    facts.prepare_failure = PrepareFailure{
        cause_of(json), static_cast<int>(number_of(json, "exitCode")), text_of(json, "text")};
    facts.ranks_started = wire::bool_member(json, "ranksStarted").value_or(false);
  }
  if (kind == "dead") {
    facts.all_dead = true;
    facts.cpu_seconds = static_cast<double>(number_of(json, "cpuMicroseconds")) / 1e6;
    facts.memory_peak_bytes = number_of(json, "memoryPeak");
  }
  if (kind == "outputs") {
    history.outputs_settled = true;
    facts.outputs = text_of(json, "tree");
    facts.outputs_error = text_of(json, "error");
    history.outputs_epoch = text_of(json, "epoch");
  }
}

}  // namespace

std::string begin_record(pid_t supervisor, std::string_view instance,
                         const runtime::Leftovers& leftovers) {
  Json json = record("begin");
  json["pid"] = supervisor;
  json["instance"] = std::string(instance);
  json["isolation"] = leftovers.isolation == runtime::Isolation::sweep ? "sweep" : "pid_namespace";
  json["init"] = leftovers.init;
  json["initStart"] = leftovers.init_start_ticks;
  json["boot"] = leftovers.boot;
  json["mark"] = leftovers.mark;
  return wire::dump(json);
}

std::string instance_record(std::string_view instance) {
  Json json = record("instance");
  json["id"] = std::string(instance);
  return wire::dump(json);
}

std::string report_record(const Report& report, SteadyTime steady, WallTime wall) {
  Json json = record("report");
  json["steady"] = steady.time_since_epoch().count();
  json["wall"] = wall.time_since_epoch().count();
  json["report"] = wire::encode(report);
  return wire::dump(json);
}

std::string exit_record(const RankExit& exit) {
  Json json = record("exit");
  json["rank"] = exit.rank;
  json["exitCode"] = exit.exit_code;
  json["signal"] = exit.signal;
  return wire::dump(json);
}

std::string stop_record(const Stop& stop) {
  Json json = record("stop");
  json["cause"] = std::string(to_string(stop.cause));
  json["text"] = stop.text;
  return wire::dump(json);
}

std::string dead_record(const runtime::Usage& usage) {
  Json json = record("dead");
  json["cpuMicroseconds"] = static_cast<int64_t>(usage.cpu_seconds * 1e6);
  json["memoryPeak"] = usage.memory_peak_bytes;
  return wire::dump(json);
}

std::string failure_record(const PrepareFailure& failure, bool ranks_started) {
  Json json = record("failure");
  json["cause"] = std::string(to_string(failure.cause));
  json["exitCode"] = failure.exit_code;
  json["text"] = failure.text;
  json["ranksStarted"] = ranks_started;
  return wire::dump(json);
}

std::string outputs_record(const Facts& facts, std::string_view epoch) {
  Json json = record("outputs");
  json["epoch"] = std::string(epoch);
  json["tree"] = facts.outputs;
  json["error"] = facts.outputs_error;
  return wire::dump(json);
}

bool History::told(ReportKind kind) const {
  return std::any_of(reports.begin(), reports.end(),
                     [&](const Told& each) { return each.report.kind == kind; });
}

bool History::conclusive(int ranks) const {
  const bool failed = std::any_of(facts.exits.begin(), facts.exits.end(),
                                  [](const RankExit& exit) { return exit.exit_code != 0; });
  return facts.stop || facts.prepare_failure || failed ||
         static_cast<int>(facts.exits.size()) == ranks;
}

History read_history(const std::vector<std::string>& records) {
  History history;
  for (const std::string& text : records) {
    // A record is whole or not in the journal at all; one that is not JSON is a newer version's.
    if (const Result<Json> json = wire::parse(text)) take(*json, history);
  }
  return history;
}

}  // namespace trainyard::supervisor
