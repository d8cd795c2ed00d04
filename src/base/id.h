#pragma once

#include <compare>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace trainyard {

// A name that is an identity. `Tag` keeps a run's id from being handed in for a user's.
template <class Tag>
struct Id {
  std::string value;

  bool empty() const { return value.empty(); }
  auto operator<=>(const Id&) const = default;
};

using RunId = Id<struct RunTag>;

// One try at a run; the first is number 1.
struct AttemptId {
  RunId run;
  int number = 0;

  // "brisk-otter-x7k2m9qd.1": also the name of its folder.
  std::string str() const { return run.value + "." + std::to_string(number); }
  auto operator<=>(const AttemptId&) const = default;
};

// A new run's id: two words to remember and 40 random bits, "brisk-otter-x7k2m9qd".
RunId new_run_id();
// 256 random bits in base32, with a prefix that says what it is ("tyu_…" user, "tya_…" attempt).
std::string new_secret(std::string_view prefix);

// [A-Za-z0-9][A-Za-z0-9_.-]{0,254}: names that become paths, variables and URLs as they are. `what`
// is the noun for the error: "workspace", "run id".
Status check_name(std::string_view name, std::string_view what);

}  // namespace trainyard

template <class Tag>
struct std::hash<trainyard::Id<Tag>> {
  size_t operator()(const trainyard::Id<Tag>& id) const {
    return std::hash<std::string>()(id.value);
  }
};
