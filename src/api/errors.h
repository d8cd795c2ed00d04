#pragma once

#include "base/error.h"
#include "http/message.h"

namespace trainyard::api {

// {"error": {"kind", "message", "hint"}} under the status of its kind.
http::Response error_response(const Error& error);
// The same under another status: 401, or what the server found by itself (405, 413, …).
http::Response error_response(int status, const Error& error);

}  // namespace trainyard::api
