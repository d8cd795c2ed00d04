#include <stdlib.h>

#include <algorithm>
#include <cerrno>

#include "base/text.h"
#include "env/index_settings.h"
#include "env/install.h"
#include "env/lock.h"

namespace trainyard::env {
namespace {

constexpr uint64_t kExactMax = 64 << 20;  // Of a resolver's answer, in bytes.

// "Resolved 31 packages in 1.2s" -> 31
int count_in(std::string_view line, std::string_view verb) {
  if (!line.starts_with(verb)) return 0;
  const std::string_view rest = trim(line.substr(verb.size()));
  const auto count = parse_int(rest.substr(0, rest.find(' ')), "count");
  return count && rest.find("package") != std::string_view::npos ? static_cast<int>(*count) : 0;
}

// uv draws bars for a terminal and says little to a file. How far it is shows in what it has put
// into its cache since it knew what to fetch.
class UvProgress {
 public:
  UvProgress(fs::path cache, Watcher& watcher) : cache_(std::move(cache)), watcher_(watcher) {
    watcher_.progress("resolving");
  }

  // Whether it belongs in the log.
  bool line(std::string_view text) {
    if (const int count = count_in(text, "Resolved "); count > 0) {
      total_ = count;
      kept_before_ = kept();
      say(0);
    }
    if (count_in(text, "Prepared ") > 0) prepared_ = true;
    if (const int count = count_in(text, "Installed "); count > 0) say(total_ = count);
    if (text.starts_with("DEBUG Identified uncached distribution:")) fetched_ += 1;
    return !text.starts_with("DEBUG ") && !text.starts_with("TRACE ");
  }

  void tick() {
    if (total_ == 0 || prepared_) return;
    const int here = std::max(0, total_ - fetched_);
    say(std::min(total_, here + static_cast<int>(kept() - kept_before_)));
  }

 private:
  int64_t kept() const {
    int64_t count = 0;
    std::error_code error;
    for (fs::directory_iterator entry(cache_ / "archive-v0", error), end; !error && entry != end;
         entry.increment(error)) {
      count += 1;
    }
    return count;
  }

  void say(int count) {
    const std::string words = std::to_string(count) + " of " + std::to_string(total_) + " packages";
    if (words != said_) watcher_.progress(words);
    said_ = words;
  }

  fs::path cache_;
  Watcher& watcher_;
  int total_ = 0;
  int fetched_ = 0;
  int64_t kept_before_ = 0;
  bool prepared_ = false;
  std::string said_;
};

// pip's options as uv takes them.
std::vector<std::string> arguments_of(const std::vector<PipOption>& options) {
  std::vector<std::string> arguments;
  bool several_indexes = false;
  for (const auto& [name, value] : options) {
    if (name == "--pre") {
      arguments.insert(arguments.end(), {"--prerelease", "allow"});
    } else if (name == "--trusted-host") {
      arguments.insert(arguments.end(), {"--allow-insecure-host", value});
    } else if (name == "--no-binary" || name == "--only-binary") {
      for (const std::string& package : split(value, ',')) {
        arguments.insert(arguments.end(), {name, package});
      }
    } else if (name != "--prefer-binary" && name != "--use-feature" && name != "--constraint") {
      arguments.push_back(name);
      if (!value.empty()) arguments.push_back(value);
    }
    several_indexes = several_indexes || name == "--extra-index-url";
  }
  // Files written for pip count on the best of all indexes; uv stops at the first that has a name.
  if (several_indexes) {
    arguments.insert(arguments.end(), {"--index-strategy", "unsafe-best-match"});
  }
  return arguments;
}

// One environment by uv.
class UvInstall {
 public:
  UvInstall(fs::path uv, const Install& install, const Settings& settings, Watcher& watcher)
      : uv_(std::move(uv)), install_(install), settings_(settings), watcher_(watcher) {
    variables_ = plain_variables(settings);
    add_index_settings(variables_);
    // HOME is another in a sandbox.
    const fs::path own = fs::path(variable(variables_, "HOME")) / ".config" / "uv" / "uv.toml";
    std::error_code none;
    if (fs::exists(own, none)) variables_.try_emplace("UV_CONFIG_FILE", own);
    variables_["UV_NO_PROGRESS"] = "1";
    variables_["UV_PYTHON_DOWNLOADS"] = "never";  // The one it is for has been found.
  }

