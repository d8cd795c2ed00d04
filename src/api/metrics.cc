#include "api/metrics.h"

#include <fmt/format.h>
#include <unistd.h>

#include "base/text.h"

namespace trainyard::api {
namespace {

constexpr RunStatus kStatuses[] = {
    RunStatus::not_started, RunStatus::queued,           RunStatus::provisioning,
    RunStatus::preparing,   RunStatus::starting,         RunStatus::running,
    RunStatus::finalizing,  RunStatus::cancel_requested, RunStatus::completed,
    RunStatus::failed,      RunStatus::canceled,
};

struct Text {
  std::string out;

  void head(std::string_view name, std::string_view type, std::string_view help) {
    out += fmt::format("# HELP trainyard_{} {}\n# TYPE trainyard_{} {}\n", name, help, name, type);
  }
  void one(std::string_view name, std::string_view type, std::string_view help, auto value) {
    head(name, type, help);
    out += fmt::format("trainyard_{} {}\n", name, value);
  }
};

uint64_t database_bytes(const Home& home) {
  uint64_t sum = 0;
  for (const char* ending : {"", "-wal"}) {
    std::error_code error;
    const uintmax_t size = fs::file_size(home.database().string() + ending, error);
    if (!error) sum += size;
  }
  return sum;
}

// The second number of /proc/self/statm, in pages.
uint64_t resident_bytes() {
  const std::string text = read_file("/proc/self/statm").value_or("");
  const std::vector<std::string> words = split(text, ' ');
  if (words.size() < 2) return 0;
  return static_cast<uint64_t>(parse_int(words[1], "statm").value_or(0)) *
         static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

Result<std::string> metrics_text(House& house) {
  Text text;
  text.head("runs", "gauge", "Runs by status.");
  for (const RunStatus status : kStatuses) {
    TRY_SET(const int64_t count, house.store.count_runs(status));
    text.out += fmt::format("trainyard_runs{{status=\"{}\"}} {}\n", to_string(status), count);
  }
  const control::Control::Load load = house.control->load();
  text.one("queue_length", "gauge", "Runs that wait for their place.", load.queued);
  text.one("live_attempts", "gauge", "Attempts that are placed and not over.", load.live);
  text.one("cpus", "gauge", "CPUs of the target local.", load.capacity.cpus);
  text.one("cpus_used", "gauge", "CPUs given to runs.", load.cpus_used);
  text.one("memory_used_bytes", "gauge", "Memory given to runs.", load.memory_used_bytes);
  const http::Server::Counts counts = house.server->counts();
  text.one("http_requests_total", "counter", "Requests answered or under way.", counts.requests);
  text.one("http_refused_total", "counter", "Requests and connections refused by a limit.",
           counts.refused);
  text.one("http_connections", "gauge", "Open connections.", counts.connections_open);
  text.one("http_parked", "gauge", "Requests that wait for something to happen.", counts.parked);
  text.one("database_bytes", "gauge", "Size of the database.", database_bytes(house.home));
  text.one("resident_bytes", "gauge", "Resident memory of the server.", resident_bytes());
  const microseconds up = house.clock.wall() - house.facts.started;
  text.one("uptime_seconds", "gauge", "Since the start of the server.",
           std::chrono::duration_cast<seconds>(up).count());
  return std::move(text.out);
}

}  // namespace trainyard::api
