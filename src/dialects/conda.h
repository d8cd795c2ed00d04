#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dialects/document.h"
#include "dialects/requirements.h"
#include "model/environment.h"

namespace trainyard::dialects {

// An environment file of conda's: channels, dependencies, the `pip:` list among them, variables.
struct CondaFile {
  std::string name;                   // As the file has it; what is registered need not be it.
  Environment environment;            // Of kind conda.
  std::vector<std::string> warnings;  // "env.yml:3: prefix: …"
};

// A fault is `invalid`, "FILE:LINE: …", all of them at once.
Result<CondaFile> read_conda(const fs::path& file);
Result<CondaFile> read_conda(const Document& document, SentFiles* sent = nullptr);
Result<CondaFile> parse_conda(std::string_view text, std::string file);

}  // namespace trainyard::dialects
