#pragma once

#include <vector>

#include "dialects/environment_file.h"
#include "dialects/runconfig_spec.h"

namespace trainyard::dialects {

// What the sections `environment` and `docker` ask for. Files they name are looked for in
// `folders`; where there are none, no file is looked at.
void interpret_environment(const Sources& sources, const std::vector<fs::path>& folders,
                           Findings& findings, EnvironmentDraft& into);

}  // namespace trainyard::dialects
