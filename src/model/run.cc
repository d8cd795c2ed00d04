#include "model/run.h"

#include <array>

namespace trainyard {
namespace {

// Which phase begins with which event; the others ("submitted", "cancel_requested") end none.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kPhaseOfEvent = {{
    {"queued", "queue"},
    {"provisioning", "provision"},
    {"preparing", "prepare"},
    {"starting", "start"},
    {"running", "run"},
    {"finalizing", "capture"},
}};

std::string_view phase_of(std::string_view event) {
  for (const auto& [kind, phase] : kPhaseOfEvent) {
    if (kind == event) return phase;
  }
  return {};
}

constexpr std::array<std::pair<Role, std::string_view>, 3> kRoles = {{
    {Role::reader, "reader"},
    {Role::submitter, "submitter"},
    {Role::admin, "admin"},
}};

}  // namespace

std::vector<Phase> timeline(const Run& run, WallTime now) {
  std::vector<Phase> phases;
  for (const RunEventRecord& event : run.events) {
    const std::string_view name = phase_of(event.kind);
    const bool over = event.kind == "ended";
    if (name.empty() && !over) continue;
    // The first phase begins with the run itself, so that all of them add up to its whole time.
    const WallTime at = phases.empty() && !over ? run.created : event.at;
    if (!phases.empty() && !phases.back().ended) phases.back().ended = at;
    if (over) break;
    phases.push_back({std::string(name), event.attempt, at, std::nullopt, event.text});
  }
  if (!phases.empty() && !phases.back().ended && !is_final(run.life.status)) {
    // An open phase shows how long it has lasted; its end is not known yet.
    if (phases.back().started > now) phases.back().started = now;
    if (!run.reason.empty()) phases.back().text = run.reason;
  }
  return phases;
}

std::string_view to_string(Role role) {
  for (const auto& [known, name] : kRoles) {
    if (known == role) return name;
  }
  return {};
}

Result<Role> role_from(std::string_view name) {
  for (const auto& [role, known] : kRoles) {
    if (known == name) return role;
  }
  return fail(ErrorKind::invalid, "role '" + std::string(name) + "' is not known",
              "Roles: reader, submitter, admin.");
}

}  // namespace trainyard
