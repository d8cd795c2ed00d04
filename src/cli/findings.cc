#include "cli/findings.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/process.h"
#include "base/text.h"
#include "gpu/gpus.h"

namespace trainyard::cli {
namespace {

constexpr int kPatienceMs = 5000;  // For a program asked about itself.

int cpu_count() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return CPU_COUNT(&set);
}

// "MemTotal:       24689912 kB"
uint64_t memory_bytes() {
  for (const std::string& line : split(read_file("/proc/meminfo").value_or(""), '\n')) {
    if (!line.starts_with("MemTotal:")) continue;
    const size_t digit = line.find_first_of("0123456789");
    if (digit == std::string::npos) return 0;
    return std::strtoull(line.c_str() + digit, nullptr, 10) * 1024;
  }
  return 0;
}

fs::path nearest_existing(fs::path path) {
  std::error_code ignored;
  while (!fs::exists(path, ignored) && path.has_relative_path()) path = path.parent_path();
  return path;
}

// What a program says of itself, its first line.
std::string first_line_of(const std::string& program, const std::string& argument) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {};
  const Fd out(ends[0]);
  Fd in(ends[1]);
  const auto child =
      spawn({.command = {program, argument}, .stdout_fd = in.get(), .stderr_fd = in.get()});
  in.reset();
  if (!child) return {};
  std::string text;
  char buffer[512];
  for (;;) {
    pollfd wait{out.get(), POLLIN, 0};
    if (poll(&wait, 1, kPatienceMs) <= 0) break;
    const ssize_t got = ::read(out.get(), buffer, sizeof buffer);
    if (got <= 0) break;
    text.append(buffer, static_cast<size_t>(got));
  }
  pollfd end{child->pidfd.get(), POLLIN, 0};
  if (poll(&end, 1, 0) > 0) waitpid(child->pid, nullptr, 0);
  return std::string(trim(text.substr(0, text.find('\n'))));
}

// Tried in a child: the namespaces are its own and go with it.
bool may_make_pid_namespace(int& why) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  const Fd out(ends[0]);
  Fd in(ends[1]);
  const pid_t pid = fork();
  if (pid == 0) {
    int flags = CLONE_NEWPID;
    if (geteuid() != 0) flags |= CLONE_NEWUSER;
    const int number = unshare(flags) == 0 ? 0 : errno;
    static_cast<void>(::write(in.get(), &number, sizeof number) == 0);
    _exit(0);
  }
  in.reset();
  why = EAGAIN;
  if (pid < 0 || ::read(out.get(), &why, sizeof why) != sizeof why) return false;
  waitpid(pid, nullptr, 0);
  return why == 0;
}

}  // namespace

std::string_view to_string(Grade grade) {
  switch (grade) {
    case Grade::ok:
      return "ok";
    case Grade::warn:
      return "warn";
    case Grade::fail:
      return "fail";
  }
  return "fail";
}

Finding look_at_machine() {
  const int cpus = cpu_count();
  return {Grade::ok, "local",
          fmt::format("{} CPU{}, {}", cpus, cpus == 1 ? "" : "s", format_size(memory_bytes())), ""};
}

Finding look_at_gpus() {
  const gpu::Gpus gpus = gpu::Gpus::open();
  if (gpus.devices().empty()) {
    // The card is there and its driver does not answer: worth a word, unlike no card.
    std::error_code ignored;
    const bool card = fs::exists("/dev/nvidia0", ignored);
    return {card ? Grade::warn : Grade::ok, "gpu", "none: " + gpus.why_none(),
            card ? "Runs go without; see whether nvidia-smi works." : ""};
  }
  std::vector<std::string> names;
  for (const gpu::Device& device : gpus.devices()) {
    names.push_back(fmt::format("{} {} ({})", device.index, device.name,
                                format_size(static_cast<uint64_t>(device.memory_bytes))));
  }
  std::string text = join(names, ", ") + "; driver " + gpus.driver();
  for (const std::string& remark : gpus.remarks()) text += "; " + remark;
  return {Grade::ok, "gpu", text, ""};
}

