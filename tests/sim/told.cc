#include "told.h"

namespace trainyard::sim {

void Told::submitted(const RunId& id, const RunSpec& spec) {
  runs_[id.value] = {.parent = spec.parent,
                     .interactive = spec.interactive,
                     .over = false,
                     .series = {},
                     .tags = spec.tags,
                     .properties = spec.properties,
                     .parameters = spec.parameters};
}

void Told::over(const RunId& id) {
  About& about = runs_.at(id.value);
  if (about.over) return;
  about.over = true;
  for (const auto& [child, of] : runs_) {
    if (of.parent == id.value && of.interactive) over(RunId{child});
  }
}

int64_t Told::take(const AttemptId& attempt, int rank, int64_t from, std::string_view bytes) {
  int64_t& taken = taken_[{attempt, rank}];
  if (from > taken || from + static_cast<int64_t>(bytes.size()) <= taken) return taken;
  bytes.remove_prefix(static_cast<size_t>(taken - from));
  for (size_t end = bytes.find('\n'); end != std::string_view::npos; end = bytes.find('\n')) {
    take_line(attempt.run.value, bytes.substr(0, end));
    bytes.remove_prefix(end + 1);
    taken += static_cast<int64_t>(end) + 1;
  }
  return taken;
}

int64_t Told::take(const RunId& run, std::string_view lines) {
  int64_t count = 0;
  for (size_t end = lines.find('\n'); end != std::string_view::npos; end = lines.find('\n')) {
    if (take_line(run.value, lines.substr(0, end))) ++count;
    lines.remove_prefix(end + 1);
  }
  return count;
}

int64_t Told::taken(const AttemptId& attempt, int rank) const {
  const auto found = taken_.find({attempt, rank});
  return found == taken_.end() ? 0 : found->second;
}

bool Told::take_line(const std::string& run, std::string_view line) {
  const Result<wire::Record> record = wire::parse_record(line, {});
  if (!record) return false;
  if (record->kind == wire::RecordKind::child) return add_child(run, *record);
  if (record->kind == wire::RecordKind::end) return end_child(run, *record);
  About* about = find(run, record->run);
  if (about == nullptr) return false;
  switch (record->kind) {
    case wire::RecordKind::points:
      for (const Point& point : record->points) {
        about->series[record->name].emplace_back(*point.value, point.step);
      }
      break;
    case wire::RecordKind::parameter:
      about->parameters[record->name] = record->value;
      break;
    case wire::RecordKind::tag:
      about->tags[record->name] = record->value;
      break;
    case wire::RecordKind::property:
      about->properties.emplace(record->name, record->value);
      break;
    case wire::RecordKind::child:
    case wire::RecordKind::end:
      break;
  }
  return true;
}

bool Told::add_child(const std::string& run, const wire::Record& record) {
  if (runs_.contains(record.run)) return true;
  if (find(run, record.parent) == nullptr) return false;
  About child;
  child.parent = record.parent.empty() ? run : record.parent;
  child.interactive = true;
  runs_.emplace(record.run, std::move(child));
  return true;
}

bool Told::end_child(const std::string& run, const wire::Record& record) {
  const About* about = find(run, record.run);
  if (about == nullptr) return false;
  const Result<RunStatus> status = run_status_from(record.value);
  if (record.run == run) return status.has_value();
  if (!status || !is_final(*status) || !about->interactive) return false;
  over(RunId{record.run});
  return true;
}

Told::About* Told::find(const std::string& run, const std::string& child) {
  if (child.empty() || child == run) return &runs_.at(run);
  const auto found = runs_.find(child);
  if (found == runs_.end() || found->second.over || !descends(child, run)) return nullptr;
  return &found->second;
}

bool Told::descends(const std::string& child, const std::string& run) const {
  const std::string& parent = runs_.at(child).parent;
  return !parent.empty() && (parent == run || descends(parent, run));
}

}  // namespace trainyard::sim
