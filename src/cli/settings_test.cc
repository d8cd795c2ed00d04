#include "cli/settings.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <cstdlib>

#include "cli/connect.h"

using namespace trainyard;
using namespace trainyard::cli;

TEST_CASE("settings come back as they were saved, and only their owner reads them") {
  const TempDir dir;
  for (const char* name : {"TRAINYARD_SERVER", "TRAINYARD_TOKEN", "TRAINYARD_HOME"}) unsetenv(name);
  setenv("XDG_CONFIG_HOME", dir.path().c_str(), 1);
  CHECK(load_settings()->server.empty());
  Settings settings{.output = "yaml", .workspace = "lab", .server = "http://yard:1", .servers = {}};
  settings.servers["http://yard:1"] = {"ada", "secret"};
  REQUIRE(save_settings(settings));
  const Settings loaded = load_settings().value();
  CHECK(loaded.output == "yaml");
  CHECK(loaded.workspace == "lab");
  CHECK(loaded.servers.at("http://yard:1").token == "secret");
  struct stat status{};
  REQUIRE(stat(settings_file().c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);

  // Flags and variables win over the saved server; its token goes with its URL alone.
  CHECK(find_place("", "")->url == "http://yard:1");
  CHECK(find_place("", "")->token == "secret");
  CHECK(find_place("", "", Saved::ignore)->url.empty());
  CHECK(find_place("", "/h")->url.empty());
  CHECK(find_place("http://yard:1", "")->token == "secret");
  CHECK(find_place("http://other:1", "")->token.empty());
  setenv("TRAINYARD_TOKEN", "mine", 1);
  CHECK(find_place("http://yard:1", "")->token == "mine");
  unsetenv("TRAINYARD_TOKEN");
  setenv("TRAINYARD_HOME", "/h", 1);
  CHECK(find_place("", "")->url.empty());
  unsetenv("TRAINYARD_HOME");
  REQUIRE(write_file(settings_file(), "nonsense"));
  CHECK(load_settings().error().message.contains("settings.json"));
  unsetenv("XDG_CONFIG_HOME");
}
