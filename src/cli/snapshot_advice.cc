#include "cli/snapshot_advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/text.h"

namespace trainyard::cli {
namespace {

constexpr uint64_t kBytesMax = 100 << 20;  // 100 MB as format_size() has it.
constexpr size_t kCodeFilesMax = 5'000;
constexpr size_t kLargestShown = 3;

// Seldom meant to be code: what machines make themselves, and secrets.
constexpr std::string_view kSeldomCode[] = {".venv", "node_modules", "__pycache__", ".env"};

struct Share {
  size_t files = 0;
  uint64_t bytes = 0;
};
using Shares = std::map<std::string, Share>;

void add_to(Shares& parts, std::string_view path, const snapshot::Entry& entry) {
  Share& part = parts[std::string(path)];
  ++part.files;
  part.bytes += entry.size;
}

std::string counted(size_t files, uint64_t bytes) {
  return fmt::format("{} file{}, {}", files, files == 1 ? "" : "s", format_size(bytes));
}

// "data/ (6000 files, 250 MB)", the largest first; a folder ends with '/'.
std::string largest_of(const Shares& parts, size_t count_max) {
  std::vector<std::pair<std::string, Share>> sorted(parts.begin(), parts.end());
  std::ranges::stable_sort(sorted, std::greater(),
                           [](const auto& part) { return part.second.bytes; });
  std::vector<std::string> shown;
  for (const auto& [path, part] : sorted) {
    if (shown.size() == count_max) {
      shown.emplace_back("…");
      break;
    }
    shown.push_back(path + " (" + counted(part.files, part.bytes) + ")");
  }
  return join(shown, ", ");
}

// Up to and with the first name that is seldom code; empty: it has none.
std::string_view seldom_code(std::string_view path, std::string_view& name) {
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    name = path.substr(begin, end - begin);
    if (std::ranges::find(kSeldomCode, name) != std::end(kSeldomCode)) {
      return path.substr(0, std::min(end + 1, path.size()));
    }
    begin = end + 1;
  }
  return {};
}

}  // namespace

std::vector<std::string> snapshot_advice(const snapshot::Captured& captured) {
  const std::string file = captured.ignore_file.empty() ? ".amlignore" : captured.ignore_file;
  Shares top;
  Shares seldom;
  std::map<std::string, std::string> lines;  // Of the ignore file, by name.
  for (const snapshot::Entry& entry : captured.tree.entries) {
    const std::string_view path = entry.path;
    const size_t slash = path.find('/');
    add_to(top, path.substr(0, slash == path.npos ? path.npos : slash + 1), entry);
    std::string_view name;
    const std::string_view found = seldom_code(path, name);
    if (found.empty()) continue;
    add_to(seldom, found, entry);
    lines[std::string(name)] = std::string(name) + (found.ends_with('/') ? "/" : "");
  }
  std::vector<std::string> advice;
  const uint64_t bytes = captured.tree.bytes();
  if (bytes > kBytesMax || captured.tree.files() > kCodeFilesMax) {
    advice.push_back("the code is " + counted(captured.tree.files(), bytes) + ": " +
                     largest_of(top, kLargestShown) + ". Name what the run does not need in " +
                     file);
  }
  if (!seldom.empty()) {
    std::vector<std::string> wanted;
    for (const auto& [name, line] : lines) wanted.push_back(line);
    advice.push_back("the code has " + largest_of(seldom, kLargestShown) + ". To leave " +
                     (wanted.size() == 1 ? "it" : "them") + " out, add to " + file + ": " +
                     join(wanted, " "));
  }
  return advice;
}

}  // namespace trainyard::cli
