// Any bytes as an environment file of conda's, and its packages as Python's own.
#include "dialects/conda.h"
#include "env/conda_packages.h"
#include "tests/fuzz/input.h"

using namespace trainyard;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string_view text = fuzz::text_of(bytes, size);
  env::parse_conda_package(fuzz::first_line(text).first);
  const auto file = dialects::parse_conda(text, "/nowhere/f.yml");
  if (!file) {
    ENSURE(file.error().kind == ErrorKind::invalid);
    ENSURE(!file.error().message.empty());
    return 0;
  }
  const auto venv = env::as_venv(file->environment);
  if (!venv) {
    ENSURE(venv.error().kind == ErrorKind::invalid);
    ENSURE(!venv.error().message.empty());
  } else {
    ENSURE(venv->environment.recipe.kind == EnvironmentKind::venv);
  }
  return 0;
}
