#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "dialects/document.h"
#include "dialects/findings.h"
#include "dialects/requirements.h"
#include "model/environment_record.h"

namespace trainyard::dialects {

// An environment as files describe it, before what lies on this machine has gone to the server.
struct EnvironmentDraft {
  Environment environment;
  fs::path build;        // The folder that becomes Recipe::context; empty: none.
  std::string password;  // Of environment.registry; to be sealed, and kept nowhere else.
  std::string description;
};

using Warnings = std::vector<std::string>;  // "FILE:LINE: …", to be shown as they are.

// The packages of a requirements or conda file, put into the recipe and its kind set by them; an
// image stays one. Lines that are ours to provide go to left_out.
Status add_requirements(const fs::path& file, Environment& environment, Warnings& warnings);
Status add_conda(const fs::path& file, Environment& environment, Warnings& warnings);
// The same of a conda file's content that stands in another file.
Status add_conda(const Document& document, const Node& content, Environment& environment,
                 Warnings& warnings);

// The same of files that a client sent: those at these paths.
Status add_sent_requirements(SentFiles& sent, const std::string& file, Environment& environment);
Status add_sent_conda(SentFiles& sent, const std::string& file, Environment& environment,
                      Warnings& warnings);

// Whether a job file's `environment` is the path of a file: "file:env.yml", "./env.yml", "env.yml".
bool names_file(std::string_view environment);

// What a v2 file has under `environment`: a name in any spelling, file:PATH, or a map of image,
// conda_file and build. Paths are from `folder`; nothing is looked at where it is empty.
void read_environment(const Document& document, const Node& value, const fs::path& folder,
                      Findings& findings, EnvironmentDraft& into);

// A v2 environment file: the same map, with name, version and description.
Result<EnvironmentDraft> load_environment_file(const fs::path& file, Warnings& warnings);

// The folder of azureml_environment.json and conda_dependencies.yml.
inline constexpr std::string_view kEnvironmentJson = "azureml_environment.json";
inline constexpr std::string_view kCondaYml = "conda_dependencies.yml";
inline constexpr std::string_view kRequirementsTxt = "requirements.txt";
inline constexpr std::string_view kDockerfile = "Dockerfile";
inline constexpr std::string_view kContextFolder = "context";  // What a Dockerfile is built from.
Result<EnvironmentDraft> load_environment_folder(const fs::path& folder, Warnings& warnings);

// The files of such a folder, by their names: those to start from, and those of one that is there,
// all but what is in kContextFolder, a tree of blobs.
struct TextFile {
  std::string name;
  std::string text;
};
std::vector<TextFile> scaffold_files(std::string_view name);
std::vector<TextFile> environment_files(const Environment& environment);

}  // namespace trainyard::dialects
