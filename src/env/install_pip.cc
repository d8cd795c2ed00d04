#include <algorithm>

#include "base/text.h"
#include "env/index_settings.h"
#include "env/install.h"
#include "env/relocate.h"
#include "wire/json.h"

namespace trainyard::env {
namespace {

constexpr auto kAskWait = milliseconds(20'000);
constexpr uint64_t kReportMax = 256 << 20;
constexpr size_t kDigestSize = 64;              // Of a SHA-256 in hexadecimal digits.
constexpr std::string_view kPipFirst = "22.3";  // The first that installs for another interpreter.

// The interpreter whose pip can do it: the one it is for, or the machine's own. By its real file: a
// shim is of no use in a sandbox.
Result<fs::path> python_with_pip(const Install& install, const Settings& settings) {
  std::string found;
  std::vector<fs::path> pythons = {install.python.file};
  if (const auto own = find_python("", settings)) pythons.push_back(own->file);
  pythons.push_back(find_program("python3", settings.variables));
  for (const fs::path& python : pythons) {
    if (python.empty()) continue;
    Program asked{.command = {python, "-m", "pip", "--version"},
                  .variables = plain_variables(settings),
                  .folder = "/"};
    const bool ours = !install.made || python != install.python.file;
    if (!ours) {
      asked = in_sandbox(std::move(asked), install, settings, Code::packages, {install.folder});
    }
    const auto text = output_of(asked, kAskWait);
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

// What pip's report says of an artifact: "sha256:…"; empty: a repository's.
std::string artifact_hash(const wire::Json& item) {
  const auto info = item.find("download_info");
  if (info == item.end() || !info->is_object()) return {};
  const auto archive = info->find("archive_info");
  if (archive == info->end() || !archive->is_object()) return {};
  if (const auto hashes = archive->find("hashes");
      hashes != archive->end() && hashes->is_object()) {
    return wire::string_member(*hashes, "sha256").value_or("");
  }
  const std::string one = wire::string_member(*archive, "hash").value_or("");
  return one.starts_with("sha256=") ? one.substr(7) : "";
}

Result<Hashes> read_report(const fs::path& folder, const fs::path& file) {
  Hashes hashes;
  std::error_code none;
  if (!is_plain_file_inside(folder, file) || fs::file_size(file, none) > kReportMax) return hashes;
  TRY_SET(const std::string text, read_file(file));
  TRY_SET(const wire::Json json, wire::parse(text));
  const auto items = json.is_object() ? json.find("install") : json.end();
  if (items == json.end() || !items->is_array()) return hashes;
  for (const wire::Json& item : *items) {
    if (!item.is_object() || !item.contains("metadata")) continue;
    const std::string name = wire::string_member(item.at("metadata"), "name").value_or("");
    const std::string hash = artifact_hash(item);
    const bool hex = hash.find_first_not_of("0123456789abcdef") == std::string::npos;
    if (!name.empty() && hash.size() == kDigestSize && hex) {
      hashes[package_name(name)] = " --hash=sha256:" + hash;
    }
  }
  return hashes;
}

class PipInstall {
 public:
  PipInstall(const Install& install, const Settings& settings, Watcher& watcher)
      : install_(install), settings_(settings), watcher_(watcher) {
    variables_ = settings.variables;
    add_pip_settings(variables_);
    Settings named = settings;
    named.variables = variables_;
    variables_ = plain_variables(named);
    variables_["PIP_DISABLE_PIP_VERSION_CHECK"] = "1";
    variables_["PIP_NO_INPUT"] = "1";
  }

  Result<Hashes> run() {
    const fs::path& folder = install_.folder;
    TRY(write_lines("constraints.txt", install_.constraints));
    // pip wants a hash for every line of a file, or for none; a repository of a lock has none.
    std::vector<std::string> hashed;
    std::vector<std::string> others;
    for (const std::string& line : install_.lines) {
      const bool apart = install_.exact && hashes_of(line).empty();
      (apart ? others : hashed).push_back(line);
    }
    TRY(write_lines("requirements.txt", hashed));
    TRY(write_lines("others.txt", others));
    const bool brings_pip = has_own_pip(install_);
    fs::path python;
    if (!install_.lines.empty() && !brings_pip) {
      TRY_SET(python, python_with_pip(install_, settings_));
    }
    TRY_SET(const std::unique_ptr<Apart> apart, Apart::begin(settings_, folder));
    variables_["PIP_CACHE_DIR"] = apart->cache();
    if (!install_.made) {
      // Debian has ensurepip in a package of its own; pip is not needed inside.
      TRY(step({install_.python.file, "-m", "venv", "--without-pip", "--symlinks", "root"},
               "python -m venv", *apart));
    }
    if (brings_pip) TRY(add_own_pip(*apart));
    if (!hashed.empty()) TRY(step(words_for(python, "requirements.txt"), "pip", *apart));
    if (!others.empty()) TRY(step(words_for(python, "others.txt"), "pip", *apart));
    TRY(apart->end());
    TRY_SET(Hashes hashes, read_report(folder, folder / "requirements.txt.json"));
    TRY_SET(Hashes more, read_report(folder, folder / "others.txt.json"));
    hashes.merge(more);
    for (const std::string& line : install_.lines) {
      const std::string own = hashes_of(line);
      if (!own.empty()) hashes[parse_requirement(line).name] = own;
    }
    TRY(make_relocatable(install_.root()));
    return hashes;
  }

 private:
  Status write_lines(const char* name, const std::vector<std::string>& lines) const {
    return write_file(install_.folder / name, join(lines, "\n") + "\n");
  }

  Status step(std::vector<std::string> words, std::string_view name, const Apart& apart) {
    PipProgress progress(watcher_);
    return run_step(in_sandbox({std::move(words), variables_, install_.folder}, install_, settings_,
                               Code::packages, {install_.folder}, apart.scratch()),
                    name, install_, watcher_,
                    [&](std::string_view line) { return progress.line(line); });
  }

  // What ensurepip brings is as old as the interpreter and knows few of today's wheels: the newest
  // that the index has for it is tried.
  Status add_own_pip(const Apart& apart) {
    const std::string python = install_.root() / "bin" / "python";
    TRY(step({python, "-m", "ensurepip", "--default-pip"}, "python -m ensurepip", apart));
    std::vector<std::string> words = {python, "-m", "pip", "install",    "--retries",
                                      "1",    "-U", "pip", "setuptools", "wheel"};
    add_options(words, "");
    if (const Status newer = step(std::move(words), "pip", apart); !newer) {
      if (newer.error().kind == ErrorKind::cancelled) return newer;
      watcher_.line("The pip that comes with Python " + install_.python.version + " is used.");
    }
    return {};
  }

  // pip 22.2 is the first that reports what it installed.
  bool own_pip_reports() const {
    const fs::path packages =
        install_.root() / "lib" / ("python" + install_.python.short_version()) / "site-packages";
    std::error_code error;
    for (fs::directory_iterator entry(packages, error), end; !error && entry != end;
         entry.increment(error)) {
      const std::string name = entry->path().filename();
      if (!name.starts_with("pip-") || !name.ends_with(".dist-info")) continue;
      return is_version(name.substr(4, name.size() - 4 - 10), ">=22.2");
    }
    return false;
  }

  void add_options(std::vector<std::string>& words, const std::string& file) const {
    for (const auto& [name, value] : install_.options) {
      if (name == "--constraint" || (name == "--require-hashes" && file != "requirements.txt")) {
        continue;
      }
      words.push_back(name);
      if (!value.empty()) words.push_back(value);
    }
  }

  std::vector<std::string> words_for(const fs::path& python, const std::string& file) const {
    const std::string inside = install_.root() / "bin" / "python";
    const bool own = has_own_pip(install_);
    std::vector<std::string> words = {own ? inside : python.string(), "-m", "pip"};
    if (!own) words.insert(words.end(), {"--python", inside});
    words.insert(words.end(), {"install", "-r", file, "--no-compile", "--progress-bar", "off"});
    if (!own || own_pip_reports()) words.insert(words.end(), {"--report", file + ".json"});
    if (install_.exact) words.emplace_back("--no-deps");
    if (!install_.constraints.empty()) words.insert(words.end(), {"-c", "constraints.txt"});
    add_options(words, file);
    return words;
  }

  const Install& install_;
  const Settings& settings_;
  Watcher& watcher_;
  Variables variables_;
};

}  // namespace

bool has_own_pip(const Install& install) {
  return !install.made && is_version(install.python.version, "<3.8");
}

Result<Hashes> install_by_pip(const Install& install, const Settings& settings, Watcher& watcher) {
  return PipInstall(install, settings, watcher).run();
}

}  // namespace trainyard::env
