#include "dialects/findings.h"

#include <algorithm>
#include <utility>

namespace trainyard::dialects {

std::string Finding::str() const { return place.empty() ? message : place + ": " + message; }

bool has_errors(const Findings& findings) {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& found) { return found.severity == Severity::error; });
}

Error as_error(const Findings& findings) {
  constexpr size_t kOthersMax = 5;  // More than that is no hint any more.
  Error error{ErrorKind::invalid, {}, {}};
  size_t others = 0;
  for (const Finding& found : findings) {
    if (found.severity != Severity::error) continue;
    if (error.message.empty()) {
      error.message = found.str();
      error.hint = found.hint;
    } else if (++others <= kOthersMax) {
      error.hint += (error.hint.empty() ? "Also: " : "\nAlso: ") + found.str();
    }
  }
  if (others > kOthersMax) {
    error.hint += "\nAnd " + std::to_string(others - kOthersMax) + " more.";
  }
  return error;
}

std::vector<std::string> warnings_of(const Findings& findings) {
  std::vector<std::string> lines;
  for (const Finding& found : findings) {
    if (found.severity != Severity::warning) continue;
    lines.push_back(found.hint.empty() ? found.str() : found.str() + ". " + found.hint);
  }
  return lines;
}

}  // namespace trainyard::dialects
