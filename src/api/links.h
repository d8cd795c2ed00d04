#pragma once

#include <string>
#include <string_view>

#include "api/house.h"
#include "http/message.h"
#include "model/run.h"
#include "wire/json.h"

// Links to the files of a run that need no token, for a browser or curl: whoever has one can read
// that one file until it expires, as long as the user who got it may. They are signed with the
// home's key.
namespace trainyard::api {

inline constexpr seconds kLinkLife = std::chrono::hours(8);

// Path -> link made for `user` at `now`, for the consoles and system logs of a run.
wire::Json log_links(House& house, const Run& run, std::string_view user, WallTime now);

bool has_link(const http::Request& request);
// The user that the link was made for; `denied` when it was signed for another file or has expired.
Result<store::Identity> identify_link(House& house, const http::Request& request);

}  // namespace trainyard::api
