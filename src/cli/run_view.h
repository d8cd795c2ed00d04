#pragma once

#include <string>

#include "cli/context.h"
#include "cli/output.h"

namespace trainyard::cli {

// The row of a list of runs; `now` for "2 min ago".
std::vector<std::string> run_header();
std::vector<std::string> run_row(const Json& run, WallTime now);
// The same for programs (tsv): times as they are, the end instead of how long it took.
std::vector<std::string> run_raw_row(const Json& run);

// One run in detail: what it is, its attempts, where its time went, its code.
enum class Files { some, all };  // Of a long snapshot.
View run_details_view(Context& context, Files files = Files::some);
std::string run_details(const Json& run, WallTime now, Files files, const Screen& screen = {});

// A list of words as one would type it in a shell.
std::string command_line(const Json& command);

// "matrix 10x10" for a value that is too long for a line.
std::string summary(const Json& value);

// "just now", "42 s ago", "9 min ago", "3 h ago", "2 days ago"; empty without a time.
std::string ago(const Json& time, WallTime now);

}  // namespace trainyard::cli
