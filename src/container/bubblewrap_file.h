#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "container/plan.h"

namespace trainyard::container {

// What is to be carried, in a file: no values of variables but those of the image and the user's
// arguments.
struct Carried {
  std::string bwrap;  // Its file.
  // How it is told to show the root: when there is a layer, and when there can be none.
  std::vector<std::string> layered;
  std::vector<std::string> plain;
  std::vector<std::string> words;    // What else it is told, in both cases.
  std::vector<std::string> command;  // Inside.
  std::vector<Bind> binds;           // Those of `words`, for who looks for the command.
  std::string root;                  // What is shown.
  std::string layer;                 // For what is changed of it (bubblewrap_layer.h); empty: none.
  std::string below;                 // Another one's, which that begins with; empty: none.
  bool kept = false;                 // It is not removed at the end.
  bool all_variables = false;        // Every variable goes inside as it is.
  std::vector<std::string> variables;        // The names of those that do,
  std::map<std::string, std::string> given;  // over those that are set here.
  std::map<std::string, std::string> set;    // And over both.
  struct Limit {
    int resource = 0;  // RLIMIT_…
    uint64_t soft = 0;
    uint64_t hard = 0;
  };
  std::vector<Limit> limits;
  std::string note;  // A file for why there was no container (run_container.h); empty: none.
};

// The PATH of an image that has none.
inline constexpr std::string_view kPathInside =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

Status write_carried(const Carried& carried, const fs::path& file);
Result<Carried> read_carried(const fs::path& file);

// The variables inside, made of ours.
std::map<std::string, std::string> inside_variables(const Carried& carried,
                                                    const std::map<std::string, std::string>& ours);

}  // namespace trainyard::container
