#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "snapshot/glob.h"

namespace trainyard::snapshot {

enum class Verdict { none, ignored, kept };

// The lines of one .amlignore or .gitignore, with git's meaning.
class IgnoreFile {
 public:
  IgnoreFile() = default;
  explicit IgnoreFile(std::string_view text);

  // What the last line that fits says of `path`, relative to the file's folder.
  Verdict judge(std::string_view path, bool is_folder) const;
  bool empty() const { return rules_.empty(); }

 private:
  struct Rule {
    bool negated = false;       // "!keep"
    bool folders_only = false;  // "build/"
    bool name_only = false;     // Without a slash: fits at any depth.
    bool suffix = false;        // "*.log": `literal` is what the name ends with.
    std::string literal;        // What it begins with, free of special characters.
    Glob rest;
    bool has_rest = false;

    bool fits(std::string_view text) const;
  };
  void add_line(std::string_view line);

  std::vector<Rule> rules_;
};

// The ignore files that hold in one folder: its own and those above it.
struct IgnoreLevel {
  IgnoreFile file;
  size_t base = 0;  // How much of a path is the file's folder and its slash.
  std::shared_ptr<const IgnoreLevel> above;
};

// Whether `path`, whose parents are not ignored, is: the deepest file that says anything decides.
// That nothing below an ignored folder comes back is for the walk, which does not go there.
bool is_ignored(const IgnoreLevel* level, std::string_view path, bool is_folder);

}  // namespace trainyard::snapshot