  Result<Hashes> run() {
    if (install_.made) {
      TRY_SET(Hashes hashes, build_apart(install_.lines, install_.exact));
      return hashes.empty() ? hashes_of_installed() : hashes;
    }
    std::vector<std::string> lines = install_.lines;
    const bool resolves = needs_exact();
    if (resolves) {
      TRY_SET(lines, find_exact(install_.lines, Needs::too));
    }
    const bool alone = resolves || install_.exact;
    if (builds_a_package(lines) || has_credentials(lines)) return build_apart(lines, alone);
    const Status wheels = install_wheels(lines, alone);
    if (wheels) return hashes_in(lines);
    if (!needs_building(wheels.error())) return std::unexpected(wheels.error());
    watcher_.line("A package has no wheel: it is built, with a cache of its own.");
    TRY(remove_tree(install_.root()));
    return build_apart(lines, alone);
  }

 private:
  // Lines that have their hashes, or are a lock, say themselves what is to be installed.
  bool needs_exact() const {
    if (install_.exact || install_.lines.empty()) return false;
    return !std::ranges::all_of(install_.lines,
                                [](const std::string& line) { return !hashes_of(line).empty(); });
  }

  // Whether a line names something else than a wheel. The shared cache takes wheels alone: git and
  // the code of packages work with a cache of their own.
  bool builds_a_package(const std::vector<std::string>& lines) const {
    const auto is_no_wheel = [](const std::string& line) {
      std::string text = parse_requirement(line).text;
      text = text.substr(0, text.find(" --hash"));
      text = text.substr(0, text.find(" ;"));
      if (text.find('/') == std::string::npos) return false;  // A package of an index.
      return text.find("git+") != std::string::npos ||
             !trim(text.substr(0, text.find_first_of("#?"))).ends_with(".whl");
    };
    return std::ranges::any_of(lines, is_no_wheel) ||
           std::ranges::any_of(install_.options,
                               [](const PipOption& each) { return each.name == "--no-binary"; });
  }

  // What a password has fetched must not get into the shared cache: others would have it without.
  bool has_credentials(const std::vector<std::string>& lines) const {
    const auto is_one = [](std::string_view text) {
      const size_t begin = text.find("://");
      if (begin == std::string_view::npos) return false;
      const std::string_view rest = text.substr(begin + 3);
      return rest.substr(0, rest.find_first_of("/?# ")).find('@') != std::string_view::npos;
    };
    return std::ranges::any_of(lines, is_one) ||
           std::ranges::any_of(install_.options,
                               [&](const PipOption& each) { return is_one(each.value); });
  }

  static bool needs_building(const Error& error) {
    return error.message.find("no usable wheels") != std::string::npos ||
           error.message.find("ource distribution") != std::string::npos ||
           error.message.find("rom source") != std::string::npos ||
           error.message.find("--no-build") != std::string::npos;
  }

  Program step(std::vector<std::string> words, const fs::path& folder,
               const fs::path& cache) const {
    words.insert(words.begin(), uv_);
    Program program{std::move(words), variables_, folder};
    program.variables["UV_CACHE_DIR"] = cache;
    return program;
  }

  static Status write_lines(const fs::path& file, const std::vector<std::string>& lines) {
    return write_file(file, join(lines, "\n") + "\n");
  }

  enum class Needs { too, not_looked_at };  // What packages need themselves.

  Hashes look_up_hashes(const std::vector<std::string>& installed, Needs needs) {
    const auto exact = find_exact(installed, needs);
    if (exact) return hashes_in(*exact);
    watcher_.line("Hashes of packages were not found: " + exact.error().message);
    return {};
  }

  // Upon conda's packages uv decides what to install when it sees them; the hashes of that are
  // looked up afterwards. An index that has none for a package leaves the lock without.
  Hashes hashes_of_installed() {
    std::vector<std::string> installed =
        read_lock(install_.root(), "conda").value_or(std::vector<std::string>());
    std::erase_if(installed, [](const std::string& line) { return line.find("==") == line.npos; });
    if (installed.empty()) return {};
    Hashes hashes = look_up_hashes(installed, Needs::not_looked_at);
    // uv hashes a wheel that lies in a folder only when it reads what the wheel needs.
    if (hashes.size() < installed.size()) hashes.merge(look_up_hashes(installed, Needs::too));
    return hashes;
  }

