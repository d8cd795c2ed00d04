#include "supervisor/missing_module.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace trainyard::supervisor {
namespace {

// Modules that an index has under another name.
constexpr std::pair<std::string_view, std::string_view> kPackages[] = {
    {"PIL", "Pillow"},
    {"bs4", "beautifulsoup4"},
    {"cv2", "opencv-python-headless"},
    {"dateutil", "python-dateutil"},
    {"skimage", "scikit-image"},
    {"sklearn", "scikit-learn"},
    {"yaml", "PyYAML"},
};

std::string_view package_of(std::string_view module) {
  for (const auto& [name, package] : kPackages) {
    if (name == module) return package;
  }
  return module;
}

}  // namespace

std::string missing_module_advice(std::string_view last_lines) {
  constexpr std::string_view kSays = "ModuleNotFoundError: No module named '";
  std::string_view module;
  for (std::string_view rest = trim(last_lines); !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    if (line.starts_with(kSays)) module = line.substr(kSays.size());
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
  }
  module = module.substr(0, module.find_first_of("'."));
  if (module.empty()) return {};
  return "Python finds no module " + std::string(module) + ". Add " +
         std::string(package_of(module)) +
         " to the environment (--requirements FILE, a conda file, --environment NAME); a module of "
         "your own must be in the code folder and not ignored";
}

}  // namespace trainyard::supervisor
