#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cli/command.h"

namespace trainyard::cli {

// The file of a command's manual: "run download-logs" -> "commands/run_download_logs.md".
std::string manual_file(std::string_view command);

// Markdown as plain text: headings in capitals, code indented, marks gone.
std::string render_manual(std::string_view markdown);

// What --help shows of a command: how it is called, its manual with an example, its options.
std::string command_help(const Command& command, std::span<const Option> common);
// Of a group ("run"), or of everything ("").
std::string group_help(std::string_view group, std::span<const Command> commands);

}  // namespace trainyard::cli
