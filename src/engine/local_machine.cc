#include "engine/local_machine.h"

#include <dirent.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>

#include <charconv>
#include <memory>
#include <thread>

#include "base/file.h"
#include "base/text.h"
#include "gpu/gpus.h"

namespace trainyard::engine {
namespace {

constexpr int kKillRounds = 300;
constexpr int kKillPauseMs = 10;

int cpu_count() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(std::thread::hardware_concurrency());  // More CPUs than the set can hold.
}

// The least that our group and those above it allow.
void apply_limits(const fs::path& root, fs::path group, const char* file, int64_t& memory) {
  for (;;) {
    if (const Result<std::string> text = read_file(root / group.relative_path() / file)) {
      const int64_t limit = memory_limit(*text);
      if (limit > 0 && (memory == 0 || limit < memory)) memory = limit;
    }
    if (!group.has_relative_path()) return;
    group = group.parent_path();
  }
}

bool is_marked(const char* pid, const std::string& wanted) {
  const Result<std::string> text = read_file(fs::path("/proc") / pid / "environ");
  if (!text) return false;  // It ended, or it is another user's.
  for (const std::string& variable : split(*text, '\0')) {
    if (variable == wanted) return true;
  }
  return false;
}

int kill_once(const std::string& wanted) {
  int found = 0;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc"), closedir);
  while (const dirent* entry = folder ? readdir(folder.get()) : nullptr) {
    const std::string_view name = entry->d_name;
    pid_t pid = 0;
    std::from_chars(name.data(), name.data() + name.size(), pid);
    if (pid <= 1 || !is_marked(entry->d_name, wanted)) continue;
    kill(pid, SIGKILL);
    ++found;
  }
  return found;
}

}  // namespace

Capacity machine_capacity() {
  Capacity capacity{.cpus = cpu_count()};
  capacity.memory_bytes = memory_total(read_file("/proc/meminfo").value_or(""));
  const std::string groups = read_file("/proc/self/cgroup").value_or("");
  const fs::path root = "/sys/fs/cgroup";
  apply_limits(root, cgroup_path(groups, ""), "memory.max", capacity.memory_bytes);
  apply_limits(root / "memory", cgroup_path(groups, "memory"), "memory.limit_in_bytes",
               capacity.memory_bytes);
  const gpu::Gpus gpus = gpu::Gpus::open();
  for (const gpu::Device& device : gpus.devices()) capacity.gpus.push_back(device.index);
  return capacity;
}

int64_t memory_total(std::string_view meminfo) {
  constexpr std::string_view kKey = "MemTotal:";
  for (const std::string& line : split(meminfo, '\n')) {
    if (!line.starts_with(kKey)) continue;
    const std::string_view rest = trim(std::string_view(line).substr(kKey.size()));
    const Result<int64_t> kilobytes = parse_int(rest.substr(0, rest.find(' ')), "MemTotal");
    return kilobytes ? *kilobytes * 1024 : 0;
  }
  return 0;
}

int64_t memory_limit(std::string_view text) {
  return parse_int(trim(text), "memory limit").value_or(-1);
}

std::string cgroup_path(std::string_view text, std::string_view controller) {
  for (const std::string& line : split(text, '\n')) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    for (const std::string& name : split(line.substr(first + 1, second - first - 1), ',')) {
      if (name == controller) return line.substr(second + 1);
    }
  }
  return {};
}

Status kill_marked(std::string_view name, std::string_view value) {
  const std::string wanted = std::string(name) + "=" + std::string(value);
  for (int round = 0; round < kKillRounds; ++round) {
    if (kill_once(wanted) == 0) return {};
    poll(nullptr, 0, kKillPauseMs);
  }
  return fail(ErrorKind::unavailable, "processes of the attempt cannot be killed");
}

}  // namespace trainyard::engine
