#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"

namespace trainyard::container {

inline constexpr std::string_view kContainerProgram = "container";
// `trainyard container --remove SOCKET API MARK`: removes the containers with the mark as soon as
// the engine there answers; gives up after a day.
inline constexpr std::string_view kRemoveLater = "--remove";

struct EngineAddress;
// Ends and removes all containers with the mark.
Status remove_marked(const EngineAddress& engine, const std::string& mark);

// What a container's exit code does not say, in the file Plan::note: one line that begins so.
inline constexpr std::string_view kOutOfMemory = "out of memory";
inline constexpr std::string_view kNotStarted = "not started";
inline constexpr std::string_view kEngineLost = "the engine was lost";
// After kNotStarted: what bubblewrap said of it is in the rank's output, by lines that begin so.
inline constexpr std::string_view kBubblewrapFailed = "bubblewrap could not make it";
inline constexpr std::string_view kBubblewrapSays = "bwrap: ";

// `trainyard container FILE`: makes the container of the plan in `file` (plan_file.h), starts it,
// hands on its output and our signals, and removes it. Its exit code is the container's; 125 when
// there was no container, 126 and 127 when its command cannot be started, as docker has it.
int run_container(const fs::path& file);
// The same from a command line's words; -1: they mean something else.
int container_program(const std::vector<std::string>& words);

}  // namespace trainyard::container