  // Every package with its exact version and hashes. Code of packages may run: one without a wheel
  // says what it needs by its build backend.
  Result<std::vector<std::string>> find_exact(const std::vector<std::string>& asked, Needs needs) {
    const fs::path folder = install_.folder / "resolve";
    TRY(make_dirs(folder));
    TRY(write_lines(folder / "requirements.txt", asked));
    std::vector<std::string> words = {"pip",
                                      "compile",
                                      "requirements.txt",
                                      "--generate-hashes",
                                      "--python",
                                      install_.python.file,
                                      "--no-header",
                                      "--no-annotate",
                                      "--strip-extras",
                                      "-o",
                                      "exact.txt"};
    if (needs == Needs::not_looked_at) words.emplace_back("--no-deps");
    if (!install_.constraints.empty()) {
      TRY(write_lines(folder / "constraints.txt", install_.constraints));
      words.insert(words.end(), {"-c", "constraints.txt"});
    }
    for (std::string& word : arguments_of(install_.options)) {
      if (word != "--require-hashes") words.push_back(std::move(word));
    }
    TRY_SET(const std::unique_ptr<Apart> apart, Apart::begin(settings_, folder));
    const auto is_logged = [](std::string_view line) {
      return !trim(line).starts_with("--hash=") && !line.ends_with('\\');
    };
    watcher_.progress("resolving");
    std::vector<fs::path> seen = {folder};
    if (install_.made) seen.push_back(install_.root());  // Its interpreter.
    const Status resolved =
        run_step(in_sandbox(step(std::move(words), folder, apart->cache()), install_, settings_,
                            Code::packages, seen, apart->scratch()),
                 "uv", install_, watcher_, is_logged);
    TRY(apart->end());
    TRY(resolved);
    const fs::path file = folder / "exact.txt";
    std::error_code none;
    if (!is_plain_file_inside(folder, file) || fs::file_size(file, none) > kExactMax) {
      return fail(ErrorKind::invalid, "uv has resolved nothing");
    }
    TRY_SET(const std::string text, read_file(file));
    TRY_SET(std::vector<std::string> lines, parse_exact_lines(text, asked));
    // The user's own hashes say more than all that the index has of a version.
    const Hashes own = hashes_in(install_.lines);
    for (std::string& line : lines) {
      const auto found = own.find(parse_requirement(line).name);
      if (found != own.end()) line = line.substr(0, line.find(" --hash")) + found->second;
    }
    TRY(remove_tree(folder));
    return lines;
  }

  static Hashes hashes_in(const std::vector<std::string>& lines) {
    Hashes hashes;
    for (const std::string& line : lines) {
      const std::string found = hashes_of(line);
      const std::string name = parse_requirement(line).name;
      if (!found.empty() && !name.empty()) hashes[name] = found;
    }
    return hashes;
  }

  // No code of packages runs, so that what gets into the cache is what the indexes have. The
  // environment is made beside the cache, in one mount with it: files are linked from there, not
  // copied.
  Status install_wheels(const std::vector<std::string>& lines, bool alone) {
    const std::string own = variable(variables_, "UV_CACHE_DIR");
    const fs::path wheels = settings_.cache / kWheels;
    const fs::path cache = own.empty() ? wheels / "uv" : fs::path(own);
    const fs::path builds = wheels / kBuilds;
    TRY(make_dirs(cache, 0700));
    TRY(make_dirs(builds, 0700));
    std::string stage = builds / "XXXXXX";
    if (::mkdtemp(stage.data()) == nullptr) return fail_errno(errno, "make " + stage);
    const Status done = install_in(stage, cache, lines, alone);
    Status moved = done;
    if (done) moved = move_root(fs::path(stage) / "root");
    TRY(remove_tree(stage));
    return moved;
  }

