#include "cli/settings.h"

#include <cstdlib>

#include "wire/json.h"

namespace trainyard::cli {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string text_in(const wire::Json& json, std::string_view key) {
  const wire::Json& value = wire::member(json, key);
  return value.is_string() ? value.get<std::string>() : "";
}

}  // namespace

fs::path settings_file() {
  fs::path folder = variable("XDG_CONFIG_HOME");
  if (!folder.is_absolute()) {
    const std::string home = variable("HOME");
    if (home.empty()) return {};
    folder = fs::path(home) / ".config";
  }
  return folder / "trainyard" / "settings.json";
}

Result<Settings> load_settings() {
  Settings settings;
  const fs::path file = settings_file();
  if (file.empty() || !is_file(file)) return settings;
  TRY_SET(const std::string text, read_file(file));
  const auto json = wire::parse(text);
  if (!json || !json->is_object()) {
    return fail(ErrorKind::invalid, file.string() + ": not a JSON object",
                "Remove the file, and set what you need again: trainyard configure, login.");
  }
  settings.output = text_in(*json, "output");
  settings.workspace = text_in(*json, "workspace");
  settings.server = text_in(*json, "server");
  const wire::Json& servers = wire::member(*json, "servers");
  if (!servers.is_object()) return settings;
  for (const auto& [url, server] : servers.items()) {
    settings.servers[url] = {text_in(server, "user"), text_in(server, "token")};
  }
  return settings;
}

Status save_settings(const Settings& settings) {
  const fs::path file = settings_file();
  if (file.empty()) {
    return fail(ErrorKind::invalid, "no folder to keep settings in",
                "Set HOME or XDG_CONFIG_HOME.");
  }
  wire::Json json = {{"output", settings.output},
                     {"workspace", settings.workspace},
                     {"server", settings.server},
                     {"servers", wire::Json::object()}};
  for (const auto& [url, server] : settings.servers) {
    json["servers"][url] = {{"user", server.user}, {"token", server.token}};
  }
  TRY(make_dirs(file.parent_path(), 0700));
  return write_file(file, wire::dump_pretty(json) + "\n", 0600);
}

}  // namespace trainyard::cli
