#include "container/bubblewrap_file.h"

#include "container/arguments.h"
#include "wire/json.h"

namespace trainyard::container {
Status write_carried(const Carried& carried, const fs::path& file) {
  wire::Json limits = wire::Json::array();
  for (const Carried::Limit& limit : carried.limits) {
    limits.push_back({limit.resource, limit.soft, limit.hard});
  }
  wire::Json binds = wire::Json::array();
  for (const Bind& bind : carried.binds) binds.push_back({bind.source, bind.target});
  const wire::Json json{{"bwrap", carried.bwrap},
                        {"layered", carried.layered},
                        {"plain", carried.plain},
                        {"words", carried.words},
                        {"command", carried.command},
                        {"binds", binds},
                        {"root", carried.root},
                        {"layer", carried.layer},
                        {"below", carried.below},
                        {"kept", carried.kept},
                        {"allVariables", carried.all_variables},
                        {"variables", carried.variables},
                        {"given", carried.given},
                        {"set", carried.set},
                        {"limits", limits},
                        {"note", carried.note}};
  return write_file(file, wire::dump_pretty(json), 0600);
}

Result<Carried> read_carried(const fs::path& file) {
  TRY_SET(const std::string text, read_file(file));
  TRY_SET(const wire::Json json, wire::parse(text));
  Carried carried;
  try {
    json.at("bwrap").get_to(carried.bwrap);
    json.at("layered").get_to(carried.layered);
    json.at("plain").get_to(carried.plain);
    json.at("words").get_to(carried.words);
    json.at("command").get_to(carried.command);
    json.at("root").get_to(carried.root);
    json.at("layer").get_to(carried.layer);
    json.at("below").get_to(carried.below);
    json.at("kept").get_to(carried.kept);
    json.at("allVariables").get_to(carried.all_variables);
    json.at("variables").get_to(carried.variables);
    json.at("given").get_to(carried.given);
    json.at("set").get_to(carried.set);
    json.at("note").get_to(carried.note);
    for (const wire::Json& bind : json.at("binds")) {
      carried.binds.push_back({.source = bind.at(0), .target = bind.at(1)});
    }
    for (const wire::Json& limit : json.at("limits")) {
      carried.limits.push_back({limit.at(0), limit.at(1), limit.at(2)});
    }
  } catch (const std::exception& error) {
    return fail(ErrorKind::invalid, file.string() + ": " + error.what());
  }
  return carried;
}

std::map<std::string, std::string> inside_variables(
    const Carried& carried, const std::map<std::string, std::string>& ours) {
  std::map<std::string, std::string> inside = carried.all_variables ? ours : carried.given;
  for (const std::string& name : carried.variables) {
    if (const auto it = ours.find(name); it != ours.end()) inside[name] = it->second;
  }
  for (const auto& [name, value] : ours) {
    if (goes_inside(name)) inside[name] = value;
  }
  for (const auto& [name, value] : carried.set) inside[name] = value;
  inside.emplace("PATH", kPathInside);
  return inside;
}

}  // namespace trainyard::container
