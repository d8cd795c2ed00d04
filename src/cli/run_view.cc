#include "cli/run_view.h"

#include <fmt/format.h>

#include "base/text.h"
#include "wire/json.h"

namespace trainyard::cli {
namespace {

constexpr size_t kFilesShown = 20;

std::optional<WallTime> time_of(const Json& run, std::string_view key) {
  const std::string text = cell_of(run, key);
  if (text.empty()) return {};
  const auto time = parse_time(text);
  return time ? std::optional<WallTime>(*time) : std::nullopt;
}

// How long it ran, or has been running.
std::string time_taken(const Json& thing, WallTime now) {
  const auto started = time_of(thing, "startedAt");
  if (!started) return {};
  const WallTime ended = time_of(thing, "endedAt").value_or(now);
  return format_duration(std::max(ended - *started, microseconds(0)));
}

std::string pairs(const Json& object) {
  std::string text;
  if (!object.is_object()) return text;
  for (auto it = object.begin(); it != object.end(); ++it) {
    if (!text.empty()) text += ", ";
    text += it.key() + "=" + cell(*it);
  }
  return text;
}

std::string words(const Json& list) {
  std::vector<std::string> all;
  if (list.is_array()) {
    for (const Json& word : list) all.push_back(cell(word));
  }
  return join(all, ", ");
}

// "loss 0.094, acc 0.91": the first few numbers a script told; what we measure ourselves apart.
std::string latest_metrics(const Json& run, size_t count_max) {
  std::vector<std::string> shown;
  const Json& metrics = wire::member(run, "metrics");
  if (!metrics.is_object()) return {};
  for (const auto& [name, value] : metrics.items()) {
    if (!value.is_number() || name.starts_with("system/")) continue;
    if (shown.size() == count_max) {
      shown.emplace_back("…");
      break;
    }
    shown.push_back(fmt::format("{} {:.4g}", name, value.get<double>()));
  }
  return join(shown, ", ");
}

// Empty for a run that was given none.
std::string display_name(const Json& run) {
  const std::string name = cell_of(run, "name");
  return name == cell_of(run, "id") ? "" : name;
}

// The last lines of a rank are shown by themselves, as they were printed.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::string last_lines(const Json& run) {
  const std::string text = cell_of(run, "reason");
  const size_t end = text.find('\n');
  if (end == std::string::npos) return {};
  std::string lines = "\n";
  for (const std::string& line : split(trim(text.substr(end + 1)), '\n')) {
    lines += "  " + printable(line) + "\n";
  }
  return lines;
}

std::string about(const Json& run, WallTime now, const Screen& screen) {
  Table table;
  const auto add = [&](std::string_view name, const std::string& value) {
    if (!value.empty()) table.rows.push_back({std::string(name), value});
  };
  add("run", cell_of(run, "id"));
  add("name", display_name(run));
  const std::string exit = cell_of(run, "exitCode");
  const std::string status = cell_of(run, "status") + (exit.empty() ? "" : ", exit " + exit);
  add("status", status);
  add("reason", first_line(cell_of(run, "reason")));
  if (cell_of(run, "error") != cell_of(run, "reason")) add("error", cell_of(run, "error"));
  for (const Json& warning : wire::member(run, "warnings")) {
    if (warning.is_string()) add("warning", warning.get<std::string>());
  }
  add("preparation", cell_of(run, "preparation"));
  add("command", command_line(wire::member(run, "command")));
  add("experiment", cell_of(run, "experiment"));
  add("workspace", cell_of(run, "workspace"));
  add("target", cell_of(run, "target"));
  const Json environment = run.value("environment", Json());
  if (environment.is_object()) {
    add("environment", cell_of(environment, "label") + " (" + cell_of(environment, "kind") + ", " +
                           cell_of(environment, "shortHash") + ")");
  }
  add("user", cell_of(run, "user"));
  if (cell_of(run, "priority") != "normal") add("priority", cell_of(run, "priority"));
  if (run.value("maxRetries", 0) > 0) {
    add("retries", cell_of(run, "retries") + " of " + cell_of(run, "maxRetries"));
  }
  add("secrets", words(wire::member(run, "secrets")));
  add("parent", cell_of(run, "parentId"));
  add("description", cell_of(run, "description"));
  add("tags", pairs(wire::member(run, "tags")));
  add("properties", pairs(wire::member(run, "properties")));
  add("parameters", pairs(wire::member(run, "parameters")));
  add("created", cell_of(run, "createdAt") + " (" + ago(wire::member(run, "createdAt"), now) + ")");
  add("started", cell_of(run, "startedAt"));
  add("ended", cell_of(run, "endedAt"));
  add("time", time_taken(run, now));
  std::string text = render_table(table, {});
  const size_t at = text.find(status);
  if (at != std::string::npos) text.replace(at, status.size(), paint_status(status, screen.colour));
  return text;
}

std::string metrics(const Json& run) {
  const Json& all = wire::member(run, "metrics");
  if (!all.is_object() || all.empty()) return {};
  Table table{{"METRIC", "LATEST"}, {}};
  for (const auto& [name, value] : all.items()) {
    table.rows.push_back({name, value.is_number_float() ? fmt::format("{:.6g}", value.get<double>())
                                                        : summary(value)});
  }
  return "\n" + render_table(table, {});
}

std::string attempts(const Json& run, WallTime now, const Screen& screen) {
  const Json& list = wire::member(run, "attempts");
  if (!list.is_array() || list.empty()) return {};
  Table table{{"ATTEMPT", "NODE", "STATUS", "TIME", "CPU", "MEMORY PEAK", "WHY"}, {}};
  for (const Json& attempt : list) {
    const double cpu = attempt.value("cpuSeconds", 0.0);
    const auto peak = attempt.value("memoryPeakBytes", int64_t{0});
    table.rows.push_back({cell_of(attempt, "number"), cell_of(attempt, "node"),
                          cell_of(attempt, "status"), time_taken(attempt, now),
                          format_duration(microseconds(static_cast<int64_t>(cpu * 1e6))),
                          peak > 0 ? format_size(static_cast<uint64_t>(peak)) : "",
                          first_line(cell_of(attempt, "reason"))});
  }
  return "\n" + render_table(table, {.colour = screen.colour});
}

std::string phases(const Json& run) {
  const Json& list = wire::member(run, "timeline");
  if (!list.is_array() || list.empty()) return {};
  Table table{{"PHASE", "ATTEMPT", "TIME", "WHAT"}, {}};
  for (const Json& phase : list) {
    const double lasted = phase.value("seconds", 0.0);
    table.rows.push_back({cell_of(phase, "phase"), cell_of(phase, "attempt"),
                          format_duration(microseconds(static_cast<int64_t>(lasted * 1e6))),
                          cell_of(phase, "text")});
  }
  return "\n" + render_table(table, {});
}

std::string code(const Json& run, bool all_files) {
  const Json& snapshot = wire::member(run, "snapshot");
  const Json& files = snapshot.is_object() ? wire::member(snapshot, "files") : snapshot;
  if (!files.is_array()) return {};
  const auto bytes = static_cast<uint64_t>(run.value("snapshotBytes", int64_t{0}));
  std::string text = fmt::format("\nsnapshot {}: {} file{}, {}\n",
                                 printable(cell_of(run, "snapshotId").substr(0, 12)), files.size(),
                                 files.size() == 1 ? "" : "s", format_size(bytes));
  const bool all = all_files || files.size() <= kFilesShown;
  Table table;
  for (const Json& file : files) {
    if (!all && table.rows.size() == kFilesShown) break;
    const auto size = file.value("size", uint64_t{0});
    table.rows.push_back({"  " + cell_of(file, "path"), format_size(size)});
  }
  text += render_table(table, {});
  if (!all) {
    text += fmt::format("  … {} more: run show --files\n", files.size() - kFilesShown);
  }
  return text;
}

}  // namespace

