// Any bytes as a requirements file, and as an environment file of conda's.
#include "dialects/conda.h"
#include "dialects/requirements.h"
#include "model/requirement.h"
#include "tests/fuzz/input.h"

using namespace trainyard;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string_view text = fuzz::text_of(bytes, size);
  if (const auto found = dialects::parse_requirements(text, "/nowhere/f.txt")) {
    for (const std::string& line : found->lines) {
      const Requirement requirement = parse_requirement(line);
      ENSURE(!requirement.text.empty());
      ENSURE(requirement.place.starts_with("/nowhere/f.txt:"));
      ENSURE(!requirement.text.starts_with('-'));
      // An installer reads it as one line too.
      ENSURE(check_one_line(line).has_value());
      ENSURE(check_one_line(requirement.text).has_value());
    }
    for (const std::string& option : found->options) {
      ENSURE(parse_pip_option(option).has_value());
      ENSURE(check_one_line(option).has_value());
    }
  } else {
    ENSURE(!found.error().message.empty());
  }
  const auto file = dialects::parse_conda(text, "/nowhere/f.yml");
  if (!file) ENSURE(!file.error().message.empty());
  return 0;
}
