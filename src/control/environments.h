#pragma once

#include <functional>
#include <string_view>

#include "model/environment.h"
#include "model/run.h"
#include "store/store.h"

namespace trainyard::control {

// The caller of an environment, and what the run needs.
struct EnvironmentUse {
  Role role = Role::submitter;
  bool own_machine = false;   // The run is on the machine of the person who submits it.
  bool gpus = false;          // The run asks the scheduler for GPUs.
  std::string rerun_of = {};  // The run that is run once more; empty: none.
  SteadyTime asked{};         // What a tag stands for is not older than this.
};

// Sets what the hash has to know of the machine that builds, in the recipe: platform, and
// image_digest of an image.
using SettleRecipe = std::function<Status(std::string_view workspace, Environment& environment,
                                          const EnvironmentUse& use)>;
// The rebuild that a workspace uses of an environment, by its hash without one; empty: none.
using FindRebuild = std::function<std::string(std::string_view workspace, const std::string& hash)>;

EnvironmentUse use_of(const RunSpec& spec, Role role);

// Refuses what the policy for the role does not allow, before any file that the environment names
// is read, and sets Environment::image_folders and host_paths.
using CheckEnvironment = std::function<Status(Environment& environment, const EnvironmentUse& use)>;

// What resolve() asks of the server around it; none of them: a test without one.
struct EnvironmentRules {
  CheckEnvironment check;
  SettleRecipe settle;
  FindRebuild rebuild = {};
};

// An environment as a client asks for it made whole: a name becomes the recipe it stands for, with
// what was asked beside it put upon that; platform and hash are set. A rerun that sends the
// environment of its run as it was resolved keeps it, whatever has become of its name and of its
// image; any other hash, image_digest or rebuild that a client sends is ignored.
//
// The rights are those of who asks. What a registered environment brings along must also be within
// the rights of whoever registered it: nobody gains power by the role of those who use their name.
Result<Environment> resolve(store::Store& store, std::string_view workspace,
                            const Environment& asked, const EnvironmentUse& use,
                            const EnvironmentRules& rules);

}  // namespace trainyard::control
