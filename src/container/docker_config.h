#pragma once

#include <map>
#include <string>

#include "base/result.h"
#include "container/account.h"
#include "container/arguments.h"
#include "container/engine_api.h"
#include "container/plan.h"
#include "wire/json.h"

namespace trainyard::container {

// The label that holds Plan::mark.
inline constexpr const char* kLabelMark = "trainyard.mark";

// In place of groups, for a person's own podman.
inline constexpr std::string_view kKeepGroups = "keep-groups";

// What one with Plan::kept leaves, as the engine knows it.
std::string kept_image(const std::string& container);

// On whose behalf a container runs, and where.
struct Here {
  Account account;
  int64_t shm_bytes = 0;  // Of the machine's /dev/shm.
};
Here look_here(Account account);

// Whether the container's processes have the account's number, and not one that somebody chose.
bool runs_as(const Account& account, const Plan& plan, const EngineAddress& engine);

// Signals reach the first process of a container only if that one handles them, and its dead
// children are nobody's: a tiny program in front of it takes care of both, where an engine has one.
enum class Init { no, yes };

// What an engine is asked to create. `variables` are those of the rank.
Result<wire::Json> container_config(const Plan& plan, const EngineAddress& engine, const Here& here,
                                    const std::map<std::string, std::string>& variables, Init init);

}  // namespace trainyard::container
