#pragma once

#include "base/fd.h"
#include "base/result.h"

namespace trainyard {

// For a daemon, before its first thread is made, so that all inherit it: SIGTERM, SIGINT and SIGHUP
// end nobody but make this fd readable, and SIGPIPE is ignored.
Result<Fd> watch_for_end();

}  // namespace trainyard