  Status install_in(const fs::path& stage, const fs::path& cache,
                    const std::vector<std::string>& lines, bool alone) {
    const auto run = [&](std::vector<std::string> words, const IsLogged& is_logged,
                         const OnTick& on_tick = {}) {
      return run_step(in_sandbox(step(std::move(words), stage, cache), install_, settings_,
                                 Code::tools, {settings_.cache / kWheels, cache}),
                      "uv", install_, watcher_, is_logged, on_tick);
    };
    TRY(run(venv_words(), is_venv_line));
    if (lines.empty()) return {};
    TRY(write_lines(stage / "requirements.txt", lines));
    std::vector<std::string> words = install_words(alone);
    words.emplace_back("--no-build");
    // Compiling, which uv.toml may ask for, starts the new environment's Python, and that executes
    // the .pth files of packages.
    words.emplace_back("--no-compile-bytecode");
    if (!alone && !install_.constraints.empty()) {
      TRY(write_lines(stage / "constraints.txt", install_.constraints));
      words.insert(words.end(), {"-c", "constraints.txt"});
    }
    variables_["RUST_LOG"] = "uv_installer=debug";
    UvProgress progress(cache, watcher_);
    return run(
        std::move(words), [&](std::string_view line) { return progress.line(line); },
        [&] { progress.tick(); });
  }

  Status move_root(const fs::path& from) const {
    if (::rename(from.c_str(), install_.root().c_str()) == 0) return {};
    if (errno != EXDEV) return fail_errno(errno, "rename " + from.string());
    std::error_code error;
    fs::copy(from, install_.root(), fs::copy_options::recursive | fs::copy_options::copy_symlinks,
             error);
    if (error) return fail_errno(error.value(), "copy to " + install_.root().string());
    return {};
  }

  // All of it where packages' code runs, with a cache that nobody else uses: what that code writes
  // there is in this environment alone.
  Result<Hashes> build_apart(const std::vector<std::string>& lines, bool alone) {
    const fs::path& folder = install_.folder;
    TRY(write_lines(folder / "requirements.txt", lines));
    TRY(write_lines(folder / "constraints.txt", install_.constraints));
    TRY_SET(const std::unique_ptr<Apart> apart, Apart::begin(settings_, folder));
    const auto run = [&](std::vector<std::string> words, const IsLogged& is_logged,
                         const OnTick& on_tick = {}) {
      return run_step(in_sandbox(step(std::move(words), folder, apart->cache()), install_,
                                 settings_, Code::packages, {folder}, apart->scratch()),
                      "uv", install_, watcher_, is_logged, on_tick);
    };
    if (!install_.made) TRY(run(venv_words(), is_venv_line));
    if (!lines.empty()) {
      std::vector<std::string> words = install_words(alone);
      if (!alone) words.insert(words.end(), {"-c", "constraints.txt"});
      variables_["RUST_LOG"] = "uv_installer=debug";
      UvProgress progress(apart->cache(), watcher_);
      TRY(run(
          std::move(words), [&](std::string_view line) { return progress.line(line); },
          [&] { progress.tick(); }));
    }
    TRY(apart->end());
    return hashes_in(lines);
  }

  std::vector<std::string> venv_words() const {
    return {"venv", "--relocatable", "--no-project", "--python", install_.python.file, "root"};
  }
  static bool is_venv_line(std::string_view line) {
    return !line.starts_with("Activate with") && !line.starts_with("Creating virtual environment");
  }
  std::vector<std::string> install_words(bool alone) const {
    std::vector<std::string> words = {"pip", "install",         "--python", "root/bin/python",
                                      "-r",  "requirements.txt"};
    if (alone) words.emplace_back("--no-deps");
    for (std::string& word : arguments_of(install_.options)) words.push_back(std::move(word));
    // A repository has no hash, and its commit stands for it.
    const bool hashed = std::ranges::none_of(install_.lines, [](const std::string& line) {
      return line.find("git+") != std::string::npos;
    });
    if (!hashed) std::erase(words, "--require-hashes");
    return words;
  }

  const fs::path uv_;
  const Install& install_;
  const Settings& settings_;
  Watcher& watcher_;
  Variables variables_;
};

}  // namespace

Result<Hashes> install_by_uv(const fs::path& uv, const Install& install, const Settings& settings,
                             Watcher& watcher) {
  return UvInstall(uv, install, settings, watcher).run();
}

}  // namespace trainyard::env
