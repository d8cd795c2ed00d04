#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/home.h"

namespace trainyard::agent {

// What a home keeps of the servers that its machine works for:
//
//   machine-id              this home's machine, made once
//   machines/KEY/           one a server and a way to be there
//     machine.json          the server, our name and key there, our credential; 0600
//     start.lock            held while the daemon is looked for, started, or goes
//     lock                  held by the daemon, with its pid
//     wanted                touched by who needs the daemon
//     log/agent.log, log/agent.err
//     node/RUN.ATTEMPT/     an attempt's supervisor at work, as in a server's home
struct Place {
  fs::path folder;     // machines/KEY
  std::string server;  // URL
  std::string key;     // Of the machine, at the server.
  std::string name;
  std::string workspace;
  bool personal = false;   // `local` of a person; else a target by its name.
  std::string credential;  // Empty for a person's own: their token is used.

  Home home() const { return Home(folder); }
  fs::path file() const { return folder / "machine.json"; }
  fs::path start_lock() const { return folder / "start.lock"; }
  fs::path lock() const { return folder / "lock"; }
  fs::path wanted() const { return folder / "wanted"; }
  fs::path log() const { return folder / "log" / "agent.log"; }
  fs::path errors() const { return folder / "log" / "agent.err"; }
};

// The folder for the server of this URL; `personal` ones are by whose they are too.
fs::path place_folder(const Home& home, std::string_view server, std::string_view personal_key);
Result<Place> read_place(const fs::path& folder);
Status write_place(const Place& place);
// All joined ones of this home; `personal` ones are left out.
std::vector<Place> joined_places(const Home& home);

Result<std::string> machine_uid(const Home& home);

// The daemon at work there.
struct Daemon {
  pid_t pid = 0;      // 0: none.
  std::string token;  // The SHA-256 of what it shows to the server.
};
Daemon daemon_of(const Place& place);
// The daemon's own words, in its lock.
std::string lock_text(pid_t pid, std::string_view token);

}  // namespace trainyard::agent
