#pragma once

#include "api/house.h"

// The outputs of interactive runs, which programs outside hand in file by file.
namespace trainyard::api {

// Keeps a file whose blob is here already. It is in the run's tree when fold_outputs() was called:
// a tree for each file would take space in the square of their number.
Status add_output(House& house, const RunId& id, snapshot::Entry entry);

// Puts all files that were added into the tree of the run's outputs, if there are any.
Status fold_outputs(House& house, const RunId& id);

}  // namespace trainyard::api
