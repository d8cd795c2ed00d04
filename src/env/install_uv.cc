#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <future>

#include "base/copy_error.h"
#include "base/text.h"
#include "env/index_settings.h"
#include "env/install.h"
#include "env/lock.h"
#include "env/stage.h"
#include "env/uv_output.h"

namespace trainyard::env {
namespace {

constexpr uint64_t kExactMax = 64 << 20;  // Of a resolver's answer, in bytes.

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
    variables_["RUST_LOG"] = kUvLog;
    variables_["UV_NO_PROGRESS"] = "1";
    variables_["UV_PYTHON_DOWNLOADS"] = "never";  // The one it is for has been found.
  }

  Result<Hashes> run() {
    if (install_.made) {
      TRY_SET(Hashes hashes, build_apart(install_.lines, install_.exact));
      return hashes.empty() ? hashes_of_installed() : hashes;
    }
    std::vector<std::string> lines = install_.lines;
    // Made while the versions are found.
    std::future<Result<std::unique_ptr<Stage>>> stage;
    if (!is_apart(lines)) stage = std::async(std::launch::async, [this] { return make_stage(); });
    const bool resolves = needs_exact();
    if (resolves) {
      TRY_SET(lines, find_exact(install_.lines, Needs::too));
    }
    const bool alone = resolves || install_.exact;
    if (is_apart(lines) || !stage.valid()) return build_apart(lines, alone);
    TRY_SET(const std::unique_ptr<Stage> ready, stage.get());
    const Status wheels = install_wheels(*ready, lines, alone);
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

  bool is_apart(const std::vector<std::string>& lines) const {
    return builds_a_package(lines) || has_credentials(lines);
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

  // Every package with its exact version and hashes.
  Result<std::vector<std::string>> find_exact(const std::vector<std::string>& asked, Needs needs) {
    const fs::path folder = install_.folder / "resolve";
    TRY(make_dirs(folder));
    TRY(write_lines(folder / "requirements.txt", asked));
    if (!install_.constraints.empty()) {
      TRY(write_lines(folder / "constraints.txt", install_.constraints));
    }
    watcher_.progress("resolving");
    bool resolved = false;
    if (!install_.made && !is_apart(asked)) {
      TRY_SET(resolved, resolve_wheels(folder, needs));
    }
    if (!resolved) TRY(resolve_apart(folder, needs));
    TRY_SET(std::vector<std::string> lines, read_exact(folder / "exact.txt", asked));
    TRY(remove_tree(folder));
    return lines;
  }

  std::vector<std::string> resolve_words(Needs needs) const {
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
    if (!install_.constraints.empty()) words.insert(words.end(), {"-c", "constraints.txt"});
    for (std::string& word : arguments_of(install_.options)) {
      if (word != "--require-hashes") words.push_back(std::move(word));
    }
    return words;
  }

  static bool is_resolver_line(std::string_view line) {
    return !trim(line).starts_with("--hash=") && !line.ends_with('\\') && !is_uv_log(line);
  }

  // With the shared cache, where the wheels are found again when they are installed. False: a
  // version without a wheel may be meant, whose needs only its code tells.
  Result<bool> resolve_wheels(const fs::path& folder, Needs needs) {
    std::vector<std::string> words = resolve_words(needs);
    words.emplace_back("--no-build");
    UvSelections selections;
    TRY_SET(const fs::path cache, shared_cache());
    const Status resolved =
        run_step(in_sandbox(step(std::move(words), folder, cache), install_, settings_, Code::tools,
                            {folder, settings_.cache / kWheels, cache}),
                 "uv", install_, watcher_, [&](std::string_view line) {
                   selections.line(line);
                   return is_resolver_line(line);
                 });
    if (resolved && !selections.passed_over()) return true;
    if (!resolved && !needs_building(resolved.error())) return std::unexpected(resolved.error());
    watcher_.line("A version without a wheel may fit: resolved again, with a cache of its own.");
    TRY(remove_tree(folder / "exact.txt"));  // uv prefers the versions of a file that is there.
    return false;
  }

  // Code of packages may run: one without a wheel says what it needs by its build backend.
  Status resolve_apart(const fs::path& folder, Needs needs) {
    TRY_SET(const std::unique_ptr<Apart> apart, Apart::begin(settings_, folder));
    std::vector<fs::path> seen = {folder};
    if (install_.made) seen.push_back(install_.root());  // Its interpreter.
    const Status resolved =
        run_step(in_sandbox(step(resolve_words(needs), folder, apart->cache()), install_, settings_,
                            Code::packages, seen, apart->scratch()),
                 "uv", install_, watcher_, is_resolver_line);
    TRY(apart->end());
    return resolved;
  }

  Result<std::vector<std::string>> read_exact(const fs::path& file,
                                              const std::vector<std::string>& asked) const {
    std::error_code none;
    if (!is_plain_file_inside(file.parent_path(), file) || fs::file_size(file, none) > kExactMax) {
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

  Result<fs::path> shared_cache() const {
    const std::string own = variable(variables_, "UV_CACHE_DIR");
    const fs::path cache = own.empty() ? settings_.cache / kWheels / "uv" : fs::path(own);
    TRY(make_dirs(cache, 0700));
    return cache;
  }

  // Beside the cache, in one mount with it: files are linked from there, not copied.
  Result<std::unique_ptr<Stage>> make_stage() const {
    TRY_SET(const fs::path cache, shared_cache());
    const fs::path builds = settings_.cache / kWheels / kBuilds;
    TRY(make_dirs(builds, 0700));
    std::string folder = builds / "XXXXXX";
    if (::mkdtemp(folder.data()) == nullptr) return fail_errno(errno, "make " + folder);
    auto stage = std::make_unique<Stage>(folder, watcher_);
    TRY(run_with_cache(venv_words(), folder, cache, *stage, is_venv_line));
    return stage;
  }

  // Runs uv where no code of packages runs.
  Status run_with_cache(std::vector<std::string> words, const fs::path& folder,
                        const fs::path& cache, Watcher& watcher, const IsLogged& is_logged,
                        const OnTick& on_tick = {}) const {
    return run_step(in_sandbox(step(std::move(words), folder, cache), install_, settings_,
                               Code::tools, {folder, settings_.cache / kWheels, cache}),
                    "uv", install_, watcher, is_logged, on_tick);
  }

  // No code of packages runs, so that what gets into the cache is what the indexes have.
  Status install_wheels(const Stage& stage, const std::vector<std::string>& lines, bool alone) {
    for (const std::string& line : stage.lines()) watcher_.line(line);
    if (!lines.empty()) TRY(install_in(stage.folder(), lines, alone));
    return move_root(stage.folder() / "root");
  }

  Status install_in(const fs::path& stage, const std::vector<std::string>& lines, bool alone) {
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
    TRY_SET(const fs::path cache, shared_cache());
    UvProgress progress(cache, watcher_);
    return run_with_cache(
        std::move(words), stage, cache, watcher_,
        [&](std::string_view line) {
          progress.line(line);
          return !is_uv_log(line);
        },
        [&] { progress.tick(); });
  }

  Status move_root(const fs::path& from) const {
    if (::rename(from.c_str(), install_.root().c_str()) == 0) return {};
    if (errno != EXDEV) return fail_errno(errno, "rename " + from.string());
    std::error_code error;
    fs::copy(from, install_.root(), fs::copy_options::recursive | fs::copy_options::copy_symlinks,
             error);
    if (error) {
      return std::unexpected(
          copy_error(error, install_.folder, "copy to " + install_.root().string()));
    }
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
      UvProgress progress(apart->cache(), watcher_);
      TRY(run(
          std::move(words),
          [&](std::string_view line) {
            progress.line(line);
            return !is_uv_log(line);
          },
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
