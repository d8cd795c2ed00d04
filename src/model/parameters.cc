#include "model/parameters.h"

namespace trainyard {
namespace {

// A negative number is a value.
bool is_name(std::string_view word) {
  if (word.size() < 2 || word[0] != '-' || word == "--") return false;
  return !(word[1] >= '0' && word[1] <= '9') && word[1] != '.';
}

std::string_view without_dashes(std::string_view word) {
  word.remove_prefix(word.starts_with("--") ? 2 : 1);
  return word;
}

// Where a parameter stands: the word that names it, and the one that holds its value.
struct Place {
  std::string_view name;
  size_t word = 0;
  bool joined = false;  // "--name=value"
  bool has_value = false;
};

// What stands before the script is its interpreter's: "python3 -u train.py --lr 1".
size_t first_of_script(const std::vector<std::string>& command) {
  const size_t slash = command.front().rfind('/');
  const std::string_view program =
      std::string_view(command.front()).substr(slash == std::string::npos ? 0 : slash + 1);
  for (const std::string_view known : {"python", "sh", "bash", "Rscript", "julia", "node", "perl",
                                       "ruby", "java", "torchrun", "accelerate", "deepspeed"}) {
    const bool same = program == known || (known == "python" && program.starts_with(known));
    if (!same) continue;
    size_t at = 1;
    while (at < command.size() && command[at].starts_with('-')) ++at;
    return at + 1;
  }
  return 1;
}

std::vector<Place> places_of(const std::vector<std::string>& command) {
  std::vector<Place> places;
  if (command.empty()) return places;
  for (size_t i = first_of_script(command); i < command.size(); ++i) {
    if (!is_name(command[i])) continue;
    const std::string_view text = without_dashes(command[i]);
    const size_t equals = text.find('=');
    if (equals != std::string_view::npos) {
      places.push_back({text.substr(0, equals), i, true, true});
      continue;
    }
    const bool has_value = i + 1 < command.size() && !is_name(command[i + 1]);
    places.push_back({text, i, false, has_value});
  }
  return places;
}

}  // namespace

std::map<std::string, std::string> command_parameters(const std::vector<std::string>& command) {
  std::map<std::string, std::string> parameters;
  for (const Place& place : places_of(command)) {
    const std::string& word = command[place.word];
    parameters[std::string(place.name)] = place.joined      ? word.substr(word.find('=') + 1)
                                          : place.has_value ? command[place.word + 1]
                                                            : "true";
  }
  return parameters;
}

bool set_command_parameter(std::vector<std::string>& command, std::string_view name,
                           std::string_view value) {
  bool found = false;
  for (const Place& place : places_of(command)) {
    if (place.name != name) continue;
    found = true;
    std::string& word = command[place.word];
    if (place.joined) {
      word = word.substr(0, word.find('=') + 1) + std::string(value);
    } else if (place.has_value) {
      command[place.word + 1] = value;
    } else {
      // A switch has no value; it gets one in the only form that moves no other word.
      word += "=" + std::string(value);
    }
    break;
  }
  return found;
}

}  // namespace trainyard
