#pragma once

#include "base/clock.h"
#include "base/home.h"
#include "blob/blob_store.h"
#include "logs/log_store.h"
#include "store/store.h"
#include "wire/json.h"

namespace trainyard::api {

struct CheckParts {
  store::Store& store;
  blob::Store& blobs;
  logs::LogStore& logs;
};

enum class CheckDepth {
  presence,  // All that is spoken of is there, with its size.
  content,   // And every blob is read: its bytes are those of its name.
};

// Looks for what is missing or damaged: {"ok", "findings": [{"what", "name", "problem", "run"}],
// "runs", "trees", "blobs", "bytes"}. An error means that the looking failed, not what was found.
Result<wire::Json> check_parts(const CheckParts& parts, CheckDepth depth);

// The same for a home without a server; `conflict` while one runs there.
Result<wire::Json> check_home(const Home& home, Clock& clock, CheckDepth depth);

}  // namespace trainyard::api
