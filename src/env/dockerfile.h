#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::env {

// The images that a Dockerfile begins with or copies from: FROM, --from=, --mount=…,from=. Without
// its own stages. ARGs before the first FROM are filled in; a '$' that is left could not be.
std::vector<std::string> images_in(std::string_view dockerfile,
                                   const std::map<std::string, std::string>& arguments);

// Whether an engine would read a name as a place and not as an image of a registry:
// "docker-archive:/x", "dir:/x", "containers-storage:x". The files of the machine that builds, and
// the images that others fetched, are reached that way.
bool names_transport(std::string_view image);

// Whether a name consists of what names of images have: an engine reads "\x", "$x" and the like as
// something else.
bool is_plain_image_name(std::string_view image);

// Whether a name may stand for an image that only this engine has: an id or its beginning, or a
// name that Trainyard gave. Such an image may be one that another's password fetched.
bool may_be_anothers(std::string_view image);

}  // namespace trainyard::env
