#include "model/environment_identity.h"

#include <algorithm>

#include "base/hash.h"
#include "base/text.h"
#include "model/requirement.h"

namespace trainyard {

std::string environment_hash(const Environment& environment) {
  const std::string hash = recipe_hash(environment.recipe);
  if (hash.empty() || environment.lock.empty()) return hash;
  std::string text = "trainyard locked environment 1\n";
  text += hash + "\n";
  std::vector<std::string> lines = environment.lock;
  std::ranges::sort(lines);
  for (const std::string& line : lines) text += std::to_string(line.size()) + " " + line + "\n";
  return sha256(text).hex();
}

std::vector<std::string> local_paths(const Recipe& recipe) {
  std::vector<std::string> found;
  const auto add_path = [&](std::string_view text) {
    std::string path = local_path_of(text);
    if (!path.empty()) found.push_back(std::move(path));
  };
  for (const std::string& line : recipe.requirements) add_path(line);
  for (const std::string& line : recipe.options) {
    const auto option = parse_pip_option(line);
    if (!option) continue;
    const bool place = option->name == "--index-url" || option->name == "--extra-index-url" ||
                       option->name == "--find-links";
    if (place && option->value.find(':') == std::string::npos) {
      found.push_back(option->value);
    } else if (place || option->name == "--constraint") {
      add_path(option->value);
    }
  }
  // A channel or package of conda is a name unless it has a slash in front, or a scheme.
  std::vector<std::string> conda = recipe.channels;
  conda.insert(conda.end(), recipe.conda.begin(), recipe.conda.end());
  for (const std::string& line : conda) {
    const std::string text = parse_requirement(line).text;
    const bool path = text.starts_with('/') || text.starts_with('.') || text.starts_with('~');
    const size_t scheme = text.find("file:");
    if (path) {
      found.push_back(text);
    } else if (scheme != std::string::npos) {
      found.push_back(local_path_of(text.substr(scheme)));
    }
  }
  return found;
}

}  // namespace trainyard
