#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/environment.h"

namespace trainyard::env {

// One of Recipe::conda, taken apart: "conda-forge::numpy=1.19.2=py38h_0".
struct CondaPackage {
  std::string channel;
  std::string name;     // In small letters, '_' as it is.
  std::string version;  // "1.19.2", ">=1.19,<2", "1.19.*"; empty: any.
  bool exact = false;   // Of "==" or with a build's name.
  std::string place;
};
CondaPackage parse_conda_package(std::string_view line);

// The same packages from Python's own index, where no conda is: its own names for them
// (pytorch → torch), without what its interpreter and its wheels bring themselves (openssl, mkl).
// `invalid` where there are others (cudatoolkit, ffmpeg): all of them are named, with places.
struct AsVenv {
  Environment environment;            // Of kind venv.
  std::vector<std::string> left_out;  // "openssl=1.1.1"
};
Result<AsVenv> as_venv(const Environment& environment);

}  // namespace trainyard::env
