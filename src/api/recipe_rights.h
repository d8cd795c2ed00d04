#pragma once

#include "api/route.h"
#include "model/environment.h"

namespace trainyard::api {

// Whether the caller may ask for this recipe: an interpreter by its path, and files and folders of
// the server's machine (wheels, --find-links, a channel), only admins may name. Others may use an
// environment that an admin has registered with them, and the interpreters that the server was
// started with (--interpreters). `denied`, with who can allow it.
Status check_recipe_rights(const Call& call, std::string_view workspace, const Environment& asked);

}  // namespace trainyard::api
