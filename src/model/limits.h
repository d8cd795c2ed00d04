#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

// How much a run may have of what users and scripts give it. The limits are far above what
// trainings need; they keep one run from filling the server. docs/limits.md shows them to users.
//
// A submission or a change by a person that exceeds one is rejected. What a script logs never
// raises and never ends a training: the excess is left out and counted, and the run has a warning.
namespace trainyard::limits {

// ---- names and values, in bytes ----
constexpr size_t kNameBytes = 4'096;  // Of a metric, parameter, tag, property; a display name.
constexpr size_t kValueBytes = 64 * 1'024;  // Of a parameter, tag, property.
constexpr size_t kDescriptionBytes = 1'024 * 1'024;
constexpr size_t kRecordBytes = 1'024 * 1'024;      // A logged table, row or text, as JSON.
constexpr size_t kVariableBytes = 128 * 1'024 - 1;  // The kernel's own: name, '=' and value.

// ---- how many of each a run has ----
constexpr size_t kMetrics = 1'000'000;
constexpr size_t kParameters = 100'000;
constexpr size_t kTags = 10'000;
constexpr size_t kProperties = 10'000;
constexpr size_t kChildren = 100'000;  // That are open at the same time.
constexpr size_t kVariables = 10'000;

// ---- entries of lists ----
constexpr size_t kEntryFields = 100;  // Metrics, parameters and tags, each.

// `invalid` where a name or its value is too long; `what` is "tag", "parameter", …
Status check_pair(std::string_view what, std::string_view name, std::string_view value);
// The same for all of them, and for how many they are.
Status check_pairs(std::string_view what, const std::map<std::string, std::string>& pairs,
                   size_t max);
// `invalid` where there would be more than `max`; `what` is "tags", …
Status check_count(std::string_view what, size_t count, size_t max);

}  // namespace trainyard::limits
