#include "api/house.h"

#include <algorithm>
#include <thread>

#include "api/shells.h"

namespace trainyard::api {
namespace {

// Slow requests have a quarter of the CPUs.
int slow_places() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / 4); }

}  // namespace

House::House(Parts parts)
    : clock(parts.clock),
      log(parts.log),
      home(parts.home),
      store(parts.store),
      blobs(parts.blobs),
      logs(parts.logs),
      trees(parts.blobs),
      tree_digests(trees),
      claims(parts.clock),
      watch([this](const RunId& id) { return control->run(id); }),
      slow_lane(slow_places(), [this] { server->notify(kSlowKey); }) {}

House::~House() = default;

void House::stop_waiting() {
  stopping_ = true;
  if (shells) shells->close();
}

void House::open(control::Control& opened_control, http::Server& opened_server, Facts known,
                 std::function<void()> stop) {
  control = &opened_control;
  server = &opened_server;
  facts = std::move(known);
  request_stop = std::move(stop);
  shells = std::make_unique<Shells>(
      clock, execs, [this](const std::string& id) { server->notify(exec_key(id)); });
  open_.store(true, std::memory_order_release);
  server->notify(kOpenKey);
}

void House::run_changed(const RunId& run) {
  watch.changed(run);
  if (!is_open()) return;
  server->notify(state_key(run));
  server->notify(output_key(run));
}

void House::run_printed(const RunId& run) {
  if (is_open()) server->notify(output_key(run));
}

void House::add_note(const RunId& run, std::string_view line) {
  const auto write = [&]() -> Status {
    std::lock_guard lock(notes_);
    TRY_SET(const store::Store::RunFile file, store.file(run, "system_logs/server.txt"));
    TRY_SET(const uint64_t size, logs.file_size(run, file.number));
    const std::string whole = format_time(clock.wall()) + " " + std::string(line) + "\n";
    const auto reset = file.created ? logs::LogStore::Reset::yes : logs::LogStore::Reset::no;
    TRY(logs.append_file(run, file.number, file.created ? 0 : size, whole, reset));
    return {};
  };
  if (const Status written = write(); !written) {
    log.warn("note not kept", {{"run", run.value}, {"error", written.error().message}});
  }
  run_printed(run);
}

void House::seal(const RunId& run) {
  for (const Status& synced : {logs.seal(run), blobs.sync()}) {
    if (synced) continue;
    log.warn("not synced", {{"run", run.value}, {"error", synced.error().message}});
  }
}

Result<const seal::Box*> House::box() {
  // From here on values pass through our buffers and JSON.
  seal::hide_from_core_dumps();
  return signer();
}

Result<const seal::Box*> House::signer() {
  return box_.with([&](auto& box) -> Result<const seal::Box*> {
    if (!box) {
      TRY_SET(seal::Box opened, seal::Box::open(home.secrets_key()));
      box.emplace(std::move(opened));
    }
    return &*box;
  });
}

std::string House::system_name(unsigned uid, std::string (*look_up)(unsigned)) {
  return system_names_.with([&](auto& names) {
    const auto found = names.find(uid);
    return found != names.end() ? found->second : names.emplace(uid, look_up(uid)).first->second;
  });
}

}  // namespace trainyard::api
