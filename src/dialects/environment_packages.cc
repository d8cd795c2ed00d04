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

void add_lines(const Requirements& requirements, Environment& environment) {
  Environment above;
  above.recipe.kind = EnvironmentKind::venv;
  requirements.add_to(above);
  environment = layered(std::move(environment), above);
}

}  // namespace

Status add_requirements(const fs::path& file, Environment& environment, Warnings&) {
  TRY_SET(const Requirements requirements, read_requirements(file));
  add_lines(requirements, environment);
  return {};
}

Status add_sent_requirements(SentFiles& sent, const std::string& file, Environment& environment) {
  TRY_SET(const Requirements requirements, read_requirements(file, sent));
  add_lines(requirements, environment);
  return {};
}

Status add_sent_conda(SentFiles& sent, const std::string& file, Environment& environment,
                      Warnings& warnings) {
  const auto found = sent.texts.find(fs::path(file).lexically_normal().string());
  if (found == sent.texts.end()) {
    sent.missing.insert(file);
    return {};
  }
  TRY_SET(const Document document, parse_document(found->second, file));
  return add(read_conda(document, &sent), environment, warnings);
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
