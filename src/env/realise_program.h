#pragma once

#include <string>
#include <vector>

namespace trainyard::env {

// The rank of a run that builds an environment for others (api/build_runs.h):
//
//   realise FILE FOLDER
//
// FILE is an Environment as JSON; its build folder, if it has one, lies beside it as context/. What
// is made comes into FOLDER: root/, and environment.json (Realised) once all is there. The log goes
// to the console, a line "# WORDS" says how far it is, and the last one "error: …" why it failed.
// The exit code; -1 for other words.
int realise_program(const std::vector<std::string>& words);

}  // namespace trainyard::env
