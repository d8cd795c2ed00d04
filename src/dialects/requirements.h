#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "model/environment.h"

namespace trainyard::dialects {

// What a requirements file says, ready for a recipe.
struct Requirements {
  std::vector<std::string> lines;     // Each with its place: "numpy==1.26  # requirements.txt:3".
  std::vector<std::string> options;   // "--index-url URL", "--constraint numpy<2".
  std::vector<std::string> left_out;  // Ours to provide: trainyard.

  // Puts them to those of an environment.
  void add_to(Environment& environment) const;
};

// Reads what pip reads, other files that it names (-r, -c) included. A fault is `invalid`,
// "FILE:LINE: …". Refused is what cannot be built elsewhere: a folder, an editable install of one.
Result<Requirements> read_requirements(const fs::path& file);
// `text` as if it stood in `file`; other files are found beside that.
Result<Requirements> parse_requirements(std::string_view text, const fs::path& file);

// Files of another machine, as a client sent them. Nothing on our own disk is looked at.
struct SentFiles {
  std::map<std::string, std::string> texts;  // By path, in its normal form.
  fs::path folder;                           // There: what a relative path is from.
  std::set<std::string> missing;             // Set by who reads: named, and not sent.
};
// What files that are missing say is not in it.
Result<Requirements> read_requirements(const fs::path& file, SentFiles& sent);

// One line, as of the `pip:` list of a conda file. Files it names are ours, or sent ones.
Status add_requirement(Requirements& into, std::string_view line, const std::string& place,
                       const fs::path& folder, SentFiles* sent = nullptr);

}  // namespace trainyard::dialects
