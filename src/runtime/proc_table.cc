#include "runtime/proc_table.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <unordered_map>

#include "base/file.h"

namespace trainyard::runtime {
namespace {

constexpr size_t kStatSizeMax = 1024;  // One line; the kernel's is under 400 bytes.

// 0 when the text is not a number.
pid_t to_pid(std::string_view text) {
  pid_t pid = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), pid);
  return error == std::errc() && end == text.data() + text.size() ? pid : 0;
}

template <class F>
void for_each_pid(F&& f) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc"), closedir);
  if (folder == nullptr) return;
  while (const dirent* entry = readdir(folder.get())) {
    if (const pid_t pid = to_pid(entry->d_name); pid > 0) f(pid);
  }
}

}  // namespace

Result<ProcessRow> parse_stat(std::string_view line) {
  const auto bad = [&] { return fail(ErrorKind::invalid, "not a line of /proc/PID/stat"); };
  const size_t open = line.find(" (");
  const size_t close = line.rfind(") ");
  if (open == std::string_view::npos || close == std::string_view::npos) return bad();
  ProcessRow row;
  row.pid = to_pid(line.substr(0, open));
  // proc(5) counts from 1: the state, first after the name, is field 3.
  constexpr int kState = 3, kParent = 4, kGroup = 5, kCpuFirst = 14, kCpuLast = 17, kStart = 22;
  constexpr int kResident = 24;
  static const double ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  static const int64_t page = sysconf(_SC_PAGESIZE);
  std::string_view rest = line.substr(close + 2);
  for (int field = kState; field <= kResident; ++field) {
    const size_t end = std::min(rest.find_first_of(" \n"), rest.size());
    const std::string_view word = rest.substr(0, end);
    if (word.empty()) return bad();
    int64_t value = 0;
    std::from_chars(word.data(), word.data() + word.size(), value);
    if (field == kState) row.state = word.front();
    if (field == kParent) row.parent = static_cast<pid_t>(value);
    if (field == kGroup) row.group = static_cast<pid_t>(value);
    if (field >= kCpuFirst && field <= kCpuLast) {
      row.cpu_seconds += static_cast<double>(value) / ticks;
    }
    if (field == kStart) row.start_ticks = static_cast<uint64_t>(value);
    if (field == kResident) row.memory_bytes = value * page;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return row;
}

Result<ProcessRow> read_process(pid_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  TRY_SET(const Fd fd, open_file(path, O_RDONLY));
  char line[kStatSizeMax];
  const ssize_t got = read(fd.get(), line, sizeof line);
  // ESRCH: it ended after we opened the file.
  if (got <= 0) return fail(ErrorKind::not_found, "process " + std::to_string(pid) + " has ended");
  return parse_stat(std::string_view(line, static_cast<size_t>(got)));
}

std::vector<ProcessRow> read_processes() {
  std::vector<ProcessRow> rows;
  for_each_pid([&](pid_t pid) {
    if (Result<ProcessRow> row = read_process(pid)) rows.push_back(*row);
  });
  return rows;
}

std::vector<ProcessRow> descendants(const std::vector<ProcessRow>& rows, pid_t ancestor) {
  std::unordered_multimap<pid_t, const ProcessRow*> children;
  for (const ProcessRow& row : rows) children.emplace(row.parent, &row);
  std::vector<ProcessRow> found;
  std::vector<pid_t> todo{ancestor};
  while (!todo.empty()) {
    const pid_t parent = todo.back();
    todo.pop_back();
    const auto [first, last] = children.equal_range(parent);
    for (auto child = first; child != last; ++child) {
      found.push_back(*child->second);
      todo.push_back(child->second->pid);
    }
    // Rows are not read at one moment: a pid used again could close a circle.
    children.erase(first, last);
  }
  return found;
}

void signal_followers(pid_t leader, int number) {
  for (const ProcessRow& row : read_processes()) {
    if (row.group == leader && row.pid != leader) kill(row.pid, number);
  }
}

std::vector<pid_t> processes_with_variable(std::string_view name, std::string_view value) {
  const std::string wanted = std::string(name) + "=" + std::string(value);
  std::vector<pid_t> found;
  for_each_pid([&](pid_t pid) {
    const std::string path = "/proc/" + std::to_string(pid) + "/environ";
    const Result<std::string> text = read_file(path);
    if (!text) return;  // It ended, or it is another user's.
    for (size_t start = 0; start < text->size();) {
      const size_t end = std::min(text->find('\0', start), text->size());
      if (std::string_view(*text).substr(start, end - start) == wanted) {
        found.push_back(pid);
        return;
      }
      start = end + 1;
    }
  });
  return found;
}

}  // namespace trainyard::runtime
