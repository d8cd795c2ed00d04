#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace trainyard {

// A package's name as all its spellings have it: "Azure_ML.core" is "azure-ml-core" (PEP 503).
std::string package_name(std::string_view name);

// A line of Recipe::requirements, taken apart.
struct Requirement {
  std::string text;   // Without its comment.
  std::string name;   // As package_name(); empty where the line has none: a URL, a wheel's path.
  std::string place;  // "requirements.txt:3": who reads a file puts it there as a comment.
};
Requirement parse_requirement(std::string_view line);
// `invalid` for text that an installer could read as several lines: pip and uv also end a line at
// control characters and at U+0085, U+2028 and U+2029, and join lines at a '\'. Tabs are allowed.
Status check_one_line(std::string_view text);
// The reverse.
std::string with_place(std::string_view text, std::string_view place);

// Whether a run has the package from us, by its PYTHONPATH. Nothing of ours stands in for azureml
// or arcus: those are installed like any other.
bool is_ours(std::string_view package);

// One of Recipe::options: "--index-url URL", "--pre", or our own "--constraint numpy<2".
struct PipOption {
  std::string name;  // In its long form: "--index-url".
  std::string value;
};
// `invalid` for one that a recipe cannot have.
Result<PipOption> parse_pip_option(std::string_view text);

// The file or folder of the machine that builds which a line or the value of an option names
// ("/data/x.whl", "x @ file:///data/x.whl", "git+file:///data/x", "./x"); empty: none.
std::string local_path_of(std::string_view text);

}  // namespace trainyard
