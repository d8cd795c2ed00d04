#pragma once

#include <span>

#include "cli/context.h"
#include "dialects/environment_file.h"

namespace trainyard::cli {

// --environment, --requirements, --conda, --image, --docker-arg, --shm-size.
extern const std::span<const Option> kEnvironmentOptions;

// What these options ask for, put upon what a file said. A name or an image stands in place of what
// was said before; packages are added to it.
Status apply_environment_options(const Context& context, dialects::EnvironmentDraft& draft);

// Makes a draft ready for the server: seals its password, takes apart arguments that were written
// as one text. The folder of a Dockerfile is left to who sends it.
Status settle_environment(Context& context, std::string_view workspace,
                          dialects::EnvironmentDraft& draft);

// Looks up what a name stands for, and says what its users are to know. Not found is told here,
// before anything is sent.
Status check_named(Context& context, std::string_view workspace, const Environment& environment);

}  // namespace trainyard::cli
