// The files that `environment scaffold` and `environment download` write.
#include "dialects/environment_file.h"
#include "wire/json.h"

namespace trainyard::dialects {
namespace {

using wire::Json;

// A plain scalar of YAML, in quotes.
std::string quoted(const std::string& text) { return wire::dump(Json(text)); }

// Without the place it was read from, which is in no file that others have.
std::string plain(const std::string& line) { return line.substr(0, line.find("  # ")); }

std::string conda_text(const Recipe& recipe, std::string_view name) {
  std::string text = "name: " + quoted(std::string(name)) + "\n";
  if (!recipe.channels.empty()) {
    text += "channels:\n";
    for (const std::string& channel : recipe.channels) text += "- " + quoted(channel) + "\n";
  }
  text += "dependencies:\n";
  if (!recipe.python.empty()) text += "- " + quoted("python=" + recipe.python) + "\n";
  for (const std::string& package : recipe.conda) text += "- " + quoted(plain(package)) + "\n";
  if (recipe.requirements.empty() && recipe.options.empty()) return text;
  text += "- pip:\n";
  for (const std::string& line : recipe.options) text += "  - " + quoted(plain(line)) + "\n";
  for (const std::string& line : recipe.requirements) text += "  - " + quoted(plain(line)) + "\n";
  return text;
}

std::string requirements_text(const Recipe& recipe) {
  std::string text;
  for (const std::string& line : recipe.options) text += plain(line) + "\n";
  for (const std::string& line : recipe.requirements) text += plain(line) + "\n";
  return text;
}

Json python_json(const Environment& environment, bool conda, bool requirements) {
  const Recipe& recipe = environment.recipe;
  const bool packages = conda || requirements;
  const bool own = recipe.kind == EnvironmentKind::system ||
                   (recipe.kind == EnvironmentKind::container && !packages);
  Json json = {
      {"userManagedDependencies", own},
      {"interpreterPath", environment.interpreter.empty() ? "python" : environment.interpreter},
      {"condaDependenciesFile", conda ? Json(kCondaYml) : Json()},
      {"baseCondaEnvironment", Json()}};
  if (requirements) json["requirementsFile"] = kRequirementsTxt;
  return json;
}

// Its text is in the recipe; else it is a file of the folder that it is built from.
bool has_own_dockerfile(const Recipe& recipe) {
  return !recipe.dockerfile.empty() &&
         (recipe.context.empty() || recipe.dockerfile.find('\n') != std::string::npos ||
          recipe.dockerfile.starts_with("FROM "));
}

Json docker_json(const Environment& environment) {
  const Recipe& recipe = environment.recipe;
  Json json = {{"enabled", recipe.kind == EnvironmentKind::container},
               {"baseImage", recipe.image.empty() ? Json() : Json(recipe.image)},
               {"baseDockerfile", Json()},
               {"sharedVolumes", true},
               {"shmSize", environment.shm_size.empty() ? Json() : Json(environment.shm_size)},
               {"arguments", environment.arguments},
               {"baseImageRegistry", Json()}};
  if (has_own_dockerfile(recipe)) json["baseDockerfile"] = kDockerfile;
  if (!recipe.context.empty()) {
    json["buildContext"] = {{"locationType", "localPath"}, {"location", kContextFolder}};
    if (!has_own_dockerfile(recipe)) json["buildContext"]["dockerfilePath"] = recipe.dockerfile;
  }
  const ImageRegistry& registry = environment.registry;
  if (!registry.address.empty()) {
    json["baseImageRegistry"] = {
        {"address", registry.address}, {"username", registry.username}, {"password", Json()}};
    if (!registry.secret.empty()) json["baseImageRegistry"]["secret"] = registry.secret;
  }
  return json;
}

}  // namespace

std::vector<TextFile> scaffold_files(std::string_view name) {
  Environment environment;
  environment.name = name;
  environment.recipe.kind = EnvironmentKind::conda;
  environment.variables = {{"EXAMPLE_ENV_VAR", "EXAMPLE_VALUE"}};
  environment.recipe.python = "3.11";
  environment.recipe.requirements = {"numpy"};
  return environment_files(environment);
}

std::vector<TextFile> environment_files(const Environment& environment) {
  const Recipe& recipe = environment.recipe;
  const bool lines = !recipe.requirements.empty() || !recipe.options.empty();
  // A version of Python is conda's to say; a path of one has no place in either file.
  const bool conda = !recipe.conda.empty() || !recipe.channels.empty() ||
                     (!recipe.python.empty() && recipe.python.front() != '/') ||
                     recipe.kind == EnvironmentKind::conda;
  const bool requirements = !conda && (lines || recipe.kind == EnvironmentKind::venv);
  Json variables = Json::object();
  for (const auto& [name, value] : environment.variables) variables[name] = value;
  const Json json = {{"name", environment.name},
                     {"version", environment.version.empty() ? Json() : Json(environment.version)},
                     {"environmentVariables", std::move(variables)},
                     {"python", python_json(environment, conda, requirements)},
                     {"docker", docker_json(environment)},
                     {"inferencingStackVersion", Json()}};
  std::vector<TextFile> files = {{std::string(kEnvironmentJson), wire::dump_pretty(json) + "\n"}};
  if (conda) files.push_back({std::string(kCondaYml), conda_text(recipe, environment.name)});
  if (requirements) files.push_back({std::string(kRequirementsTxt), requirements_text(recipe)});
  if (has_own_dockerfile(recipe)) {
    files.push_back({std::string(kDockerfile), recipe.dockerfile});
  }
  return files;
}

}  // namespace trainyard::dialects
