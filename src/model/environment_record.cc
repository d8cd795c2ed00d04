#include "model/environment_record.h"

#include <algorithm>

#include "base/hash.h"
#include "base/id.h"
#include "base/text.h"

namespace trainyard {
namespace {

constexpr std::string_view kTheirs[] = {"microsoft", "azureml"};

template <class T>
void append(std::vector<T>& to, const std::vector<T>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

void put(std::string& text, std::string_view value) {
  text += std::to_string(value.size()) + ":";
  text += value;
}

// What conda installs makes a conda environment of a virtual one; an image stays an image.
EnvironmentKind kind_of(const Recipe& base, const Recipe& above) {
  using enum EnvironmentKind;
  const bool image = !above.image.empty() || !above.dockerfile.empty();
  if (base.kind == container || above.kind == container || image) return container;
  if (base.kind == conda || above.kind == conda || !above.conda.empty()) return conda;
  const bool packages = !above.requirements.empty() || !above.options.empty();
  return above.kind == venv || packages ? venv : base.kind;
}

// ".../environments/NAME/versions/3"
std::string after(std::string_view text, std::string_view word) {
  const size_t at = text.find(word);
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + word.size());
  return std::string(text.substr(0, text.find('/')));
}

}  // namespace

Result<EnvironmentName> parse_environment_name(std::string_view text) {
  EnvironmentName found;
  const std::string_view all = text;
  if (text.starts_with("azureml:")) text.remove_prefix(8);
  if (text.find("/environments/") != std::string_view::npos) {
    found.name = after(text, "/environments/");
    found.version = after(text, "/versions/");
    if (found.version.empty()) found.version = after(text, "/labels/");
  } else {
    const size_t at = text.find_first_of(":@");
    found.name = text.substr(0, at);
    if (at != std::string_view::npos) found.version = text.substr(at + 1);
    const bool label = at != std::string_view::npos && text[at] == '@';
    const bool cut = at != std::string_view::npos && found.version.empty();
    if (cut || (label && found.version != kLatest)) {
      return fail(ErrorKind::invalid,
                  "environment '" + std::string(all) +
                      "': " + (cut ? "which version?" : "the one label is @latest"),
                  "As in: NAME, NAME:3, NAME@latest.");
    }
  }
  if (found.version == kLatest) found.version.clear();
  TRY(check_name(found.name, "environment"));
  if (!found.version.empty()) TRY(check_name(found.version, "version"));
  return found;
}

Status check_environment_name(std::string_view name) {
  TRY(check_name(name, "environment"));
  const std::string low = lower(name);
  for (const std::string_view theirs : kTheirs) {
    if (!low.starts_with(theirs)) continue;
    return fail(ErrorKind::invalid,
                "environment '" + std::string(name) +
                    "': names beginning with Microsoft or AzureML are kept for curated ones",
                "Give it another name; an admin says what those are with: trainyard environment "
                "curated set");
  }
  return {};
}

std::string fingerprint(const Environment& environment) {
  Recipe recipe = environment.recipe;
  recipe.platform.clear();
  recipe.image_digest.clear();  // A version is what was written: the file's name.
  recipe.credential.clear();    // The registry follows below.
  recipe.rebuild.clear();
  std::string text = "trainyard registered environment 1\n";
  put(text, recipe_hash(recipe));
  put(text, environment.interpreter);
  for (const auto& [name, value] : environment.variables) {
    put(text, name);
    put(text, value);
  }
  text += "arguments";
  for (const std::string& word : environment.arguments) put(text, word);
  put(text, environment.shm_size);
  put(text, environment.registry.address);
  put(text, environment.registry.username);
  put(text, environment.registry.secret);
  return sha256(text).hex();
}

Environment layered(Environment base, const Environment& above) {
  Recipe& recipe = base.recipe;
  const Recipe& more = above.recipe;
  recipe.kind = kind_of(recipe, more);
  append(recipe.requirements, more.requirements);
  append(recipe.options, more.options);
  for (const std::string& channel : more.channels) {
    if (std::ranges::find(recipe.channels, channel) == recipe.channels.end()) {
      recipe.channels.push_back(channel);
    }
  }
  append(recipe.conda, more.conda);
  if (!more.python.empty()) recipe.python = more.python;
  if (!more.image.empty() || !more.dockerfile.empty()) {
    recipe.image = more.image;
    recipe.dockerfile = more.dockerfile;
    recipe.context = more.context;
    recipe.build_arguments = more.build_arguments;
    base.registry = above.registry;
  }
  for (const auto& [name, value] : above.variables) base.variables[name] = value;
  append(base.arguments, above.arguments);
  append(base.left_out, above.left_out);
  if (!above.shm_size.empty()) base.shm_size = above.shm_size;
  if (!above.lock.empty()) base.lock = above.lock;
  return base;
}

std::string label(const Environment& environment) {
  if (environment.name.empty()) return std::string(to_string(environment.recipe.kind));
  return environment.name + (environment.version.empty() ? "" : ":" + environment.version);
}

}  // namespace trainyard
