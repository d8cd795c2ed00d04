#include "env/conda_packages.h"

#include <algorithm>

#include "base/text.h"
#include "env/conda_names.h"
#include "model/requirement.h"

namespace trainyard::env {
namespace {

// "=1.19", "==1.19.2", "=1.19.2=py38_0", " 1.19.*", ">=1.19,<2", "[version='>=1.8']".
void read_version(std::string_view rest, CondaPackage& package) {
  rest = trim(rest);
  if (rest.starts_with('[')) {
    const size_t at = rest.find("version=");
    if (at == std::string_view::npos) return;
    rest = rest.substr(at + 8);
    rest = rest.substr(0, rest.find_first_of("],"));
    while (!rest.empty() && (rest.front() == '\'' || rest.front() == '"')) rest.remove_prefix(1);
    while (!rest.empty() && (rest.back() == '\'' || rest.back() == '"')) rest.remove_suffix(1);
  }
  package.exact = rest.starts_with("==");
  while (rest.starts_with('=')) rest.remove_prefix(1);
  rest = trim(rest);
  const bool compares =
      !rest.empty() && std::string_view("<>!~").find(rest.front()) != std::string_view::npos;
  // The build's name follows the version: "1.19.2=py38_0", "1.19.2 py38_0".
  const size_t build = compares ? std::string_view::npos : rest.find_first_of("= ");
  package.exact = package.exact || build != std::string_view::npos;
  for (const char c : rest.substr(0, build)) {
    if (c != ' ') package.version += c;
  }
}

// As pip writes it; empty where it cannot be said ("1.18|1.19").
std::string index_version(const CondaPackage& package) {
  const std::string& version = package.version;
  if (version.empty() || version == "*") return "";
  if (std::string_view("<>!~").find(version.front()) != std::string_view::npos) return version;
  const bool plain = version.find_first_not_of("0123456789.") == std::string::npos;
  return package.exact || !plain ? "==" + version : "==" + version + ".*";
}

// A conda export names every patch of Python; those differ in nothing that packages see.
std::string minor_version(const std::string& python) {
  const std::vector<std::string> parts = split(python, '.');
  const bool plain = python.find_first_not_of("0123456789.") == std::string::npos;
  return plain && parts.size() > 2 ? parts[0] + "." + parts[1] : python;
}

}  // namespace

CondaPackage parse_conda_package(std::string_view line) {
  const Requirement requirement = parse_requirement(line);
  std::string_view text = requirement.text;
  CondaPackage package;
  package.place = requirement.place;
  if (const size_t channel = text.find("::"); channel != std::string_view::npos) {
    package.channel = text.substr(0, channel);
    text.remove_prefix(channel + 2);
  }
  const size_t end = std::min(text.find_first_of(" \t=<>!~["), text.size());
  for (const char c : text.substr(0, end)) {
    package.name += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  }
  read_version(text.substr(end), package);
  return package;
}

Result<AsVenv> as_venv(const Environment& environment) {
  AsVenv found{environment, {}};
  Recipe& recipe = found.environment.recipe;
  recipe.kind = EnvironmentKind::venv;
  recipe.python = minor_version(recipe.python);
  recipe.channels.clear();
  recipe.conda.clear();
  std::vector<std::string> others;
  for (const std::string& line : environment.recipe.conda) {
    const CondaPackage package = parse_conda_package(line);
    const std::string text = parse_requirement(line).text;
    const std::string name = package_name(package.name);
    if (text.empty()) continue;
    if (comes_inside(name)) {
      found.left_out.push_back(text);
      continue;
    }
    const std::string_view index = index_name(name);
    const bool sayable = package.version.find('|') == std::string::npos;
    if (index.empty() || !sayable) {
      others.push_back(package.place.empty() ? text : package.place + ": " + text);
      continue;
    }
    recipe.requirements.push_back(
        with_place(std::string(index) + index_version(package), package.place));
  }
  if (others.empty()) return found;
  return fail(
      ErrorKind::invalid,
      "no conda is on the server's machine, and these are not packages of Python's index: " +
          join(others, "; "),
      "Install micromamba there (one file, in the server's PATH), or take them from an "
      "image: --image, or a Dockerfile.");
}

}  // namespace trainyard::env
