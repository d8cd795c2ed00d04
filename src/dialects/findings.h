#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace trainyard::dialects {

enum class Severity { error, warning };

// What is to be said about a file, and where.
struct Finding {
  Severity severity = Severity::error;
  std::string place;    // "job.yml:12"; empty: the file as a whole, named in the message.
  std::string message;  // "limits.timeout: must be a whole number"
  std::string hint;     // A sentence; may be empty.

  std::string str() const;  // "job.yml:12: limits.timeout: must be a whole number"
  bool operator==(const Finding&) const = default;
};

using Findings = std::vector<Finding>;

bool has_errors(const Findings& findings);
// All errors as one: the first is the message, the others are in the hint. Of kind `invalid`.
Error as_error(const Findings& findings);
// The warnings as lines, in order.
std::vector<std::string> warnings_of(const Findings& findings);

}  // namespace trainyard::dialects
