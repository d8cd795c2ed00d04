#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"

namespace trainyard::cli {

// Where the candidates for a word come from.
enum class Source {
  nothing,  // Anything may stand here, and we cannot know what.
  words,    // We know them all.
  files,    // The shell's.
  folders,
  command,  // The shell's: a command line of the user's own.
  runs,     // The server's, from here on.
  experiments,
  workspaces,
  users,
  secrets,
  tokens,
  computes,
  environments,
};

struct Candidate {
  std::string value;
  std::string description;
};

// What can stand where the cursor is.
struct Completion {
  Source source = Source::nothing;
  std::vector<Candidate> candidates;  // Of Source::words, whole words.
  std::string before;                 // What of the word stays as it is: "--status=".
  std::string begun;                  // And what of it is to be completed: "Run".
  std::string after;                  // What follows a candidate at once: ":".
  size_t command_at = 0;              // Of Source::command: where that begins in the words.
  // What the options before say, by their keys: where to ask, and of what.
  std::map<std::string, std::string, std::less<>> given;
};

// Finds out what the last of `words` (all after "trainyard"; it may be empty) is about, from the
// tables alone: an option's value from its word in the help ("RUN", "DIR", …), or from a help that
// begins by naming all values ("low, normal or high."); a word of a command from its usage. Pure.
Completion complete(std::span<const Command> commands, std::span<const Option> common,
                    std::span<const std::string> words);

// For the scripts: a line for each candidate, VALUE or VALUE<tab>DESCRIPTION, or one line for what
// only the shell knows: ":files", ":folders", ":command N" (with N words before it).
std::string render_completion(const Completion& completion);

}  // namespace trainyard::cli
