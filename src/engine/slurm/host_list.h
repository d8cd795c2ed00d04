#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trainyard::engine::slurm {

// The names in Slurm's short form: "n[1-3,07-10],gpu1" is n1 n2 n3 n07 n08 n09 n10 gpu1. At most
// 100,000; what is no such list is taken as it is.
std::vector<std::string> expand_hosts(std::string_view list);

}  // namespace trainyard::engine::slurm
