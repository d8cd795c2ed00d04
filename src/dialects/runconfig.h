#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "dialects/document.h"
#include "dialects/findings.h"
#include "dialects/keys.h"
#include "model/run_spec.h"

namespace trainyard::dialects {

// A run as a .runconfig file describes it (docs/dialects/runconfig.md).
struct Runconfig {
  // Without what the file does not know: workspace, experiment, snapshot, submit_environment.
  RunSpec spec;
  fs::path file;       // Empty: there was none.
  fs::path source;     // The folder to snapshot.
  std::string script;  // In it; empty: there is a command instead.
  // The interpreter is the word `python` and nobody wrote another: where PATH has no `python`,
  // `python3` is as good. It is spec.command[0] then.
  bool any_python = false;
  fs::path build;                 // The folder of a Dockerfile: spec.environment.recipe.context.
  std::string registry_password;  // Of spec.environment.registry; to be sealed.
  // "target" -> "aml_config/x.runconfig:3", for what is found wrong only later. What the command
  // line said is not in it.
  std::map<std::string, std::string> places;
  std::vector<std::string> warnings;  // "FILE:LINE: …", to be shown as they are.
};

struct RunconfigAsk {
  fs::path project = ".";          // --path
  fs::path source;                 // --source-directory; empty: the project.
  std::string name;                // -c; empty: no file, all is said by `words`.
  std::vector<std::string> words;  // SCRIPT ARGS…; take the place of the file's.
  std::string target;              // --target; empty: the file's.
};

// Finds the file, reads it, checks it against the table and the source folder. `not_found` when no
// such file is there (the error lists what is), `conflict` when two are, else `invalid`.
Result<Runconfig> load_runconfig(const RunconfigAsk& ask);

// The file of that name: in .azureml/ or aml_config/ with or without .runconfig, NAME.runconfig in
// the folder itself, or the path of a file.
Result<fs::path> find_runconfig(const fs::path& folder, std::string_view name);

// Everything there is to say about a runconfig's text, without a look at any folder.
Findings validate_runconfig(std::string_view text, std::string file);

const KeyTable& runconfig_keys();

// What `folder attach` writes: a runconfig that runs here as it is, and the conda file beside it.
std::string_view sample_runconfig();           // .azureml/local.runconfig
std::string_view sample_conda_dependencies();  // .azureml/conda_dependencies.yml

}  // namespace trainyard::dialects
