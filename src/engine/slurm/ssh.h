#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"

namespace trainyard::engine::slurm {

// Where Slurm's programs often are, besides a PATH.
inline constexpr const char* kUsualPlaces =
    "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/opt/slurm/bin:/usr/local/slurm/bin";

inline constexpr int kExitOfSsh = 255;  // Its own trouble; else the code is the command's.

// The longest path of a control socket: of the 107 bytes that one may have, ssh takes 17 for a name
// on the way to it.
inline constexpr size_t kControlPathMax = 107 - 17;

// ssh and what it always needs: no question, no terminal, nothing of the user's own commands. Then
// come further options, the login and the command.
Result<std::vector<std::string>> ssh_words(std::string_view path);

// What ssh said when it ended with 255, and what to do about it.
Error ssh_error(const std::string& login, std::string_view stderr_text);

// A command line for any user's shell that runs `text` by a POSIX one.
std::string for_any_shell(std::string_view text);

}  // namespace trainyard::engine::slurm
