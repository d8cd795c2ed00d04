#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard {

// What a command line gives its script by name: "--epochs 5", "--epochs=5", "-e 5". Guesses as
// people read: a word that begins with a dash and is followed by one that does not is a name and
// its value; one followed by nothing of that kind is a switch, "true".
std::map<std::string, std::string> command_parameters(const std::vector<std::string>& command);

// Gives the parameter another value, in the form it stands there; false when it is not there.
bool set_command_parameter(std::vector<std::string>& command, std::string_view name,
                           std::string_view value);

}  // namespace trainyard
