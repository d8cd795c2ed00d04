#pragma once

#include <poll.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/variables.h"
#include "env/build.h"
#include "env/programs.h"

// What tests of builds share. Packages are small wheels that they make themselves: no network.
namespace trainyard::env {

// Our own variables, and folders of the test's own.
inline Settings test_settings(const fs::path& folder) {
  Settings settings;
  settings.variables = own_variables();
  settings.cache = folder / "cache";
  settings.blobs = folder / "blobs";
  return settings;
}

// Everything it was told.
class Recorder : public Watcher {
 public:
  void line(std::string_view text) override { lines.emplace_back(text); }
  void progress(std::string_view words) override { steps.emplace_back(words); }
  bool stopped() const override { return stop && stop(); }

  std::string text() const {
    std::string all;
    for (const std::string& line : lines) all += line + "\n";
    return all;
  }

  std::vector<std::string> lines;
  std::vector<std::string> steps;
  std::function<bool()> stop;
};

// Whether it ends within a time that no machine needs.
inline bool ends(const std::string& pid) {
  for (int tries = 0; tries < 10'000; ++tries) {
    const auto state = read_file("/proc/" + pid + "/stat");
    if (!state || state->find(") Z") != std::string::npos) return true;
    ::poll(nullptr, 0, 1);
  }
  return false;
}

// A program that does what the shell text says.
inline void write_program(const fs::path& file, const std::string& text) {
  static_cast<void>(make_dirs(file.parent_path()).has_value());
  static_cast<void>(write_file(file, "#!/bin/sh\n" + text, 0755).has_value());
}

}  // namespace trainyard::env
