#include "runtime/memory_group.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "base/text.h"
#include "runtime/proc_table.h"

namespace trainyard::runtime {
namespace {

// An existing file of the kernel's: it is neither made nor replaced.
Status write_value(const fs::path& path, const std::string& value) {
  TRY_SET(const Fd fd, open_file(path, O_WRONLY));
  return write_all(fd.get(), value, path.string());
}

// Where a group with a limit may be made.
Result<fs::path> parent_of(const ControlGroup& own) {
  if (!own.unified) return own.folder;
  // Only the root may have processes and groups with controllers both.
  std::error_code none;
  const bool root = !fs::exists(own.folder / "cgroup.type", none);
  const fs::path parent = root ? own.folder : own.folder.parent_path();
  TRY_SET(const std::string given, read_file(parent / "cgroup.subtree_control"));
  const std::vector<std::string> controllers = split(trim(given), ' ');
  if (std::ranges::find(controllers, "memory") == controllers.end()) {
    return fail(ErrorKind::unavailable, parent.string() + " hands on no memory controller");
  }
  return parent;
}

// The value of a line "NAME:   123 kB", in bytes.
std::optional<int64_t> bytes_of(const std::string& text, std::string_view name) {
  for (const std::string& line : split(text, '\n')) {
    if (!line.starts_with(name)) continue;
    const std::string_view value = trim(std::string_view(line).substr(name.size()));
    const auto kilobytes = parse_int(value.substr(0, value.find(' ')), name);
    if (kilobytes) return *kilobytes * 1024;
  }
  return std::nullopt;
}

// Its own pages, and its part (PSS) of those it shares. Files that it has mapped are not its need.
int64_t own_bytes(pid_t pid, int64_t otherwise) {
  const fs::path folder = "/proc/" + std::to_string(pid);
  const std::string text = read_file(folder / "smaps_rollup").value_or("");
  const auto anonymous = bytes_of(text, "Pss_Anon:");
  if (anonymous) return *anonymous + bytes_of(text, "Pss_Shmem:").value_or(0);
  // Kernels before 5.9 do not tell them apart.
  const auto all = bytes_of(text, "Pss:");
  if (!all) return otherwise;
  const auto files = bytes_of(read_file(folder / "status").value_or(""), "RssFile:");
  return std::max<int64_t>(0, *all - files.value_or(0));
}

}  // namespace

Result<MemoryGroup> MemoryGroup::adopt(const std::string& name, const fs::path& proc) {
  TRY_SET(const std::string groups, read_file(proc / "self" / "cgroup"));
  TRY_SET(const std::string mounts, read_file(proc / "self" / "mountinfo"));
  const auto own = find_control_group(groups, mounts, "memory");
  if (!own) return fail(ErrorKind::unavailable, "there is no control group for memory");
  TRY_SET(const fs::path parent, parent_of(*own));
  return MemoryGroup(ControlGroup{parent / name, own->unified});
}

Result<MemoryGroup> MemoryGroup::make(const std::string& name, int64_t limit_bytes,
                                      const std::vector<pid_t>& processes, const fs::path& proc) {
  TRY_SET(MemoryGroup made, adopt(name, proc));
  const auto& [folder, unified] = made.group_;
  if (::mkdir(folder.c_str(), 0755) != 0) return fail_errno(errno, "make " + folder.string());
  const std::string limit = std::to_string(limit_bytes);
  TRY(write_value(folder / (unified ? "memory.max" : "memory.limit_in_bytes"), limit));
  // Where swap is not counted there is no such file.
  const char* const swap = unified ? "memory.swap.max" : "memory.memsw.limit_in_bytes";
  static_cast<void>(write_value(folder / swap, unified ? "0" : limit).has_value());
  for (const pid_t pid : processes) {
    TRY(write_value(folder / "cgroup.procs", std::to_string(pid)));
  }
  return made;
}

MemoryGroup::~MemoryGroup() {
  if (!group_.folder.empty()) ::rmdir(group_.folder.c_str());
}

bool MemoryGroup::ran_out() const {
  const auto text =
      read_file(group_.folder / (group_.unified ? "memory.events" : "memory.oom_control"));
  if (!text) return false;
  for (const std::string& line : split(*text, '\n')) {
    if (line.starts_with("oom_kill ")) return line != "oom_kill 0";
  }
  return false;
}

int64_t memory_below(pid_t ancestor, int64_t exact_above) {
  const std::vector<ProcessRow> rows = descendants(read_processes(), ancestor);
  int64_t sum = 0;
  for (const ProcessRow& row : rows) sum += row.memory_bytes;
  if (sum <= exact_above) return sum;
  sum = 0;
  for (const ProcessRow& row : rows) sum += own_bytes(row.pid, row.memory_bytes);
  return sum;
}

}  // namespace trainyard::runtime
