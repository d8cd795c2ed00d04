#pragma once

#include <string>
#include <vector>

#include "snapshot/capture.h"

namespace trainyard::cli {

// Warnings about code that is likely larger than meant, or has what belongs to one machine alone
// (.venv, node_modules, __pycache__) or holds secrets (.env): with sizes, and the lines for the
// ignore file that leave it out. Empty as a rule.
std::vector<std::string> snapshot_advice(const snapshot::Captured& captured);

}  // namespace trainyard::cli
