#include "base/variables.h"

extern char** environ;

namespace trainyard {

std::map<std::string, std::string> own_variables(std::string_view without) {
  std::map<std::string, std::string> found;
  for (char** pair = environ; *pair != nullptr; ++pair) {
    const std::string_view text = *pair;
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    if (!without.empty() && text.starts_with(without)) continue;
    found.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return found;
}

}  // namespace trainyard
