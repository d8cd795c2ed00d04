#include "api/machines.h"

#include "store/machines.h"

namespace trainyard::api {
namespace {

constexpr seconds kNote{60};  // Between two notes in the database of when it was heard of.

}  // namespace

Status Machines::open_all() {
  std::vector<Machine> machines;
  const auto look = [&](db::Db& db) -> Status {
    TRY_SET(machines, store::all_machines(db));
    return {};
  };
  TRY(parts_.store.read(look));
  for (const Machine& machine : machines) open(machine);
  return {};
}

void Machines::open(const Machine& machine) {
  std::shared_ptr<engine::Joined> engine;
  open_.with([&](auto& all) {
    if (all.contains(machine.key)) return;
    engine = std::make_shared<engine::Joined>(
        engine::JoinedOptions{.name = machine.name,
                              .clock = parts_.clock,
                              .facts = machine.facts,
                              .changed = [wake = parts_.wake, key = machine.key] { wake(key); }});
    all[machine.key] = {engine, {}};
  });
  if (engine) parts_.control.add_target(queue_of(machine), engine);
}

void Machines::close(const Machine& machine, const std::string& why) {
  std::shared_ptr<engine::Joined> engine;
  open_.with([&](auto& all) {
    const auto found = all.find(machine.key);
    if (found == all.end()) return;
    engine = found->second.engine;
    all.erase(found);
  });
  if (!engine) return;
  engine->abandon(why);
  parts_.control.remove_target(queue_of(machine));
  parts_.wake(machine.key);
}

std::shared_ptr<engine::Joined> Machines::find(std::string_view key) {
  return open_.with([&](auto& all) {
    const auto found = all.find(key);
    return found != all.end() ? found->second.engine : nullptr;
  });
}

Status Machines::take(const Machine& machine, engine::Joined& engine, const MachineReport& report) {
  using Taken = engine::Joined::Taken;
  const Taken taken = engine.take(report);
  if (taken == Taken::stale) {
    return fail(ErrorKind::conflict, "machine " + machine.name + " has asked again since");
  }
  // The ledger learns what there is to give out.
  if (taken == Taken::changed) {
    parts_.control.add_target(queue_of(machine), find(machine.key));
  }
  const SteadyTime now = parts_.clock.steady();
  const bool due = open_.with([&](auto& all) {
    const auto found = all.find(machine.key);
    if (found == all.end()) return false;
    const bool late = found->second.noted == SteadyTime{} || now - found->second.noted >= kNote;
    if (late) found->second.noted = now;
    return late;
  });
  if (!due && taken == Taken::same) return {};
  return parts_.store.write(Durable::no, [&](db::Transaction& transaction) {
    return store::note_machine(transaction, machine.id, report.facts, parts_.clock.wall());
  });
}

Result<Machine> load_machine(store::Store& store, std::string_view key) {
  Machine machine;
  const auto look = [&](db::Db& db) -> Status {
    TRY_SET(machine, store::load_machine(db, key));
    return {};
  };
  TRY(store.read(look));
  return machine;
}

}  // namespace trainyard::api
