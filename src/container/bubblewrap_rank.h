#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

// The program of ours between a rank and bubblewrap. bwrap leaves a process of its own outside
// that dies of SIGTERM and turns signals into exit codes; ours hands signals on to the container's
// first process, ends as that one has ended, and leaves none of its processes behind.
namespace trainyard::container {

inline constexpr std::string_view kBubblewrapProgram = "bubblewrap-rank";
// Ends as the rank has ended. 125 when there was no container, 126 and 127 when its command cannot
// be started, as docker has it.
int bubblewrap_rank(const fs::path& file);
// `bubblewrap-rank FILE`; -1: it is something else.
int bubblewrap_program(const std::vector<std::string>& words);

}  // namespace trainyard::container
