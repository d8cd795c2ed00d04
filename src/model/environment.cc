#include "model/environment.h"

#include <algorithm>

#include "base/hash.h"
#include "base/text.h"

namespace trainyard {
namespace {

constexpr std::pair<EnvironmentKind, std::string_view> kEnvironmentKinds[] = {
    {EnvironmentKind::system, "system"},
    {EnvironmentKind::venv, "venv"},
    {EnvironmentKind::conda, "conda"},
    {EnvironmentKind::container, "container"},
};

// Without the comment at its end and blanks around it; a '#' in a URL's fragment has none before
// it.
std::string_view content(std::string_view line) {
  for (size_t at = line.find('#'); at != std::string_view::npos; at = line.find('#', at + 1)) {
    if (at > 0 && line[at - 1] != ' ' && line[at - 1] != '\t') continue;
    line = line.substr(0, at);
    break;
  }
  return trim(line);
}

std::vector<std::string> contents(const std::vector<std::string>& lines) {
  std::vector<std::string> found;
  for (const std::string& line : lines) {
    const std::string_view text = content(line);
    if (!text.empty()) found.emplace_back(text);
  }
  return found;
}

std::vector<std::string> as_set(const std::vector<std::string>& lines) {
  std::vector<std::string> found = contents(lines);
  std::ranges::sort(found);
  found.erase(std::ranges::unique(found).begin(), found.end());
  return found;
}

// Lengths before bytes: no two recipes give the same text.
void add(std::string& text, std::string_view value) {
  text += std::to_string(value.size()) + ":";
  text += value;
}

void add(std::string& text, const std::vector<std::string>& values) {
  text += std::to_string(values.size()) + "[";
  for (const std::string& value : values) add(text, value);
}

}  // namespace

std::string_view to_string(EnvironmentKind kind) {
  for (const auto& [known, name] : kEnvironmentKinds) {
    if (known == kind) return name;
  }
  return "system";
}

Result<EnvironmentKind> environment_kind_from(std::string_view name) {
  for (const auto& [kind, known] : kEnvironmentKinds) {
    if (known == name) return kind;
  }
  return fail(ErrorKind::invalid, "'" + std::string(name) + "' is no kind of environment",
              "Kinds are system, venv, conda and container.");
}

std::string recipe_hash(const Recipe& recipe) {
  if (recipe.kind == EnvironmentKind::system) return {};
  std::string text = "trainyard environment 1\n";
  add(text, to_string(recipe.kind));
  add(text, recipe.platform);
  add(text, recipe.python);
  add(text, as_set(recipe.requirements));
  add(text, contents(recipe.options));
  add(text, contents(recipe.channels));
  add(text, as_set(recipe.conda));
  add(text, recipe.image);
  add(text, recipe.dockerfile);
  add(text, recipe.context);
  for (const auto& [name, value] : recipe.build_arguments) {
    add(text, name);
    add(text, value);
  }
  // Where there is none the hash is what it was before there were any.
  if (!recipe.image_digest.empty()) text += "image " + recipe.image_digest;
  if (!recipe.credential.empty()) text += "credential " + recipe.credential;
  if (!recipe.rebuild.empty()) text += "rebuild " + recipe.rebuild;
  return sha256(text).hex();
}

}  // namespace trainyard
