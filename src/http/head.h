#pragma once

#include <string>

#include "http/message.h"

namespace trainyard::http {

// How an answer's first lines depend on its request.
struct HeadContext {
  bool head_only = false;  // The request was a HEAD.
  bool http11 = true;
  bool close = false;
};

// The status line and headers, with the empty line. The length of the body is always told: by us,
// except that a handler of a HEAD may know it without having the body.
std::string format_head(const Response& response, const HeadContext& context);

// False for 204 and 304, which never have a body.
bool may_have_body(int status);

// The status a failure of ours is answered with when no handler is there to choose.
int status_of(ErrorKind kind);

}  // namespace trainyard::http
