// Where a run configuration lies: docs/dialects/runconfig.md lists the places.
#include <algorithm>
#include <array>

#include "base/file.h"
#include "base/text.h"
#include "dialects/runconfig.h"

namespace trainyard::dialects {
namespace {

constexpr std::string_view kExtension = ".runconfig";
constexpr std::array<std::string_view, 2> kFolders = {".azureml", "aml_config"};
constexpr size_t kListedMax = 20;

std::string_view without_extension(std::string_view name) {
  if (name.ends_with(kExtension)) name.remove_suffix(kExtension.size());
  return name;
}

// "./aml_config/x" is shown as "aml_config/x".
fs::path in(const fs::path& folder, std::string_view below) {
  return (folder / below).lexically_normal();
}

void add(std::vector<fs::path>& found, const fs::path& path) {
  if (!is_file(path)) return;
  for (const fs::path& known : found) {
    std::error_code ignored;
    if (fs::equivalent(known, path, ignored)) return;
  }
  found.push_back(path);
}

std::vector<fs::path> candidates(const fs::path& folder, std::string_view name) {
  const std::string stem(without_extension(name));
  std::vector<fs::path> found;
  for (const std::string_view below : kFolders) {
    add(found, in(folder, std::string(below) + "/" + stem + std::string(kExtension)));
    add(found, in(folder, std::string(below) + "/" + stem));
  }
  add(found, in(folder, stem + std::string(kExtension)));
  return found;
}

// The names that would be found in the folder.
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  const auto look = [&](const fs::path& at, bool bare) {
    std::error_code error;
    for (fs::directory_iterator entry(at, error), end; !error && entry != end;
         entry.increment(error)) {
      const std::string name = entry->path().filename().string();
      const bool named = name.ends_with(kExtension) && name.size() > kExtension.size();
      if (!named && !(bare && name.find('.') == std::string::npos)) continue;
      if (is_file(entry->path())) names.emplace_back(without_extension(name));
    }
  };
  for (const std::string_view below : kFolders) look(folder / below, true);
  look(folder, false);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

std::unexpected<Error> none_found(const fs::path& folder, std::string_view name) {
  const std::string stem(without_extension(name));
  std::string message = "run configuration '" + std::string(name) + "' is not in " +
                        folder.lexically_normal().string();
  std::vector<std::string> names = names_in(folder);
  const std::string near = nearest(stem, names);
  if (!near.empty()) message += "; did you mean '" + near + "'?";
  if (names.empty()) {
    return fail(ErrorKind::not_found, std::move(message),
                "Looked for .azureml/" + stem + ".runconfig, aml_config/" + stem +
                    ".runconfig and " + stem + ".runconfig. trainyard folder attach writes one.");
  }
  if (names.size() > kListedMax) names.resize(kListedMax);
  return fail(ErrorKind::not_found, std::move(message), "There are: " + join(names, ", ") + ".");
}

}  // namespace

Result<fs::path> find_runconfig(const fs::path& folder, std::string_view name) {
  if (name.empty() || name.find('\0') != name.npos) {
    return fail(ErrorKind::invalid, "a run configuration has a name");
  }
  const bool is_path = name.find('/') != name.npos;
  if (is_path) {
    // As it is typed, from where it is typed; else from the folder.
    for (const fs::path& path : {fs::path(name), in(folder, name)}) {
      if (is_file(path)) return path.lexically_normal();
    }
    return none_found(folder, name);
  }
  const std::vector<fs::path> found = candidates(folder, name);
  if (found.size() > 1) {
    return fail(ErrorKind::conflict,
                "run configuration '" + std::string(name) +
                    "' is there twice: " + found[0].string() + " and " + found[1].string(),
                "Remove one of them, or give -c the path of the one you mean.");
  }
  if (!found.empty()) return found.front();
  if (fs::path direct = in(folder, name); is_file(direct)) return direct;
  return none_found(folder, name);
}

}  // namespace trainyard::dialects
