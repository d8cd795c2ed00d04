#include "wire/machines.h"

namespace trainyard::wire {
namespace {

constexpr size_t kGpusMax = 1024;
constexpr size_t kPythonsMax = 100;
constexpr size_t kHeldMax = 100'000;

Json names_of(const std::vector<AttemptId>& attempts) {
  Json names = Json::array();
  for (const AttemptId& attempt : attempts) names.push_back(attempt.str());
  return names;
}

Result<const Json*> list_member(const Json& json, std::string_view key, size_t max) {
  static const Json kNone = Json::array();
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return &kNone;
  if (!found->is_array() || found->size() > max) {
    return fail(ErrorKind::invalid, std::string(key) + ": must be a list");
  }
  return &*found;
}

Result<AttemptId> decode_attempt(const Json& json, std::string_view key) {
  const std::optional<AttemptId> attempt =
      json.is_string() ? attempt_from(json.get<std::string>()) : std::nullopt;
  if (attempt) return *attempt;
  return fail(ErrorKind::invalid, std::string(key) + ": must name an attempt");
}

Result<std::vector<AttemptId>> decode_names(const Json& json, std::string_view key) {
  std::vector<AttemptId> attempts;
  TRY_SET(const Json* list, list_member(json, key, kHeldMax));
  for (const Json& item : *list) {
    TRY_SET(AttemptId attempt, decode_attempt(item, key));
    attempts.push_back(std::move(attempt));
  }
  return attempts;
}

Result<std::vector<std::string>> decode_texts(const Json& json, std::string_view key) {
  std::vector<std::string> texts;
  TRY_SET(const Json* list, list_member(json, key, kHeldMax));
  for (const Json& item : *list) {
    if (!item.is_string()) return fail(ErrorKind::invalid, std::string(key) + ": must be texts");
    texts.push_back(item.get<std::string>());
  }
  return texts;
}

}  // namespace

Json encode(const MachineFacts& facts) {
  return {{"host", facts.host}, {"version", facts.version},
          {"cpus", facts.cpus}, {"memoryBytes", facts.memory_bytes},
          {"gpus", facts.gpus}, {"pythons", facts.pythons}};
}

Json encode(const MachineReport& report) {
  Json held = Json::array();
  for (const HeldAttempt& one : report.held) {
    held.push_back({{"attempt", one.id.str()}, {"live", one.live}, {"why", one.why}});
  }
  return {{"session", report.session}, {"number", report.number}, {"facts", encode(report.facts)},
          {"seen", report.seen},       {"held", std::move(held)}, {"execs", report.execs}};
}

Json encode(const MachineOrders& orders) {
  Json start = Json::array();
  for (const Assignment& assignment : orders.start) start.push_back(encode(assignment));
  return {{"version", orders.version},
          {"keep", names_of(orders.keep)},
          {"kill", names_of(orders.kill)},
          {"start", std::move(start)},
          {"execs", orders.execs}};
}

Result<MachineFacts> decode_machine_facts(const Json& json) {
  MachineFacts facts;
  if (!json.is_object()) return fail(ErrorKind::invalid, "facts: must be an object");
  TRY_SET(facts.host, string_member(json, "host"));
  TRY_SET(facts.version, string_member(json, "version"));
  TRY_SET(const int64_t cpus, int_member(json, "cpus"));
  TRY_SET(facts.memory_bytes, int_member(json, "memoryBytes"));
  TRY_SET(const Json* gpus, list_member(json, "gpus", kGpusMax));
  if (cpus < 1 || cpus > INT32_MAX || facts.memory_bytes < 0) {
    return fail(ErrorKind::invalid, "facts: a machine has CPUs and memory");
  }
  facts.cpus = static_cast<int>(cpus);
  for (const Json& device : *gpus) {
    if (!device.is_number_integer()) return fail(ErrorKind::invalid, "gpus: must be numbers");
    facts.gpus.push_back(device.get<int>());
  }
  if (!json.contains("pythons")) return facts;  // A machine of the version before.
  TRY_SET(const Json* pythons, list_member(json, "pythons", kPythonsMax));
  for (const Json& python : *pythons) {
    if (!python.is_string()) return fail(ErrorKind::invalid, "pythons: must be texts");
    facts.pythons.push_back(python.get<std::string>());
  }
  return facts;
}

Result<MachineReport> decode_machine_report(const Json& json) {
  MachineReport report;
  const auto facts = json.find("facts");
  if (facts == json.end()) return fail(ErrorKind::invalid, "facts: is missing");
  TRY_SET(report.facts, decode_machine_facts(*facts));
  TRY_SET(report.session, string_member(json, "session"));
  TRY_SET(report.number, int_member(json, "number"));
  TRY_SET(report.seen, int_member(json, "seen"));
  TRY_SET(const Json* held, list_member(json, "held", kHeldMax));
  for (const Json& item : *held) {
    HeldAttempt one;
    if (!item.is_object()) return fail(ErrorKind::invalid, "held: must be objects");
    TRY_SET(one.id, decode_attempt(item.value("attempt", Json()), "attempt"));
    TRY_SET(one.live, bool_member(item, "live", true));
    TRY_SET(one.why, string_member(item, "why"));
    report.held.push_back(std::move(one));
  }
  TRY_SET(report.execs, decode_texts(json, "execs"));
  return report;
}

Result<MachineOrders> decode_machine_orders(const Json& json) {
  MachineOrders orders;
  if (!json.is_object()) return fail(ErrorKind::invalid, "orders: must be an object");
  TRY_SET(orders.version, int_member(json, "version"));
  TRY_SET(orders.keep, decode_names(json, "keep"));
  TRY_SET(orders.kill, decode_names(json, "kill"));
  TRY_SET(const Json* start, list_member(json, "start", kHeldMax));
  for (const Json& item : *start) {
    TRY_SET(Assignment assignment, decode_assignment(item));
    orders.start.push_back(std::move(assignment));
  }
  TRY_SET(orders.execs, decode_texts(json, "execs"));
  return orders;
}

Json machine_to_json(const Machine& machine) {
  return {{"name", machine.name},
          {"workspace", machine.workspace},
          {"host", machine.facts.host},
          {"cpus", machine.facts.cpus},
          {"memoryBytes", machine.facts.memory_bytes},
          {"pythons", machine.facts.pythons},
          {"gpus", machine.facts.gpus.size()},
          {"version", machine.facts.version},
          {"personal", machine.personal},
          {"owner", machine.owner},
          {"key", machine.key},
          {"createdAt", format_time(machine.joined)},
          {"heardAt", machine.heard ? Json(format_time(*machine.heard)) : Json()}};
}

}  // namespace trainyard::wire
