#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/id.h"
#include "base/result.h"
#include "dialects/document.h"
#include "dialects/findings.h"
#include "dialects/keys.h"
#include "model/run_spec.h"

namespace trainyard::dialects {

// A run as a v2 command job file describes it (docs/dialects/job.md).
struct Job {
  // Without what the file does not know: workspace, snapshot, submit_environment; and experiment,
  // which is empty when the file names none. The command is filled in for `id`.
  RunSpec spec;
  RunId id;            // The one asked for, else the file's `name`, else a new one.
  bool named = false;  // Not a new one.
  fs::path code;   // The folder (or single file) to snapshot, found from the job file; empty: none.
  fs::path build;  // The folder of a Dockerfile: spec.environment.recipe.context.
  std::map<std::string, std::string> places;  // "compute" -> "job.yml:4".
  std::vector<std::string> warnings;          // "FILE:LINE: …", to be shown as they are.
  Document document;                          // The file, overrides applied.
};

struct JobAsk {
  fs::path file;
  std::string name;               // -n; empty: the file's.
  std::vector<std::string> sets;  // --set, each "path=value".
};

// Reads the file, applies the overrides, checks everything; `invalid` with FILE:LINE else.
Result<Job> load_job(const JobAsk& ask);

// Everything there is to say about a job file's text, errors and warnings, without a look at any
// folder. Cheap: thousands of files a second.
Findings validate_job(std::string_view text, std::string file,
                      const std::vector<std::string>& sets = {});

const KeyTable& job_keys();

}  // namespace trainyard::dialects
