#pragma once

#include <string>

#include "base/result.h"

namespace trainyard::container {

// A writable layer over a root that many share: what is changed goes to `folder`, the whole is seen
// in folder/root. For a process that has one thread and is about to execute another program: it
// gets mounts of its own, and a user namespace where it has no rights. `folder` is emptied or made
// first. `below`, where it is not empty and there, lies between the two: another layer's folder.
// Where its disk cannot carry a layer, it is kept in memory. On an error there is none.
enum class LayerPlace { disk, memory };
Result<LayerPlace> enter_layer(const std::string& root, const std::string& below,
                               const std::string& folder);
// What a layer in `folder` has changed.
std::string changes_of(const std::string& folder);

}  // namespace trainyard::container
