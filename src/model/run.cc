#include "model/run.h"

#include <array>

namespace trainyard {
namespace {

struct PhaseRow {
  std::string_view event;
  std::string_view phase;
  std::string_view text;  // What the time went to, where nobody had more to say.
};

// Which phase begins with which event; the others ("submitted", "cancel_requested") end none.
constexpr std::array<PhaseRow, 8> kPhases = {{
    {"queued", "queue", "waited for its turn"},
    {"provisioning", "provision", "its supervisor was started"},
    {"preparing", "prepare", "its code was copied to the node"},
    {"building", "build", "its environment was waited for"},
    {"built", "prepare", "its files were put in place"},
    {"starting", "start", "its processes were started"},
    {"running", "run", "its processes ran"},
    {"finalizing", "capture", "its outputs and logs were kept"},
}};

const PhaseRow* phase_of(std::string_view event) {
  for (const PhaseRow& row : kPhases) {
    if (row.event == event) return &row;
  }
  return nullptr;
}

constexpr std::array<std::pair<Role, std::string_view>, 3> kRoles = {{
    {Role::reader, "reader"},
    {Role::submitter, "submitter"},
    {Role::admin, "admin"},
}};

}  // namespace

std::vector<Phase> timeline(const Run& run, WallTime now) {
  std::vector<Phase> phases;
  for (size_t i = 0; i < run.events.size(); ++i) {
    const RunEventRecord& event = run.events[i];
    const PhaseRow* row = phase_of(event.kind);
    const bool over = event.kind == "ended";
    if (row == nullptr && !over) continue;
    // A run that is held for its build from the first moment did not wait for its turn before it.
    const bool builds = row != nullptr && row->phase == "build";
    if (builds && !phases.empty() && phases.back().started == event.at) phases.pop_back();
    // The first phase begins with the run itself, so that all of them add up to its whole time.
    const WallTime at = phases.empty() && !over ? run.created : event.at;
    if (!phases.empty() && !phases.back().ended) phases.back().ended = at;
    if (over) break;
    std::string text = event.text.empty() ? std::string(row->text) : event.text;
    const bool builds_next = i + 1 < run.events.size() && run.events[i + 1].kind == "building";
    if (row->phase == "prepare" && !run.spec.preparation.empty() && !builds_next) {
      text += ", and its job preparation ran";
    }
    phases.push_back({std::string(row->phase), event.attempt, at, std::nullopt, text});
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

std::string_view to_string(Access access) {
  return access == Access::members ? "members" : "everyone";
}

Result<Access> access_from(std::string_view name) {
  for (const Access access : {Access::everyone, Access::members}) {
    if (to_string(access) == name) return access;
  }
  return fail(ErrorKind::invalid, "access '" + std::string(name) + "' is not known",
              "It is everyone or members.");
}

}  // namespace trainyard
