#include "supervisor/unkept_files.h"

#include <sys/stat.h>

#include <vector>

#include "base/text.h"

namespace trainyard::supervisor {
namespace {

constexpr size_t kNamesMax = 10'000;  // So many cost about 20 ms, at the start and at the end.
constexpr size_t kNamedMax = 10;

bool is_left_out(const std::string& name) { return name.starts_with('.') || name == "__pycache__"; }

// False when there are too many.
bool add_files(const fs::path& folder, const std::string& prefix, WorkingFiles& files) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (is_left_out(name) || (prefix.empty() && (name == "outputs" || name == "logs"))) continue;
    if (files.size() >= kNamesMax) return false;
    struct stat found{};
    if (lstat(entry->path().c_str(), &found) != 0) continue;
    if (S_ISDIR(found.st_mode)) {
      const std::string below = prefix + name + "/";
      files[below] = {};
      if (!add_files(entry->path(), below, files)) return false;
      continue;
    }
    if (!S_ISREG(found.st_mode)) continue;
    files[prefix + name] = {found.st_size,
                            found.st_mtim.tv_sec * 1'000'000'000 + found.st_mtim.tv_nsec};
  }
  return true;
}

}  // namespace

std::optional<WorkingFiles> working_files(const fs::path& work) {
  WorkingFiles files;
  if (!add_files(work, "", files)) return std::nullopt;
  return files;
}

std::string unkept_warning(const WorkingFiles& before, const WorkingFiles& after) {
  std::vector<std::string> named;
  size_t count = 0;
  std::string folder;  // A new one is named alone, without what is in it.
  for (const auto& [name, stamp] : after) {
    const auto known = before.find(name);
    if (known != before.end() && known->second == stamp) continue;
    if (!folder.empty() && name.starts_with(folder)) continue;
    if (name.ends_with('/')) folder = name;
    if (++count <= kNamedMax) named.push_back(to_utf8(name));
  }
  if (count == 0) return {};
  const std::string more =
      count > kNamedMax ? " and " + std::to_string(count - kNamedMax) + " more" : "";
  return "written outside outputs/ and not kept: " + join(named, ", ") + more +
         "; write to outputs/ what is to be kept";
}

}  // namespace trainyard::supervisor
