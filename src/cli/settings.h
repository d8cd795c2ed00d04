#pragma once

#include <map>
#include <string>

#include "base/file.h"
#include "base/result.h"

namespace trainyard::cli {

// What a person has saved for all commands. Flags and environment variables win over it.
struct Settings {
  struct Server {
    std::string user;
    std::string token;
  };
  std::string output;                     // A format; empty: none set.
  std::string workspace;                  // Empty: none set.
  std::string server;                     // The URL that commands use; empty: the home's own.
  std::map<std::string, Server> servers;  // By URL.
};

// $XDG_CONFIG_HOME/trainyard/settings.json, by default ~/.config/trainyard/settings.json. Apart
// from $TRAINYARD_HOME: that is what backups and other people's admins see. Empty without a home.
fs::path settings_file();

// Empty settings where there is no file.
Result<Settings> load_settings();
// Readable by nobody else: it has tokens.
Status save_settings(const Settings& settings);

}  // namespace trainyard::cli
