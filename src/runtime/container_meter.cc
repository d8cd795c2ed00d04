#include "runtime/container_meter.h"

#include <algorithm>

#include "base/text.h"
#include "runtime/proc_table.h"

namespace trainyard::runtime {
namespace {

constexpr size_t kIdMin = 12;  // As much of an id as engines show at least.

// The path of a process's group; nothing where the controller is not of version 1.
std::optional<std::string> group_path(std::string_view groups, std::string_view controller) {
  for (const std::string& line : split(groups, '\n')) {
    // "5:cpu,cpuacct:/docker/ID"; of version 2 "0::/docker/ID".
    const size_t first = line.find(':');
    const size_t second = line.find(':', first == std::string::npos ? first : first + 1);
    if (second == std::string::npos) continue;
    const std::string names = line.substr(first + 1, second - first - 1);
    const std::vector<std::string> controllers = split(names, ',');
    const bool unified = controller.empty() && names.empty() && line.starts_with("0:");
    if (unified || (!controller.empty() && std::ranges::count(controllers, controller) > 0)) {
      return line.substr(second + 1);
    }
  }
  return std::nullopt;
}

// Where a hierarchy is mounted: its root there, and the folder.
struct GroupMount {
  std::string root;
  std::string folder;
};

std::optional<GroupMount> group_mount(std::string_view mounts, std::string_view controller) {
  for (const std::string& line : split(mounts, '\n')) {
    // "36 35 0:31 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory"
    const size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    const std::vector<std::string> before = split(line.substr(0, dash), ' ');
    const std::vector<std::string> after = split(line.substr(dash + 3), ' ');
    if (before.size() < 5 || after.size() < 3) continue;
    const bool found =
        controller.empty()
            ? after[0] == "cgroup2"
            : after[0] == "cgroup" && std::ranges::count(split(after[2], ','), controller) > 0;
    if (found) return GroupMount{before[3], before[4]};
  }
  return std::nullopt;
}

std::optional<fs::path> group_folder(std::string_view groups, std::string_view mounts,
                                     std::string_view controller) {
  std::optional<std::string> path = group_path(groups, controller);
  const std::optional<GroupMount> mount = group_mount(mounts, controller);
  // ".." is how the kernel shows a group outside of our namespace.
  if (!path || !mount || path->find("/..") != std::string::npos) return std::nullopt;
  if (mount->root != "/") {
    if (!path->starts_with(mount->root)) return std::nullopt;
    path->erase(0, mount->root.size());
  }
  return fs::path(mount->folder + *path);
}

// The line "NAME 123" of such a file.
Result<int64_t> stat_line(std::string_view text, std::string_view name) {
  for (const std::string& line : split(text, '\n')) {
    if (line.starts_with(name) && line.size() > name.size() && line[name.size()] == ' ') {
      return parse_int(line.substr(name.size() + 1), name);
    }
  }
  return fail(ErrorKind::not_found, "no " + std::string(name) + " in a control group's file");
}

Result<double> cpu_seconds_of(const ControlGroup& group) {
  if (group.unified) {
    TRY_SET(const std::string text, read_file(group.folder / "cpu.stat"));
    TRY_SET(const int64_t used_us, stat_line(text, "usage_usec"));
    return static_cast<double>(used_us) / 1e6;
  }
  TRY_SET(const std::string text, read_file(group.folder / "cpuacct.usage"));
  TRY_SET(const int64_t used_ns, parse_int(trim(text), "cpuacct.usage"));
  return static_cast<double>(used_ns) / 1e9;
}

// What its processes have in memory, as /proc counts it for others: pages of theirs, and of files
// that they have mapped. What the kernel only caches of files is not the rank's need.
Result<int64_t> memory_bytes_of(const ControlGroup& group) {
  TRY_SET(const std::string text, read_file(group.folder / "memory.stat"));
  TRY_SET(const int64_t own, stat_line(text, group.unified ? "anon" : "total_rss"));
  TRY_SET(const int64_t mapped,
          stat_line(text, group.unified ? "file_mapped" : "total_mapped_file"));
  return own + mapped;
}

// An engine that counts processes otherwise than we do names one here that is somebody else's. Its
// own has the container's id in its control group's name, or in the words of what watches it.
bool is_containers(const ContainerProcess& process, const ProcessRow& row, std::string_view groups,
                   const fs::path& proc) {
  if (groups.find(process.id) != std::string_view::npos) return true;
  const auto words = read_file(proc / std::to_string(row.parent) / "cmdline");
  return words && words->find(process.id) != std::string::npos;
}

}  // namespace

Result<ContainerProcess> parse_container_process(std::string_view text) {
  const std::vector<std::string> words = split(trim(text), ' ');
  const bool two = words.size() == 2 && words[0].size() >= kIdMin;
  const Result<int64_t> pid = two ? parse_int(words[1], "pid") : Result<int64_t>(0);
  if (!pid || *pid <= 0) return fail(ErrorKind::invalid, "not a container's id and process");
  return ContainerProcess{words[0], static_cast<pid_t>(*pid)};
}

std::optional<ControlGroup> find_control_group(std::string_view groups, std::string_view mounts,
                                               std::string_view controller) {
  if (group_path(groups, controller)) {
    const auto folder = group_folder(groups, mounts, controller);
    return folder ? std::optional(ControlGroup{*folder, false}) : std::nullopt;
  }
  const auto folder = group_folder(groups, mounts, "");
  return folder ? std::optional(ControlGroup{*folder, true}) : std::nullopt;
}

Result<ContainerMeter> ContainerMeter::open(const ContainerProcess& process, const fs::path& proc) {
  TRY_SET(const ProcessRow row, read_process(process.pid));
  TRY_SET(const std::string groups, read_file(proc / std::to_string(process.pid) / "cgroup"));
  if (!is_containers(process, row, groups, proc)) {
    return fail(ErrorKind::not_found,
                "process " + std::to_string(process.pid) + " is not the container's");
  }
  ContainerMeter meter;
  meter.pid_ = process.pid;
  meter.start_ticks_ = row.start_ticks;
  const std::string mounts = read_file(proc / "self" / "mountinfo").value_or("");
  const auto own = [&](std::string_view controller) {
    auto group = find_control_group(groups, mounts, controller);
    const bool its = group && group->folder.string().find(process.id) != std::string::npos;
    return its ? group : std::nullopt;
  };
  meter.cpu_ = own("cpuacct");
  meter.memory_ = own("memory");
  return meter;
}

Result<Usage> ContainerMeter::read() const {
  Result<Usage> usage = read_groups();
  return usage ? usage : read_tree();
}

Result<Usage> ContainerMeter::read_groups() const {
  if (!cpu_ || !memory_) return fail(ErrorKind::not_found, "it has no control group of its own");
  Usage usage;
  TRY_SET(usage.cpu_seconds, cpu_seconds_of(*cpu_));
  TRY_SET(usage.memory_bytes, memory_bytes_of(*memory_));
  return usage;
}

Result<Usage> ContainerMeter::read_tree() const {
  TRY_SET(const ProcessRow first, read_process(pid_));
  if (first.start_ticks != start_ticks_) return fail(ErrorKind::not_found, "it has ended");
  Usage usage{.cpu_seconds = first.cpu_seconds, .memory_bytes = first.memory_bytes};
  for (const ProcessRow& row : descendants(read_processes(), pid_)) {
    usage.cpu_seconds += row.cpu_seconds;
    usage.memory_bytes += row.memory_bytes;
  }
  return usage;
}

}  // namespace trainyard::runtime
