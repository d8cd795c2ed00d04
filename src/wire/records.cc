#include "wire/records.h"

#include <cmath>

#include "model/limits.h"
#include "wire/parse.h"

namespace trainyard::wire {
namespace {

constexpr size_t kListMax = 100'000;
constexpr size_t kMembersMax = 100'000;  // Of one object.
// Answers that hold a record's value nest a few levels deeper, and parse() must take those.
constexpr size_t kDepthMax = 128;

std::unexpected<Error> refuse(std::string message) {
  return fail(ErrorKind::invalid, std::move(message));
}

constexpr double kWholeMax = 9007199254740992;  // 2^53: larger integers are not exact as double.

bool is_whole(double value) { return std::trunc(value) == value && std::abs(value) < kWholeMax; }

// A finite number stays one; all else is kept as its JSON. Numbers that a double alone would read
// back as another type or value (1.0, 2^60) have their JSON too.
Point point_of(const Json& value, WallTime at) {
  Point point;
  point.at = at;
  if (value.is_number() && std::isfinite(value.get<double>())) {
    point.value = value.get<double>();
    if (value.is_number_float() == is_whole(*point.value)) point.text = dump(value);
  } else if (value.is_boolean()) {
    point.value = value.get<bool>() ? 1 : 0;
  } else {
    point.text = dump(value);
  }
  return point;
}

WallTime time_of(const Json& line, WallTime now) {
  const auto found = line.find("t");
  if (found == line.end() || !found->is_number_integer()) return now;
  const WallTime at{microseconds(found->get<int64_t>())};
  return at > now || at < WallTime{} ? now : at;
}

Result<std::string> text_member(const Json& line, const char* key, bool needed) {
  const auto found = line.find(key);
  if (found == line.end() || found->is_null()) {
    if (needed) return refuse(std::string(key) + " is missing");
    return std::string();
  }
  if (found->is_string()) return found->get<std::string>();
  if (found->is_number() || found->is_boolean()) return dump(*found);
  return refuse(std::string(key) + " must be a text");
}

Status read_points(const Json& line, std::string_view kind, Record& record) {
  const auto value = line.find("v");
  if (value == line.end()) return refuse("v is missing");
  record.metric_kind = kind == "metric" ? "scalar" : std::string(kind);
  if (kind == "row" || kind == "table") {
    if (!value->is_object()) return refuse("v must be an object");
  }
  if (kind != "list") {
    record.points.push_back(point_of(*value, record.at));
    const auto step = line.find("s");
    if (step != line.end() && step->is_number_integer()) {
      record.points.back().step = step->get<int64_t>();
    }
    return {};
  }
  if (!value->is_array() || value->size() > kListMax) return refuse("v must be a list");
  for (const Json& item : *value) record.points.push_back(point_of(item, record.at));
  return {};
}

}  // namespace

Result<Record> parse_record(std::string_view text, WallTime now) {
  if (text.size() > limits::kRecordBytes) return refuse("it is longer than 1 MB");
  TRY_SET(const Json line, parse(text, {.depth_max = kDepthMax, .members_max = kMembersMax}));
  if (!line.is_object()) return refuse("it is no object");
  TRY_SET(const std::string kind, text_member(line, "k", true));
  Record record;
  record.at = time_of(line, now);
  TRY_SET(record.run, text_member(line, "r", kind == "child"));
  TRY_SET(record.name, text_member(line, "n", kind != "child" && kind != "end"));
  if (record.name.size() > limits::kNameBytes) return refuse("its name is longer than 4096 bytes");
  for (const std::string_view metric : {"metric", "list", "row", "table", "image", "doc"}) {
    if (kind != metric) continue;
    TRY(read_points(line, kind, record));
    return record;
  }
  if (kind == "child") {
    record.kind = RecordKind::child;
    TRY_SET(record.parent, text_member(line, "p", false));
    return record;
  }
  if (kind == "dropped") {  // Its sender could not write it as a record.
    TRY_SET(const std::string why, text_member(line, "e", false));
    return refuse("'" + record.name + "' " + (why.empty() ? "is larger than 1 MB" : why));
  }
  record.removes = !line.contains("v") || line["v"].is_null();
  TRY_SET(record.value, text_member(line, "v", kind != "tag"));
  if (kind == "param") {
    record.kind = RecordKind::parameter;
  } else if (kind == "tag") {
    record.kind = RecordKind::tag;
  } else if (kind == "property") {
    record.kind = RecordKind::property;
  } else if (kind == "end") {
    record.kind = RecordKind::end;
    TRY_SET(record.error, text_member(line, "e", false));
  } else {
    return refuse("its kind '" + kind + "' is not known");
  }
  return record;
}

Json point_value(const Point& point) {
  if (point.value && point.text.empty()) {
    if (is_whole(*point.value)) return static_cast<int64_t>(*point.value);
    return *point.value;
  }
  Result<Json> json = parse(point.text);
  return json ? *std::move(json) : Json();
}

}  // namespace trainyard::wire
