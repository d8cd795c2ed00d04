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
  std::vector<std::string> others;
  for (const Finding& found : findings) {
    const bool is_error = found.severity == Severity::error;
    if (is_error && error.message.empty()) {
      error.message = found.str();
      error.hint = found.hint;
    } else if (is_error || found.message.starts_with("unknown key")) {
      // A key that nobody knows may be the very one that an error misses.
      others.push_back(found.str());
    }
  }
  for (size_t i = 0; i < others.size() && i < kOthersMax; ++i) {
    error.hint += (error.hint.empty() ? "Also: " : "\nAlso: ") + others[i];
  }
  if (others.size() > kOthersMax) {
    error.hint += "\nAnd " + std::to_string(others.size() - kOthersMax) + " more.";
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
