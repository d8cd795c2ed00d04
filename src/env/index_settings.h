#pragma once

#include "env/programs.h"

namespace trainyard::env {

// Adds to `variables` what uv is to know of the machine's package index: uv reads neither pip's
// variables (PIP_INDEX_URL …) nor its files (pip.conf), and who has set these for a machine means
// all that installs on it. uv's own win.
void add_index_settings(Variables& variables, const fs::path& system_file = "/etc/pip.conf");

// Sets as variables what pip.conf of the machine and of the user says: a build does not see the
// user's files.
void add_pip_settings(Variables& variables, const fs::path& system_file = "/etc/pip.conf");

}  // namespace trainyard::env
