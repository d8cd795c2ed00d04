#pragma once

#include <string>
#include <string_view>

#include "api/house.h"
#include "http/message.h"
#include "model/run.h"
#include "wire/json.h"

// Links to the files of a run that need no token, for a browser or curl: whoever has one can read
// that one file until it expires. They are signed with the home's key.
namespace trainyard::api {

inline constexpr seconds kLinkLife = std::chrono::hours(8);

// Path -> link made at `now`, for the consoles and system logs of a run.
wire::Json log_links(House& house, const Run& run, WallTime now);

// Is the request for the file that its link was signed for? `denied` when it is not, or is late.
bool has_link(const http::Request& request);
Status check_link(House& house, const http::Request& request);

}  // namespace trainyard::api
