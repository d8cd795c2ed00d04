#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/file.h"
#include "cli/context.h"
#include "model/run_spec.h"
#include "snapshot/capture.h"

namespace trainyard::cli {

// A run that is to be submitted, however it was described: by options, a runconfig, a job file or
// another run.
struct Submission {
  RunSpec spec;  // Without the snapshot, where `folder` is to become one.
  // What to snapshot, a folder or a single file; none: spec.snapshot stands.
  std::optional<fs::path> code;
  RunId id;  // Made by us, so that a submission repeated is the same one.
  // "target" -> "x.runconfig:3": who said what the server may refuse.
  std::map<std::string, std::string> places;
  fs::path build;                 // The folder of the environment's Dockerfile; empty: none.
  std::string registry_password;  // Of spec.environment.registry; it is sealed before the rest.
};

enum class Then {
  follow,    // Stream the console and exit as the run did.
  print_id,  // The id alone; the run where -o asks for it.
  nothing,   // The caller goes on with the run.
};

struct SubmitOutcome {
  Json run;
  int code = 0;  // To exit with.
};

// Captures the code, sends what the server lacks, submits, and goes on as `then` says. Ctrl-C says
// what became of it.
Result<SubmitOutcome> submit_run(Context& context, Submission submission, Then then);

// What a rank sees of our own variables; nothing else does.
std::map<std::string, std::string> submit_environment();

// -e, else what the folder is attached to, else its name.
Result<std::string> experiment_for(const Context& context, const fs::path& folder);

// Captures a folder or a single file as a tree to send; lists at most this many ignored paths.
Result<snapshot::Captured> capture_folder(Context& context, const fs::path& folder,
                                          size_t ignored_max = 0);

// Refuses a whole machine or account as code, without --yes.
Status check_code_folder(const Context& context, const fs::path& folder);

// The outputs of a run into DIR/outputs, with a progress bar.
Status download_outputs(Context& context, const RunId& id, const fs::path& folder);

// "python" where PATH has it, else "python3".
std::string find_python();

}  // namespace trainyard::cli
