#include "dialects/conda_place.h"

#include <unistd.h>

#include <algorithm>

#include "base/text.h"

namespace trainyard::dialects {
namespace {

// Below HOME, where its installers put it.
constexpr std::string_view kCondaFolders[] = {"miniconda3", "anaconda3",  "miniforge3",
                                              "mambaforge", "micromamba", ".conda"};

bool has_python(const fs::path& folder) {
  return access((folder / "bin" / "python").c_str(), X_OK) == 0;
}

void add_place(std::vector<fs::path>& places, const fs::path& place) {
  const fs::path plain = place.lexically_normal();
  if (std::ranges::find(places, plain) == places.end()) places.push_back(plain);
}

// Where conda itself may be, the likeliest first.
std::vector<fs::path> conda_roots(const VariableOf& variable) {
  std::vector<fs::path> roots;
  const auto add_program = [&](const fs::path& program) {
    std::error_code error;
    const fs::path file = fs::canonical(program, error);
    if (!error) add_place(roots, file.parent_path().parent_path());
  };
  if (const std::string program = variable("CONDA_EXE"); !program.empty()) add_program(program);
  if (const std::string root = variable("MAMBA_ROOT_PREFIX"); !root.empty()) add_place(roots, root);
  if (const std::string entered = variable("CONDA_PREFIX"); !entered.empty()) {
    const fs::path above = fs::path(entered).parent_path();
    add_place(roots, above.filename() == "envs" ? above.parent_path() : fs::path(entered));
  }
  for (const std::string& folder : split(variable("PATH"), ':')) {
    if (!folder.empty()) add_program(fs::path(folder) / "conda");
  }
  if (const std::string home = variable("HOME"); !home.empty()) {
    for (const std::string_view folder : kCondaFolders) add_place(roots, fs::path(home) / folder);
  }
  add_place(roots, "/opt/conda");
  return roots;
}

std::vector<fs::path> conda_places(const std::string& name, const VariableOf& variable) {
  if (name.starts_with("~/")) return {fs::path(variable("HOME")) / name.substr(2)};
  if (name.find('/') != std::string::npos) return {name};
  std::vector<fs::path> places;
  for (const char* key : {"CONDA_ENVS_DIRS", "CONDA_ENVS_PATH"}) {
    for (const std::string& folder : split(variable(key), ':')) {
      if (!folder.empty()) add_place(places, fs::path(folder) / name);
    }
  }
  for (const fs::path& root : conda_roots(variable)) {
    add_place(places, name == "base" ? root : root / "envs" / name);
  }
  return places;
}

}  // namespace

Result<fs::path> find_conda_environment(const std::string& name, const VariableOf& variable) {
  std::vector<std::string> looked;
  for (const fs::path& place : conda_places(name, variable)) {
    if (has_python(place)) return place;
    looked.push_back(place.string());
  }
  return fail(ErrorKind::not_found, "there is no conda environment '" + name + "' on this machine",
              "Looked for bin/python in " + join(looked, ", ") + ". Make it by: conda create -n " +
                  name +
                  " python; give its path; or leave the "
                  "key out: packages are then installed into an environment of their own.");
}

}  // namespace trainyard::dialects