Finding look_at_home(const Home& home) {
  const fs::path place = nearest_existing(home.root());
  struct statfs status{};
  if (statfs(place.c_str(), &status) != 0) {
    return {Grade::fail, "home", errno_error(errno, home.root().string()).message,
            "Choose another with TRAINYARD_HOME or --home."};
  }
  const std::string_view network =
      network_file_system(static_cast<uint64_t>(static_cast<uint32_t>(status.f_type)));
  if (!network.empty()) {
    return {Grade::fail, "home", fmt::format("{} is on {}", home.root().string(), network),
            "Put it on a local disk: set TRAINYARD_HOME, or give --home."};
  }
  if (access(place.c_str(), W_OK | X_OK) != 0) {
    return {Grade::fail, "home", place.string() + " cannot be written to",
            "Give yourself write permission there, or choose another with TRAINYARD_HOME."};
  }
  return {Grade::ok, "home", home.root().string() + (place == home.root() ? "" : " (not made yet)"),
          ""};
}

Finding judge_disk(uint64_t free_bytes, uint64_t free_inodes, const std::string& where) {
  constexpr uint64_t kInodesWarn = 10'000;
  Finding finding{Grade::ok, "disk", fmt::format("{} free at {}", format_size(free_bytes), where),
                  ""};
  if (free_bytes < kDiskWarn) finding.grade = Grade::warn;
  if (free_bytes < kDiskFail) finding.grade = Grade::fail;
  if (finding.grade != Grade::ok) finding.advice = "Free some space, or move the home.";
  if (free_inodes < kInodesWarn && finding.grade == Grade::ok) {
    finding.grade = Grade::warn;
    finding.words += fmt::format(", but room for {} files only", free_inodes);
    finding.advice = "Remove some files: the file system runs out of inodes.";
  }
  return finding;
}

Finding look_at_disk(const Home& home) {
  const fs::path place = nearest_existing(home.root());
  struct statvfs status{};
  if (statvfs(place.c_str(), &status) != 0) {
    return {Grade::fail, "disk", errno_error(errno, place.string()).message, ""};
  }
  // Some file systems (btrfs) have no fixed number of inodes and say 0.
  const uint64_t inodes = status.f_files == 0 ? UINT64_MAX : status.f_favail;
  return judge_disk(uint64_t{status.f_bavail} * status.f_frsize, inodes, place.string());
}

Finding look_at_namespaces() {
  int why = 0;
  if (may_make_pid_namespace(why)) {
    return {Grade::ok, "processes", "PID namespaces are allowed: nothing outlives its run", ""};
  }
  return {Grade::warn, "processes",
          fmt::format("no PID namespaces ({}): what a run leaves is found by a search of /proc",
                      strerrordesc_np(why)),
          "Allow them with: sysctl kernel.unprivileged_userns_clone=1 (in a container: its "
          "--privileged, or a seccomp profile that lets unshare through)."};
}

Finding look_at_fuse() {
  std::error_code ignored;
  if (!fs::exists("/dev/fuse", ignored)) {
    return {Grade::warn, "fuse", "no /dev/fuse: datasets could not be mounted, only downloaded",
            "Load it with: modprobe fuse (in a container: --device /dev/fuse)."};
  }
  if (access("/dev/fuse", R_OK | W_OK) != 0) {
    return {Grade::warn, "fuse", "/dev/fuse is not yours to open",
            "Let your user read and write /dev/fuse."};
  }
  return {Grade::ok, "fuse", "/dev/fuse", ""};
}

Finding look_at_program(std::string_view name, std::string_view program, std::string_view there,
                        std::string_view absent) {
  const std::string path = find_program(program);
  return {Grade::ok, std::string(name),
          path.empty() ? std::string(absent) : fmt::format("{}: {}", path, there), ""};
}

Finding look_at_python() {
  const std::string path = find_program("python3");
  if (path.empty()) {
    return {Grade::warn, "python", "no python3 in PATH",
            "Only runs that call it need it. On Debian: apt install python3"};
  }
  return {Grade::ok, "python", path + ": " + first_line_of(path, "--version"), ""};
}

Finding look_at_clock(WallTime now) {
  const std::string text = format_time(now);
  if (text < "2024") {
    return {Grade::warn, "clock", "the machine's clock says " + text,
            "Set it; times of runs would be wrong."};
  }
  return {Grade::ok, "clock", text, ""};
}

std::string find_program(std::string_view name) {
  const char* path = std::getenv("PATH");
  if (path == nullptr) return {};
  for (const std::string& folder : split(path, ':')) {
    const fs::path candidate = fs::path(folder.empty() ? "." : folder) / name;
    std::error_code ignored;
    if (fs::is_regular_file(candidate, ignored) && access(candidate.c_str(), X_OK) == 0) {
      return fs::absolute(candidate, ignored).string();
    }
  }
  return {};
}

}  // namespace trainyard::cli
