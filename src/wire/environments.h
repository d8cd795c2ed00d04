#pragma once

#include "model/environment_record.h"
#include "wire/json.h"

namespace trainyard::wire {

// An environment's own fields, and beside them who keeps it. Never a password: of one there is a
// secret's name at most.
Json environment_record_to_json(const EnvironmentRecord& record);

// What a run says of its environment: the word "system", or an object of kind, name, version, hash,
// shortHash, image and label.
Json environment_to_json(const Environment& environment);

}  // namespace trainyard::wire
