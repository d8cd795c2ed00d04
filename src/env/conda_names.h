#pragma once

#include <string_view>

namespace trainyard::env {

// Its name on Python's index, of a conda package's; empty where it is no Python package.
std::string_view index_name(std::string_view conda);

// What conda has as a package and an interpreter or a wheel has inside.
bool comes_inside(std::string_view conda);

}  // namespace trainyard::env
