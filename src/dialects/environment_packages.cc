// The packages of requirements and conda files, as environments take them.
#include "dialects/conda.h"
#include "dialects/environment_file.h"
#include "dialects/requirements.h"

namespace trainyard::dialects {
namespace {

Status add(Result<CondaFile> file, Environment& environment, Warnings& warnings) {
  if (!file) return std::unexpected(std::move(file).error());
  warnings.insert(warnings.end(), file->warnings.begin(), file->warnings.end());
  environment = layered(std::move(environment), file->environment);
  return {};
}

}  // namespace

Status add_requirements(const fs::path& file, Environment& environment, Warnings&) {
  TRY_SET(const Requirements requirements, read_requirements(file));
  Environment above;
  above.recipe.kind = EnvironmentKind::venv;
  requirements.add_to(above);
  environment = layered(std::move(environment), above);
  return {};
}

Status add_conda(const fs::path& file, Environment& environment, Warnings& warnings) {
  return add(read_conda(file), environment, warnings);
}

Status add_conda(const Document& document, const Node& content, Environment& environment,
                 Warnings& warnings) {
  Document apart{.file = document.file, .root = content, .overrides = document.overrides};
  return add(read_conda(apart), environment, warnings);
}

}  // namespace trainyard::dialects
