#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/file.h"
#include "base/result.h"
#include "env/sandbox.h"
#include "model/environment.h"

namespace trainyard::env {

// What building needs to know of this machine.
struct Settings {
  // PATH, HOME, proxies, PIP_…, UV_…, SSL_CERT_FILE and the like, for the programs it starts.
  std::map<std::string, std::string> variables;
  fs::path cache;                 // Where packages are kept for the next build.
  fs::path blobs;                 // The server's, for a build folder (Recipe::context).
  std::string engine_socket;      // Of docker or podman; empty: the usual places are looked at.
  std::string registry_password;  // Of Environment::registry.
  std::optional<Sandbox> sandbox = {};  // For every program of a build; absent: as we are.
  // Set where packages must not be installed: there is no sandbox, and whoever asks is no admin. It
  // says why. Images are built all the same: their engine confines them.
  std::optional<Error> refusal = {};
};

// Who watches a build. Called on the builder's thread.
class Watcher {
 public:
  virtual ~Watcher() = default;
  virtual void line(std::string_view text) = 0;       // Of the log, without its end.
  virtual void progress(std::string_view words) = 0;  // "14 of 31 packages"
  virtual bool stopped() const = 0;                   // It is not wanted any more.
};

// Makes it in `folder`, a new one (Shelf::make). What the user can mend is `invalid`, with the
// resolver's own words and the line of the file.
Result<Realised> build(const Environment& environment, const fs::path& folder,
                       const Settings& settings, Watcher& watcher);

// What the hash has to know of the machine: "linux-x86_64-cpython-3.11"; of a container
// "linux-x86_64". `not_found` where the asked Python is not here.
Result<std::string> platform_of(const Recipe& recipe, const Settings& settings);

}  // namespace trainyard::env
