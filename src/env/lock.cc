#include "env/lock.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/text.h"
#include "env/install.h"
#include "model/requirement.h"
#include "wire/json.h"

namespace trainyard::env {
namespace {

constexpr uintmax_t kTextMax = 16 << 20;  // Of a file that says what a package is.

// "Name: numpy" among the headers at the beginning.
std::string header(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    if (trim(line).empty()) break;
    if (line.starts_with(name) && line.substr(name.size()).starts_with(':')) {
      return std::string(trim(line.substr(name.size() + 1)));
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return {};
}

std::string text_of(const wire::Json& json, const char* key) {
  return wire::string_member(json, key).value_or("");
}

// Of a file that a build has left, which may be anything.
std::string text_inside(const fs::path& root, const fs::path& file) {
  std::error_code none;
  if (!is_plain_file_inside(root, file) || fs::file_size(file, none) > kTextMax) return {};
  return read_file(file).value_or("");
}

// Of direct_url.json (PEP 610): where it came from; empty for an index.
std::string url_of(const fs::path& root, const fs::path& info) {
  const std::string text = text_inside(root, info / "direct_url.json");
  if (text.empty()) return {};
  const auto json = wire::parse(text);
  if (!json || !json->is_object()) return {};
  std::string url = text_of(*json, "url");
  if (const auto vcs = json->find("vcs_info"); vcs != json->end() && vcs->is_object()) {
    url = text_of(*vcs, "vcs") + "+" + url + "@" + text_of(*vcs, "commit_id");
  }
  const std::string folder = text_of(*json, "subdirectory");
  return folder.empty() ? url : url + "#subdirectory=" + folder;
}

}  // namespace

Result<std::vector<std::string>> read_lock(const fs::path& root, std::string_view but_by) {
  std::vector<std::string> lines;
  std::error_code error;
  for (fs::directory_iterator version(root / "lib", error), end; !error && version != end;
       version.increment(error)) {
    if (!version->path().filename().string().starts_with("python")) continue;
    if (!is_folder_inside(root, version->path() / "site-packages")) continue;
    std::error_code none;
    for (fs::directory_iterator info(version->path() / "site-packages", none), last;
         !none && info != last; info.increment(none)) {
      if (info->path().extension() != ".dist-info") continue;
      const std::string text = text_inside(root, info->path() / "METADATA");
      const std::string name = package_name(header(text, "Name"));
      if (name.empty()) continue;
      const std::string installer = text_inside(root, info->path() / "INSTALLER");
      if (!but_by.empty() && trim(installer) == but_by) continue;
      const std::string url = url_of(root, info->path());
      lines.push_back(url.empty() ? name + "==" + header(text, "Version") : name + " @ " + url);
    }
  }
  if (error) return fail_errno(error.value(), "list " + (root / "lib").string());
  std::ranges::sort(lines);
  return lines;
}

std::vector<std::string> with_hashes(std::vector<std::string> lines,
                                     const std::map<std::string, std::string>& hashes) {
  for (std::string& line : lines) {
    const auto found = hashes.find(parse_requirement(line).name);
    // A commit stands for itself.
    const bool repository = line.find(" @ git+") != std::string::npos;
    if (found != hashes.end() && !repository) line += found->second;
  }
  return lines;
}

std::vector<std::string> lines_to_install(const Environment& environment) {
  std::vector<std::string> lines;
  std::set<std::string> seen;
  std::map<std::string, std::string> hashes;
  for (const std::string& line : environment.recipe.requirements) {
    const Requirement requirement = parse_requirement(line);
    if (requirement.text.empty() || !seen.insert(requirement.text).second) continue;
    lines.push_back(requirement.text);
    if (!requirement.name.empty()) hashes[requirement.name] = hashes_of(requirement.text);
  }
  if (environment.lock.empty()) return lines;
  lines.clear();
  for (const std::string& line : environment.lock) {
    const Requirement requirement = parse_requirement(line);
    if (requirement.text.empty()) continue;
    const bool has = requirement.text.find("--hash") != std::string::npos;
    lines.push_back(requirement.text + (has ? "" : hashes[requirement.name]));
  }
  return lines;
}

}  // namespace trainyard::env
