#include "api/execs.h"

#include <algorithm>

#include "base/text.h"

namespace trainyard::api {
namespace {

constexpr size_t kExecsMax = 1000;
constexpr size_t kOutputMax = 4 << 20;  // Of one; more is cut off.
constexpr seconds kForgotten{600};      // After its end, or when it should have ended.
constexpr size_t kIdLength = 16;

std::unexpected<Error> no_such() {
  return fail(ErrorKind::not_found, "the command is not known here (any more)",
              "The server may have been restarted: run it again.");
}

}  // namespace

std::string Execs::place_of(const AttemptId& attempt, int node) {
  return attempt.str() + "/" + std::to_string(node);
}

std::string Execs::place_of(std::string_view machine) { return "@" + std::string(machine); }

std::string Execs::place_of_compute(std::string_view workspace, std::string_view compute) {
  return "#" + std::string(workspace) + "/" + std::string(compute);
}

bool Execs::all_known(const std::vector<std::string>& ids, std::string_view known) {
  const std::vector<std::string> names = split(known, ',');
  return std::ranges::all_of(
      ids, [&](const std::string& id) { return std::ranges::find(names, id) != names.end(); });
}

Result<std::string> Execs::add(Wanted wanted, SteadyTime now) {
  std::string id = new_secret("").substr(0, kIdLength);
  const bool added = all_.with([&](All& all) {
    std::erase_if(all, [&](const auto& one) {
      const Exec& exec = one.second;
      const seconds quiet(exec.over ? 0 : exec.wanted.timeout_s);
      return now - exec.touched > kForgotten + quiet;
    });
    if (all.size() >= kExecsMax) return false;
    all[id] = {.wanted = std::move(wanted), .touched = now, .error = {}, .output = {}};
    return true;
  });
  if (added) return id;
  return fail(ErrorKind::unavailable, "too many commands are being run on nodes", "Try again.");
}

std::vector<std::string> Execs::pending(std::string_view place) {
  return all_.with([&](const All& all) {
    std::vector<std::string> ids;
    for (const auto& [id, exec] : all) {
      if (!exec.taken && !exec.stopped && exec.wanted.place == place) ids.push_back(id);
    }
    return ids;
  });
}

Result<Execs::Wanted> Execs::take(std::string_view id, std::string_view place) {
  return all_.with([&](All& all) -> Result<Wanted> {
    TRY_SET(Exec * exec, find(all, id, place));
    if (std::exchange(exec->taken, true)) {
      return fail(ErrorKind::conflict, "the command was taken before");
    }
    return exec->wanted;
  });
}

Result<uint64_t> Execs::append(std::string_view id, std::string_view place, uint64_t from,
                               std::string_view bytes, SteadyTime now) {
  return all_.with([&](All& all) -> Result<uint64_t> {
    TRY_SET(Exec * exec, find(all, id, place));
    exec->touched = now;
    const uint64_t have = exec->output.size();
    if (from > have || have - from >= bytes.size()) return std::max(have, from + bytes.size());
    exec->output.append(bytes.substr(have - from).substr(0, kOutputMax - have));
    return from + bytes.size();
  });
}

Status Execs::end(std::string_view id, std::string_view place, int code, SteadyTime now,
                  std::optional<Error> error) {
  return all_.with([&](All& all) -> Status {
    TRY_SET(Exec * exec, find(all, id, place));
    exec->touched = now;
    exec->over = true;
    exec->code = code;
    exec->error = std::move(error);
    return {};
  });
}

Status Execs::stop(std::string_view id) {
  return all_.with([&](All& all) -> Status {
    const auto found = all.find(id);
    if (found == all.end()) return no_such();
    found->second.stopped = true;
    return {};
  });
}

void Execs::stop_all_by(std::string_view user) {
  all_.with([&](All& all) {
    for (auto& [id, exec] : all) exec.stopped = exec.stopped || exec.wanted.by == user;
  });
}

bool Execs::stopped(std::string_view id) {
  return all_.with([&](const All& all) {
    const auto found = all.find(id);
    return found == all.end() || found->second.stopped;
  });
}

Result<Execs::Part> Execs::read(std::string_view id, uint64_t from) {
  return all_.with([&](All& all) -> Result<Part> {
    const auto found = all.find(id);
    if (found == all.end()) return no_such();
    const Exec& exec = found->second;
    const uint64_t begin = std::min<uint64_t>(from, exec.output.size());
    return Part{.bytes = exec.output.substr(begin),
                .next = exec.output.size(),
                .taken = exec.taken,
                .over = exec.over,
                .code = exec.code,
                .error = exec.error,
                .by = exec.wanted.by};
  });
}

Result<Execs::Exec*> Execs::find(All& all, std::string_view id, std::string_view place) {
  const auto found = all.find(id);
  if (found == all.end() || found->second.wanted.place != place) return no_such();
  return &found->second;
}

}  // namespace trainyard::api
