#include "wire/json.h"

#include <array>
#include <cmath>
#include <utility>

namespace trainyard::wire {
namespace {

// ---- fields(), both ways ----

template <class T>
concept HasFields = requires(T value) { T::fields(value, [](const char*, auto&) {}); };

Json to_json(EndCause cause) { return std::string(to_string(cause)); }
Json to_json(ReportKind kind) { return std::string(to_string(kind)); }
Json to_json(CommandForm form) { return std::string(to_string(form)); }
Json to_json(Priority priority) { return std::string(to_string(priority)); }
Json to_json(EnvironmentKind kind) { return std::string(to_string(kind)); }
Json to_json(const std::string& text) { return text; }
template <class T>
  requires std::is_arithmetic_v<T>
Json to_json(T value) {
  return value;
}
template <HasFields T>
Json to_json(const T& value);
template <class T>
Json to_json(const std::vector<T>& values) {
  Json array = Json::array();
  for (const T& value : values) array.push_back(to_json(value));
  return array;
}
// Linear, as a search for each key would not be.
Json to_json(const std::map<std::string, std::string>& map) { return map; }
template <HasFields T>
Json to_json(const T& value) {
  Json object = Json::object();
  const auto add = [&](const char* name, const auto& field) {
    Json json = to_json(field);
    // Most runs leave most of it out, and there are many of them.
    const bool left_out = std::is_same_v<T, Environment> || std::is_same_v<T, Recipe> ||
                          std::is_same_v<T, ImageRegistry>;
    if (left_out && (json.empty() || json == "" || json == "system" || json == false)) return;
    object[name] = std::move(json);
  };
  T::fields(value, add);
  return object;
}

std::unexpected<Error> wrong(std::string_view what) {
  return fail(ErrorKind::invalid, "must be " + std::string(what));
}

Status read(const Json& json, std::string& out) {
  if (!json.is_string()) return wrong("a string");
  out = json.get<std::string>();
  return {};
}
Status read(const Json& json, bool& out) {
  if (!json.is_boolean()) return wrong("true or false");
  out = json.get<bool>();
  return {};
}
template <std::integral T>
Status read(const Json& json, T& out) {
  if (!json.is_number_integer()) return wrong("a whole number");
  const bool too_large = json.is_number_unsigned() && json.get<uint64_t>() > INT64_MAX;
  if (too_large || !std::in_range<T>(json.get<int64_t>())) return wrong("a number in range");
  out = static_cast<T>(json.get<int64_t>());
  return {};
}
Status read(const Json& json, double& out) {
  if (!json.is_number()) return wrong("a number");
  out = json.get<double>();
  return {};
}
Status read(const Json& json, EndCause& out) {
  std::string name;
  TRY(read(json, name));
  TRY_SET(out, end_cause_from(name));
  return {};
}
Status read(const Json& json, EnvironmentKind& out) {
  std::string name;
  TRY(read(json, name));
  TRY_SET(out, environment_kind_from(name));
  return {};
}
Status read(const Json& json, ReportKind& out) {
  std::string name;
  TRY(read(json, name));
  TRY_SET(out, report_kind_from(name));
  return {};
}
Status read(const Json& json, CommandForm& out) {
  std::string name;
  TRY(read(json, name));
  TRY_SET(out, command_form_from(name));
  return {};
}
Status read(const Json& json, Priority& out) {
  std::string name;
  TRY(read(json, name));
  TRY_SET(out, priority_from(name));
  return {};
}
template <HasFields T>
Status read(const Json& json, T& out);
template <class T>
Status read(const Json& json, std::vector<T>& out) {
  if (!json.is_array()) return wrong("a list");
  out.clear();
  for (size_t i = 0; i < json.size(); ++i) {
    T value{};
    TRY_WITHIN("[" + std::to_string(i) + "]", read(json[i], value));
    out.push_back(std::move(value));
  }
  return {};
}
Status read(const Json& json, std::map<std::string, std::string>& out) {
  if (!json.is_object()) return wrong("an object");
  out.clear();
  for (const auto& [key, value] : json.items()) {
    TRY_WITHIN(key, read(value, out[key]));
  }
  return {};
}
template <HasFields T>
Status read(const Json& json, T& out) {
  if (!json.is_object()) return wrong("an object");
  Status status;
  T::fields(out, [&](const char* name, auto& field) {
    if (!status) return;
    const auto found = json.find(name);
    if (found == json.end() || found->is_null()) return;
    if (Status good = read(*found, field); !good) {
      status = std::unexpected(std::move(good).error().within(name));
    }
  });
  return status;
}

template <class T>
Result<T> decode(const Json& json) {
  T value;
  TRY(read(json, value));
  return value;
}

// ---- text ----

bool has_odd_number(const Json& json) {
  if (json.is_number_float()) return !std::isfinite(json.get<double>());
  if (!json.is_structured()) return false;
  for (const auto& item : json) {
    if (has_odd_number(item)) return true;
  }
  return false;
}

// JSON has no NaN: the contract writes it as a string.
Json without_odd_numbers(const Json& json) {
  if (json.is_number_float() && !std::isfinite(json.get<double>())) {
    const double value = json.get<double>();
    return std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
  }
  if (!json.is_structured()) return json;
  Json copy = json;
  for (auto& item : copy) item = without_odd_numbers(item);
  return copy;
}

std::string dump_with(const Json& json, int indent) {
  constexpr auto kReplace = Json::error_handler_t::replace;
  if (has_odd_number(json)) return without_odd_numbers(json).dump(indent, ' ', false, kReplace);
  return json.dump(indent, ' ', false, kReplace);
}

// ---- errors ----

constexpr std::array<std::pair<ErrorKind, int>, 8> kStatuses = {{
    {ErrorKind::invalid, 400},
    {ErrorKind::denied, 403},
    {ErrorKind::not_found, 404},
    {ErrorKind::conflict, 409},
    {ErrorKind::unavailable, 503},
    {ErrorKind::no_space, 507},
    {ErrorKind::cancelled, 499},
    {ErrorKind::internal, 500},
}};

ErrorKind kind_of_status(int status) {
  if (status == 401) return ErrorKind::denied;
  if (status == 408 || status == 429 || status == 502 || status == 504) {
    return ErrorKind::unavailable;
  }
  for (const auto& [kind, known] : kStatuses) {
    if (known == status) return kind;
  }
  return status < 500 ? ErrorKind::invalid : ErrorKind::internal;
}

}  // namespace

std::string dump(const Json& json) { return dump_with(json, -1); }
std::string dump_pretty(const Json& json) { return dump_with(json, 2); }

Json encode(const RunSpec& spec) { return to_json(spec); }
Json encode(const Environment& environment) { return to_json(environment); }
Json encode(const Realised& realised) { return to_json(realised); }
Json encode(const RetryPolicy& retry) { return to_json(retry); }
Json encode(const Report& report) {
  Json json = to_json(report);
  if (report.kind != ReportKind::ended) json.erase("end");
  if (report.gpus.empty()) json.erase("gpus");
  if (report.kind != ReportKind::ready) json.erase("host");
  if (report.kind != ReportKind::rank_failed) json.erase("exit");
  return json;
}
Json encode(const AttemptEnd& end) { return to_json(end); }
Json encode(const RankExit& exit) { return to_json(exit); }
Json encode(const Orders& orders) { return to_json(orders); }
Json encode(const Assignment& assignment) { return to_json(assignment); }
Json encode(const ComputeSpec& spec) { return to_json(spec); }
Json encode(const VmSize& size) { return to_json(size); }
Json encode(const RolePolicy& policy) { return to_json(policy); }

Result<RunSpec> decode_run_spec(const Json& json) { return decode<RunSpec>(json); }
Result<Environment> decode_environment(const Json& json) { return decode<Environment>(json); }
Result<Realised> decode_realised(const Json& json) { return decode<Realised>(json); }
Result<RetryPolicy> decode_retry(const Json& json) { return decode<RetryPolicy>(json); }
Result<Report> decode_report(const Json& json) { return decode<Report>(json); }
Result<AttemptEnd> decode_attempt_end(const Json& json) { return decode<AttemptEnd>(json); }
Result<RankExit> decode_rank_exit(const Json& json) { return decode<RankExit>(json); }
Result<Orders> decode_orders(const Json& json) { return decode<Orders>(json); }
Result<Assignment> decode_assignment(const Json& json) { return decode<Assignment>(json); }
Result<ComputeSpec> decode_compute_spec(const Json& json) { return decode<ComputeSpec>(json); }
Result<VmSize> decode_vm_size(const Json& json) { return decode<VmSize>(json); }
Result<RolePolicy> decode_role_policy(const Json& json) { return decode<RolePolicy>(json); }

Json error_to_json(const Error& error) {
  return {{"error",
           {{"kind", std::string(to_string(error.kind))},
            {"message", error.message},
            {"hint", error.hint}}}};
}

Error error_from_answer(int status, std::string_view body) {
  const Result<Json> json = parse(body);
  const auto found = json && json->is_object() ? json->find("error") : Json::const_iterator{};
  if (json && json->is_object() && found != json->end() && found->is_object()) {
    return {error_kind_from(string_member(*found, "kind").value_or("internal")),
            string_member(*found, "message").value_or(""),
            string_member(*found, "hint").value_or("")};
  }
  return {kind_of_status(status), "the server answered " + std::to_string(status), {}};
}

int http_status(ErrorKind kind) {
  for (const auto& [known, status] : kStatuses) {
    if (known == kind) return status;
  }
  return 500;
}

namespace {

template <class T>
Result<T> member(const Json& json, std::string_view key, T otherwise) {
  if (!json.is_object()) return fail(ErrorKind::invalid, "the body must be a JSON object");
  const auto found = json.find(std::string(key));
  if (found == json.end() || found->is_null()) return otherwise;
  T value{};
  TRY_WITHIN(key, read(*found, value));
  return value;
}

}  // namespace

const Json& member(const Json& json, std::string_view key) {
  static const Json kNull;
  if (!json.is_object()) return kNull;
  const auto found = json.find(key);
  return found == json.end() ? kNull : *found;
}

Result<std::string> string_member(const Json& json, std::string_view key, std::string otherwise) {
  return member<std::string>(json, key, std::move(otherwise));
}
Result<int64_t> int_member(const Json& json, std::string_view key, int64_t otherwise) {
  return member<int64_t>(json, key, otherwise);
}
Result<bool> bool_member(const Json& json, std::string_view key, bool otherwise) {
  return member<bool>(json, key, otherwise);
}

}  // namespace trainyard::wire
