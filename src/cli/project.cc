#include "cli/project.h"

#include "base/text.h"
#include "wire/json.h"

namespace trainyard::cli {
namespace {

constexpr std::string_view kPlaces[] = {".azureml/config.json", "aml_config/config.json"};

// "line 3, column 7: what" -> "FILE:3: what"
Error at_place(Error error, const fs::path& file) {
  constexpr std::string_view kLine = "line ";
  std::string_view text = error.message;
  if (text.starts_with(kLine)) {
    text.remove_prefix(kLine.size());
    const std::string_view number = text.substr(0, text.find_first_not_of("0123456789"));
    const size_t colon = text.find(": ");
    if (!number.empty() && colon != std::string_view::npos) {
      error.message = file.string() + ":" + std::string(number) + std::string(text.substr(colon));
      return error;
    }
  }
  error.message = file.string() + ":1: " + error.message;
  return error;
}

// The attachment of `az ml folder attach` in its older form, a resource's path:
// /subscriptions/S/resourceGroups/G/providers/…/workspaces/W/projects/E
void read_scope(std::string_view scope, Project& project) {
  const std::vector<std::string> parts = split(scope, '/');
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    if (parts[i] == "subscriptions") project.subscription_id = parts[i + 1];
    if (parts[i] == "resourceGroups") project.resource_group = parts[i + 1];
    if (parts[i] == "workspaces") project.workspace = parts[i + 1];
    if (parts[i] == "projects") project.experiment = parts[i + 1];
  }
}

Result<Project> read_project(const fs::path& file, std::string_view text) {
  const auto json = wire::parse(text);
  if (!json) return std::unexpected(at_place(json.error(), file));
  if (!json->is_object()) {
    return fail(ErrorKind::invalid, file.string() + ":1: not a JSON object");
  }
  Project project{.file = file};
  if (const auto scope = json->find("Scope"); scope != json->end() && scope->is_string()) {
    read_scope(scope->get<std::string>(), project);
  }
  const std::pair<std::string_view, std::string*> members[] = {
      {"workspace_name", &project.workspace},
      {"experiment_name", &project.experiment},
      {"subscription_id", &project.subscription_id},
      {"resource_group", &project.resource_group}};
  for (const auto& [key, value] : members) {
    const auto found = json->find(key);
    if (found == json->end() || found->is_null()) continue;
    if (!found->is_string()) {
      return fail(ErrorKind::invalid,
                  file.string() + ":1: " + std::string(key) + " is not a string");
    }
    *value = found->get<std::string>();
  }
  return project;
}

}  // namespace

Result<Project> find_project(const fs::path& folder) {
  for (fs::path at = folder;; at = at.parent_path()) {
    for (const std::string_view place : kPlaces) {
      const fs::path file = at / place;
      std::error_code ignored;
      if (!fs::is_regular_file(file, ignored)) continue;
      TRY_SET(const std::string text, read_file(file));
      return read_project(file, text);
    }
    if (!at.has_relative_path()) return Project{};
  }
}

}  // namespace trainyard::cli
