#include "env/python.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <compare>
#include <iterator>
#include <set>
#include <vector>

#include "base/hash.h"
#include "base/text.h"
#include "env/build_conda.h"
#include "env/conda_packages.h"
#include "env/programs.h"

namespace trainyard::env {
namespace {

// A cold disk, or a shim that asks another program first.
constexpr auto kProbeWait = milliseconds(20'000);
constexpr int kMinorMax = 30;  // python3.30 is the newest that is looked for.

// `_base_executable`: of one in a virtual environment, what that stands on.
constexpr std::string_view kProbe =
    "import os, sys\n"
    "print('%d.%d.%d' % sys.version_info[:3])\n"
    "print(getattr(sys, 'implementation', None) and sys.implementation.name or 'cpython')\n"
    "print(os.uname()[4])\n"
    "print(getattr(sys, '_base_executable', None) or sys.executable)\n";

using Numbers = std::vector<int64_t>;

// "3.11.2" -> 3, 11, 2; what follows that is no number ("rc1") is dropped.
Numbers numbers_of(std::string_view version) {
  Numbers numbers;
  for (const std::string& part : split(version, '.')) {
    const size_t digits = std::min(part.find_first_not_of("0123456789"), part.size());
    const auto number = parse_int(std::string_view(part).substr(0, digits), "version");
    if (!number) break;
    numbers.push_back(*number);
    if (digits < part.size()) break;
  }
  return numbers;
}

bool begins_with(const Numbers& numbers, const Numbers& with) {
  return with.size() <= numbers.size() && std::equal(with.begin(), with.end(), numbers.begin());
}

// As if both had the same length: 3.8 is 3.8.0.
std::strong_ordering compare(Numbers a, Numbers b) {
  const size_t size = std::max(a.size(), b.size());
  a.resize(size);
  b.resize(size);
  return a <=> b;
}

bool fulfils(const Numbers& version, std::string_view clause) {
  constexpr std::string_view kOperators = "<>=!~";
  const size_t end = std::min(clause.find_first_not_of(kOperators), clause.size());
  const std::string_view how = clause.substr(0, end);
  std::string_view rest = trim(clause.substr(end));
  if (rest.ends_with(".*")) rest.remove_suffix(2);
  const Numbers asked = numbers_of(rest);
  if (asked.empty()) return false;
  if (how.empty() || how == "=" || how == "==" || how == "===") return begins_with(version, asked);
  if (how == "!=") return !begins_with(version, asked);
  const auto order = compare(version, asked);
  if (how == "~=") {
    return order >= 0 && begins_with(version, Numbers(asked.begin(), asked.end() - 1));
  }
  if (how == ">=") return order >= 0;
  if (how == "<=") return order <= 0 || begins_with(version, asked);
  if (how == ">") return order > 0 && !begins_with(version, asked);
  return how == "<" && order < 0;
}

// ---- what an interpreter says of itself ----

std::string identity_of(const fs::path& file) {
  struct stat about{};
  if (::stat(file.c_str(), &about) != 0) return {};
  return file.string() + "\n" + std::to_string(about.st_ino) + " " + std::to_string(about.st_size) +
         " " + std::to_string(about.st_mtim.tv_sec) + "." + std::to_string(about.st_mtim.tv_nsec);
}

// The file's identity as long as it does not change. The answer of a script depends on more than
// itself, so it has none, but for a shim of pyenv's: asking that takes a tenth of a second, and
// what it goes by is known.
std::string stamp_of(const fs::path& file, const Settings& settings) {
  const auto fd = open_file(file, O_RDONLY);
  if (!fd) return {};
  if (read_at(fd->get(), 0, 2, "interpreter").value_or("#!") != "#!") return identity_of(file);
  const fs::path version = file.parent_path().parent_path() / "version";
  const std::string chosen = identity_of(version);
  if (file.parent_path().filename() != "shims" || chosen.empty()) return {};
  return identity_of(file) + "\n" + chosen + "\n" + variable(settings.variables, "PYENV_VERSION");
}

Result<Python> parse_probe(const std::string& text, const fs::path& file) {
  const std::vector<std::string> lines = split(text, '\n');
  if (lines.size() < 4 || numbers_of(lines[0]).size() != 3) {
    return fail(ErrorKind::invalid, file.string() + " is no Python: it says '" +
                                        std::string(trim(text.substr(0, 80))) + "'");
  }
  return Python{lines[3], lines[0], lines[1], lines[2]};
}

Result<Python> probe(const fs::path& file, const Settings& settings) {
  const std::string stamp = stamp_of(file, settings);
  const fs::path kept = settings.cache / "pythons" / sha256(stamp).hex();
  if (!stamp.empty()) {
    const auto text = read_file(kept);
    if (text) {
      auto python = parse_probe(*text, file);
      if (python && ::access(python->file.c_str(), X_OK) == 0) return python;
    }
  }
  TRY_SET(const std::string text,
          output_of({.command = {file, "-I", "-S", "-c", std::string(kProbe)},
                     .variables = settings.variables,
                     .folder = "/"},
                    kProbeWait));
  TRY_SET(Python python, parse_probe(text, file));
  // A cache that cannot be written costs time, not the build.
  if (!stamp.empty() && make_dirs(kept.parent_path())) static_cast<void>(write_file(kept, text));
  return python;
}

// ---- where they are ----

// Folders of interpreters that are not in PATH: one a version.
std::vector<fs::path> kept_pythons(const Settings& settings) {
  const std::string home = variable(settings.variables, "HOME");
  const auto below = [&](const std::string& name, const fs::path& otherwise) {
    const std::string value = variable(settings.variables, name);
    return value.empty() ? (home.empty() ? fs::path() : fs::path(home) / otherwise)
                         : fs::path(value);
  };
  std::vector<fs::path> found;
  for (const fs::path& folder : {below("PYENV_ROOT", ".pyenv") / "versions",
                                 below("UV_PYTHON_INSTALL_DIR", ".local/share/uv/python")}) {
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
         entry.increment(error)) {
      const fs::path file = entry->path() / "bin" / "python3";
      if (::access(file.c_str(), X_OK) == 0) found.push_back(file);
    }
  }
  // The newest first; the names are "3.8.18" and "cpython-3.8.18-linux-…".
  const auto version = [](const fs::path& file) {
    const std::string name = file.parent_path().parent_path().filename();
    return numbers_of(name.substr(std::min(name.find_first_of("0123456789"), name.size())));
  };
  std::ranges::sort(found, [&](const auto& a, const auto& b) { return version(a) > version(b); });
  return found;
}

std::vector<fs::path> in_path(const std::string& name, const Settings& settings) {
  std::vector<fs::path> found;
  const auto path = settings.variables.find("PATH");
  if (path == settings.variables.end()) {
    found.push_back(find_program(name, settings.variables));
    return found;
  }
  for (const std::string& folder : split(path->second, ':')) {
    found.push_back(find_program(name, {{"PATH", folder}}));
  }
  return found;
}

// In the order in which they are tried, one stage after another: every submission asks, and most
// find theirs in the first.
enum class Stage { of_that_name, python3, python, others };

std::vector<fs::path> candidates(Stage stage, const std::string& asked, const Settings& settings) {
  const Numbers numbers = numbers_of(asked);
  switch (stage) {
    case Stage::of_that_name:
      if (numbers.size() < 2) return {};
      return in_path("python" + std::to_string(numbers[0]) + "." + std::to_string(numbers[1]),
                     settings);
    case Stage::python3:
      return in_path("python3", settings);
    case Stage::python:
      return in_path("python", settings);
    case Stage::others:
      break;
  }
  if (asked.empty()) return {};
  std::vector<fs::path> found;
  for (int minor = kMinorMax; minor >= 0; --minor) {
    std::ranges::copy(in_path("python3." + std::to_string(minor), settings),
                      std::back_inserter(found));
  }
  std::ranges::copy(kept_pythons(settings), std::back_inserter(found));
  return found;
}

std::unexpected<Error> none_here(const std::string& asked, const std::set<std::string>& here,
                                 const Settings& settings) {
  std::vector<std::string> versions(here.begin(), here.end());
  std::ranges::sort(versions, {}, numbers_of);
  const std::string what = asked.empty() ? "no Python is here" : "Python " + asked + " is not here";
  const std::string there = versions.empty() ? "" : "; here is " + join(versions, ", ");
  const bool has_uv = !find_program("uv", settings.variables).empty();
  const std::string plain = asked.empty() ? "3" : asked.substr(asked.find_first_of("0123456789"));
  const std::vector<std::string> words = split(plain, '.');
  if (words.size() > 1 && words[0] == "3" && (words[1] == "6" || words[1] == "7")) {
    return fail(ErrorKind::not_found, what + there,
                "Install it on the server's machine with pyenv (`pyenv install " + words[0] + "." +
                    words[1] + "`), or use an image that has it (--image).");
  }
  return fail(ErrorKind::not_found, what + there,
              "Ask for one that is here, or install it on the server's machine: " +
                  (has_uv ? "`uv python install " + plain + "` fetches one"
                          : std::string("`apt-get install python3`, pyenv, or uv (`pip install "
                                        "uv`, then `uv python install " +
                                        plain + "`)")) +
                  ".");
}

std::string machine_name() {
  struct utsname about{};
  return ::uname(&about) == 0 ? about.machine : "unknown";
}

}  // namespace

std::string Python::short_version() const {
  const Numbers numbers = numbers_of(version);
  return std::to_string(numbers.at(0)) + "." + std::to_string(numbers.at(1));
}

std::string Python::platform() const {
  return "linux-" + machine + "-" + implementation + "-" + short_version();
}

bool is_version(std::string_view version, std::string_view asked) {
  const Numbers numbers = numbers_of(version);
  return std::ranges::all_of(split(asked, ','), [&](const std::string& clause) {
    return trim(clause).empty() || fulfils(numbers, trim(clause));
  });
}

Result<Python> find_python(const std::string& asked, const Settings& settings) {
  if (asked.find('/') != std::string::npos) {
    if (!asked.starts_with('/')) {
      return fail(ErrorKind::invalid, "the interpreter '" + asked + "' is no absolute path");
    }
    if (::access(asked.c_str(), X_OK) != 0) {
      return fail(ErrorKind::not_found, "the interpreter " + asked + " is not on this machine",
                  "It has to be there on the server's machine, where environments are built.");
    }
    return probe(asked, settings);
  }
  if (!asked.empty() && asked.find_first_of("0123456789") == std::string::npos) {
    return fail(ErrorKind::invalid, "'" + asked + "' is no version of Python",
                "A version is written like 3.11, an interpreter as an absolute path.");
  }
  std::set<std::string> here;
  std::set<fs::path> tried;
  for (const Stage stage : {Stage::of_that_name, Stage::python3, Stage::python, Stage::others}) {
    for (const fs::path& file : candidates(stage, asked, settings)) {
      if (file.empty() || !tried.insert(file).second) continue;
      auto python = probe(file, settings);
      if (!python) continue;  // A shim without a version behind it.
      if (is_version(python->version, asked)) return python;
      here.insert(python->version);
    }
  }
  return none_here(asked, here, settings);
}

std::vector<std::string> python_platforms(const Settings& settings,
                                          const std::function<bool()>& stopped) {
  std::set<std::string> found;
  std::set<fs::path> tried;
  for (const Stage stage : {Stage::python3, Stage::python, Stage::others}) {
    for (const fs::path& file : candidates(stage, ">=3", settings)) {
      if (stopped && stopped()) return {};
      if (file.empty() || !tried.insert(file).second) continue;
      if (const auto python = probe(file, settings)) found.insert(python->platform());
    }
  }
  return {found.begin(), found.end()};
}

Result<std::string> platform_of(const Recipe& recipe, const Settings& settings) {
  std::string asked = recipe.python;
  switch (recipe.kind) {
    case EnvironmentKind::system:
      return std::string();
    case EnvironmentKind::container:
      return "linux-" + machine_name();
    case EnvironmentKind::conda: {
      // conda brings its own Python; without it the packages become a virtual environment, and
      // what cannot is told here, before anything is built.
      if (!find_conda(settings.variables).empty()) return "linux-" + machine_name() + "-conda";
      Environment environment;
      environment.recipe = recipe;
      TRY_SET(const AsVenv venv, as_venv(environment));
      asked = venv.environment.recipe.python;
      break;
    }
    case EnvironmentKind::venv:
      break;
  }
  TRY_SET(const Python python, find_python(asked, settings));
  return python.platform();
}

}  // namespace trainyard::env
