#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace trainyard::cli {

enum class Takes {
  nothing,  // A flag.
  value,    // The next word, or what follows '='. Given again: the last wins, or all are asked for.
  list,     // All words up to the next option, as `az` has it: --tags a=1 b=2.
};

enum class Since { now, later };  // later: known, and refused until its version.

// One row of a command's table of options.
struct Option {
  std::string_view names;  // "--experiment-name -e": the first is its key, without the dashes.
  Takes takes = Takes::nothing;
  std::string_view word;  // What it takes, for the help: "NAME".
  std::string_view help;  // Empty: not shown in the help.
  Since since = Since::now;

  std::string_view key() const;
  std::vector<std::string_view> all_names() const;
};

// What follows a lone "--".
enum class Rest {
  words,       // Plain words like those before it.
  apart,       // A command of the user's, kept for itself.
  after_word,  // The same, and it may begin without "--", with the first plain word.
};

struct Grammar {
  std::vector<std::span<const Option>> tables;  // An option is looked for in this order.
  int words_max = 0;
  Rest rest = Rest::words;
};

// A parsed command line. Asking for a key that no table has is our bug.
class Args {
 public:
  // `invalid` for what the tables do not know, with the nearest thing they do.
  static Result<Args> parse(const Grammar& grammar, std::span<const std::string> words);

  bool has(std::string_view key) const;
  // Whether the command has such an option at all.
  bool knows(std::string_view key) const { return values_.contains(key); }
  std::string value(std::string_view key, std::string_view otherwise = {}) const;
  const std::vector<std::string>& values(std::string_view key) const;
  const std::vector<std::string>& words() const { return words_; }
  const std::vector<std::string>& rest() const { return rest_; }
  bool has_rest() const { return has_rest_; }

 private:
  friend class Parser;
  // Every key of the tables, so that a mistyped question is found out.
  std::map<std::string, std::vector<std::string>, std::less<>> values_;
  std::vector<std::string> words_;
  std::vector<std::string> rest_;
  bool has_rest_ = false;
};

// Finds where the command's own words begin: options of `table` may stand before and between the
// words of a command's name. Returns the name's words and, in `left`, all others. `is_group` says
// whether a command's name goes on after these words: "run", "computetarget create".
struct Split {
  std::vector<std::string> name;
  std::vector<std::string> left;
};
Split split_name(std::span<const Option> table, std::span<const std::string> words,
                 bool (*is_group)(std::string_view));

inline bool is_option(std::string_view word) { return word.size() > 1 && word.front() == '-'; }
inline bool is_long(std::string_view word) { return word.starts_with("--"); }

// "K=V" pairs, the key not empty; `what` is the option, for the error.
Result<std::map<std::string, std::string>> parse_pairs(std::span<const std::string> pairs,
                                                       std::string_view what);

}  // namespace trainyard::cli
