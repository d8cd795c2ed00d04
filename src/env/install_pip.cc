#include <algorithm>

#include "base/text.h"
#include "env/install.h"
#include "env/relocate.h"

namespace trainyard::env {
namespace {

constexpr auto kAskWait = milliseconds(20'000);
constexpr std::string_view kPipFirst = "22.3";  // The first that installs for another interpreter.

// The interpreter whose pip can do it: the one it is for, or the machine's own.
Result<fs::path> python_with_pip(const Install& install, const Settings& settings) {
  std::string found;
  for (const fs::path& python :
       {install.python.file, find_program("python3", settings.variables)}) {
    if (python.empty()) continue;
    const auto text = output_of({.command = {python, "-m", "pip", "--version"},
                                 .variables = plain_variables(settings),
                                 .folder = "/"},
                                kAskWait);
    if (!text || !text->starts_with("pip ")) continue;
    const std::string version = text->substr(4, text->find(' ', 4) - 4);
    if (is_version(version, ">=" + std::string(kPipFirst))) return python;
    found = version;
  }
  const std::string what = found.empty() ? "neither uv nor pip is on the server's machine"
                                         : "pip " + found + " is too old: it takes " +
                                               std::string(kPipFirst) + ", or uv";
  return fail(ErrorKind::not_found, what,
              "Install one there: `apt-get install python3-pip`, or uv (`pip install uv`, with its "
              "folder in the server's PATH).");
}

// "Installing collected packages: a, b, c" -> 3
int installing(std::string_view line) {
  constexpr std::string_view kCollected = "Installing collected packages: ";
  if (!line.starts_with(kCollected)) return 0;
  return static_cast<int>(std::ranges::count(line, ',')) + 1;
}

class PipProgress {
 public:
  explicit PipProgress(Watcher& watcher) : watcher_(watcher) { watcher_.progress("resolving"); }

  bool line(std::string_view text) {
    if (trim(text).starts_with("Collecting ")) {
      found_ += 1;
      watcher_.progress("resolving, " + std::to_string(found_) + " found");
    }
    if (const int count = installing(text); count > 0) {
      total_ = count;
      watcher_.progress("installing " + std::to_string(count) + " packages");
    }
    if (text.starts_with("Successfully installed")) {
      watcher_.progress(std::to_string(total_) + " of " + std::to_string(total_) + " packages");
    }
    return true;
  }

 private:
  Watcher& watcher_;
  int found_ = 0;
  int total_ = 0;
};

}  // namespace

Status install_by_pip(const Install& install, const Settings& settings, Watcher& watcher) {
  Variables variables = plain_variables(settings);
  variables.try_emplace("PIP_CACHE_DIR", settings.cache / "pip");
  variables["PIP_DISABLE_PIP_VERSION_CHECK"] = "1";
  variables["PIP_NO_INPUT"] = "1";
  const auto all = [](std::string_view) { return true; };
  if (!install.made) {
    // Debian has ensurepip in a package of its own; pip is not needed inside.
    TRY(run_step({{install.python.file, "-m", "venv", "--without-pip", "--symlinks", "root"},
                  variables,
                  install.folder},
                 "python -m venv", install, watcher, all));
  }
  if (!install.file.empty()) {
    TRY_SET(const fs::path python, python_with_pip(install, settings));
    std::vector<std::string> words = {python,
                                      "-m",
                                      "pip",
                                      "--python",
                                      install.root() / "bin" / "python",
                                      "install",
                                      "-r",
                                      install.file.filename(),
                                      "--no-compile",
                                      "--progress-bar",
                                      "off"};
    if (install.exact) words.emplace_back("--no-deps");
    if (!install.constraints.empty()) {
      words.insert(words.end(), {"-c", install.constraints.filename()});
    }
    for (const auto& [name, value] : install.options) {
      if (name == "--constraint") continue;
      words.push_back(name);
      if (!value.empty()) words.push_back(value);
    }
    PipProgress progress(watcher);
    TRY(run_step({std::move(words), variables, install.folder}, "pip", install, watcher,
                 [&](std::string_view line) { return progress.line(line); }));
  }
  return make_relocatable(install.root());
}

}  // namespace trainyard::env
