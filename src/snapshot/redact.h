#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace trainyard::snapshot {

// Whether a file of this path, in the folder of the code, is a run configuration or a part of one:
// *.runconfig, azureml_environment.json, and all in .azureml/ or aml_config/.
bool may_hold_password(std::string_view path);

// A run configuration, in YAML or JSON, with null in place of every value whose key ends in
// "password"; nothing when it has none. The Python client has the same (redact.py).
std::optional<std::string> without_passwords(std::string_view text);

}  // namespace trainyard::snapshot
