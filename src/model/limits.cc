#include "model/limits.h"

namespace trainyard::limits {
namespace {

constexpr size_t kShown = 40;  // Of a name that is too long.

}  // namespace

Status check_pair(std::string_view what, std::string_view name, std::string_view value) {
  const std::string shown = std::string(what) + " '" + std::string(name.substr(0, kShown)) + "'";
  if (name.size() > kNameBytes) {
    return fail(ErrorKind::invalid,
                shown + "…: the name is longer than " + std::to_string(kNameBytes) + " bytes");
  }
  if (value.size() > kValueBytes) {
    return fail(ErrorKind::invalid,
                shown + ": the value is longer than " + std::to_string(kValueBytes) + " bytes");
  }
  return {};
}

Status check_pairs(std::string_view what, const std::map<std::string, std::string>& pairs,
                   size_t max) {
  const std::string several = what == "property" ? "properties" : std::string(what) + "s";
  TRY(check_count(several, pairs.size(), max));
  for (const auto& [name, value] : pairs) TRY(check_pair(what, name, value));
  return {};
}

Status check_count(std::string_view what, size_t count, size_t max) {
  if (count <= max) return {};
  return fail(ErrorKind::invalid,
              "a run has at most " + std::to_string(max) + " " + std::string(what));
}

}  // namespace trainyard::limits