std::vector<std::string> run_header() {
  return {"RUN", "NAME", "EXPERIMENT", "STATUS", "TARGET", "STARTED", "TIME", "USER", "METRICS"};
}

std::vector<std::string> run_row(const Json& run, WallTime now) {
  return {cell_of(run, "id"),     display_name(run),      cell_of(run, "experiment"),
          cell_of(run, "status"), cell_of(run, "target"), ago(wire::member(run, "startedAt"), now),
          time_taken(run, now),   cell_of(run, "user"),   latest_metrics(run, 3)};
}

std::vector<std::string> run_raw_row(const Json& run) {
  return {cell_of(run, "id"),      display_name(run),      cell_of(run, "experiment"),
          cell_of(run, "status"),  cell_of(run, "target"), cell_of(run, "startedAt"),
          cell_of(run, "endedAt"), cell_of(run, "user"),   latest_metrics(run, 3)};
}

View run_details_view(Context& context, Files files) {
  const WallTime now = context.clock().wall();
  const Screen screen = context.screen();
  return {.table = [](const Json& run) { return Table{run_header(), {run_raw_row(run)}}; },
          .text = [=](const Json& run) { return run_details(run, now, files, screen); },
          .escaped = true};
}

std::string run_details(const Json& run, WallTime now, Files files, const Screen& screen) {
  return about(run, now, screen) + last_lines(run) + metrics(run) + attempts(run, now, screen) +
         phases(run) + code(run, files == Files::all);
}

std::string command_line(const Json& command) {
  std::string line;
  if (!command.is_array()) return cell(command);
  for (const Json& word : command) {
    std::string text = cell(word);
    const bool plain =
        !text.empty() && text.find_first_of(" \t\n'\"\\$`&|;<>()*?#~") == std::string::npos;
    if (!plain) {
      std::string quoted = "'";
      for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
      text = quoted + "'";
    }
    if (!line.empty()) line += ' ';
    line += text;
  }
  return line;
}

std::string summary(const Json& value) {
  constexpr size_t kLong = 60;
  std::string text = cell(value);
  if (columns(text) <= kLong) return text;
  const Json parsed =
      value.is_string() ? wire::parse(text).value_or(Json()) : value;  // Documents are texts too.
  if (!parsed.is_structured()) return std::string(cut(text, kLong - 1)) + "…";
  const Json& data = parsed.is_object() && parsed.contains("data") ? parsed["data"] : parsed;
  const Json& matrix = data.is_object() && data.contains("matrix") ? data["matrix"] : data;
  if (matrix.is_array() && !matrix.empty() && matrix.front().is_array()) {
    return fmt::format("matrix {}x{}", matrix.size(), matrix.front().size());
  }
  if (matrix.is_array()) return fmt::format("list of {}", matrix.size());
  std::vector<std::string> keys;
  for (const auto& [key, unused] : matrix.items()) keys.push_back(key);
  return fmt::format("table of {}", cut(join(keys, ", "), kLong));
}

std::string ago(const Json& time, WallTime now) {
  if (!time.is_string()) return {};
  const auto parsed = parse_time(time.get<std::string>());
  if (!parsed) return {};
  const auto passed = std::chrono::duration_cast<seconds>(now - *parsed).count();
  if (passed < 1) return "just now";
  if (passed < 60) return fmt::format("{} s ago", passed);
  if (passed < 3600) return fmt::format("{} min ago", passed / 60);
  if (passed < 48 * 3600) return fmt::format("{} h ago", passed / 3600);
  return fmt::format("{} days ago", passed / 86400);
}

}  // namespace trainyard::cli
