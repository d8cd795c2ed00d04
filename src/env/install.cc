#include "env/install.h"

#include <algorithm>
#include <deque>

#include "base/text.h"
#include "env/explain.h"
#include "model/environment_identity.h"
#include "model/requirement.h"

namespace trainyard::env {
namespace {

constexpr size_t kLinesKept = 400;  // For saying why it failed.
constexpr auto kAskShim = milliseconds(20'000);

// What comes over the API need not have gone through our reader of files: "-r /etc/passwd".
Status check_lines(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) {
    TRY(check_one_line(line));
    if (!trim(line).starts_with('-')) continue;
    return fail(ErrorKind::invalid, "'" + line + "' is no package",
                "Options of packages belong to the recipe's options, other files' lines to its "
                "packages.");
  }
  return {};
}

// Where an interpreter's library is; empty: with the system's, or nowhere that looks like one.
fs::path prefix_of(const fs::path& python) {
  std::error_code none;
  const fs::path real = fs::canonical(python, none);
  const fs::path prefix = (none ? python : real).parent_path().parent_path();
  for (fs::directory_iterator entry(prefix / "lib", none), end; !none && entry != end;
       entry.increment(none)) {
    std::error_code missing;
    if (entry->path().filename().string().starts_with("python") &&
        fs::exists(entry->path() / "os.py", missing)) {
      return prefix;
    }
  }
  return {};
}

void add_program(const fs::path& program, std::vector<fs::path>& readable) {
  std::error_code none;
  const fs::path real = fs::canonical(program, none);
  if (none) return;
  readable.push_back(program);
  readable.push_back(real);
  const fs::path prefix = real.parent_path().parent_path();
  if (fs::exists(prefix / "conda-meta", none)) readable.push_back(prefix);
  if (const fs::path library = prefix_of(real); !library.empty()) readable.push_back(library);
}

// Folders and files that the server's variables name: certificates, wheels, an index.
void add_named(const Variables& variables, std::vector<fs::path>& readable) {
  for (const auto& [name, value] : variables) {
    if (!is_build_variable(name) || name == "PATH" || name.ends_with("CACHE_DIR")) continue;
    std::string words = value;
    for (char& c : words) c = c == ',' || (c == ':' && name == "LD_LIBRARY_PATH") ? ' ' : c;
    for (const std::string& word : split(words, ' ')) {
      const std::string path = word.starts_with("file://") ? word.substr(7) : word;
      if (path.starts_with('/') && path != "/") readable.emplace_back(path);
    }
  }
}

}  // namespace

Status write_install(const Environment& environment, const std::vector<std::string>& lines,
                     Install& install) {
  install.exact = !environment.lock.empty();
  install.local = local_paths(environment.recipe);
  for (const std::string& text : environment.recipe.options) {
    if (parse_requirement(text).text.empty()) continue;
    TRY_SET(PipOption option, parse_pip_option(text));
    if (option.name == "--constraint" && !install.exact) {
      install.constraints.push_back(option.value);
    }
    install.options.push_back(std::move(option));
  }
  TRY(check_lines(lines));
  TRY(check_lines(install.constraints));
  install.lines = lines;
  return {};
}

fs::path find_uv(const Settings& settings) {
  const fs::path found = find_program("uv", settings.variables);
  if (found.empty() || found.parent_path().filename() != "shims") return found;
  const fs::path pyenv = found.parent_path().parent_path() / "bin" / "pyenv";
  const auto said = output_of({{pyenv, "which", "uv"}, settings.variables, "/"}, kAskShim);
  return said ? fs::path(trim(*said)) : fs::path();
}

Status run_step(const Program& program, std::string_view name, const Install& install,
                Watcher& watcher, const IsLogged& is_logged, const OnTick& on_tick) {
  watcher.line("$ " + shown(program.command));
  std::deque<std::string> kept;
  const auto on_line = [&](std::string_view line) {
    if (!is_logged(line)) return;
    watcher.line(line);
    kept.emplace_back(line);
    if (kept.size() > kLinesKept) kept.pop_front();
  };
  TRY_SET(const Ended ended, run_program(program, watcher, on_line, on_tick));
  if (ended.exit_code == 0) return {};
  return std::unexpected(explain_failure(name, ended.exit_code,
                                         std::vector<std::string>(kept.begin(), kept.end()),
                                         install.requirements));
}

Variables plain_variables(const Settings& settings) {
  Variables variables = settings.variables;
  for (const char* name :
       {"VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PIP_TARGET",
        "PIP_PREFIX", "PIP_USER", "PIP_REQUIRE_VIRTUALENV", "PIP_REQUIREMENT", "PIP_PYTHON",
        "UV_PYTHON", "UV_SYSTEM_PYTHON", "UV_TARGET", "UV_PROJECT", "UV_WORKING_DIR",
        "UV_COMPILE_BYTECODE", "RUST_LOG"}) {
    variables.erase(name);
  }
  variables["NO_COLOR"] = "1";
  return variables;
}

Program in_sandbox(Program program, const Install& install, const Settings& settings, Code code,
                   std::vector<fs::path> writable, const fs::path& scratch) {
  if (!settings.sandbox) return program;
  Access access{.code = code, .readable = {}, .writable = std::move(writable), .scratch = scratch};
  add_program(program.command.front(), access.readable);
  if (!install.python.file.empty()) add_program(install.python.file, access.readable);
  for (const std::string& path : install.local) {
    if (path.starts_with('/') && path != "/") access.readable.emplace_back(path);
  }
  add_named(program.variables, access.readable);
  return confine(std::move(program), *settings.sandbox, access);
}

Result<std::unique_ptr<Apart>> Apart::begin(const Settings& settings, fs::path folder) {
  if (settings.refusal) return std::unexpected(*settings.refusal);
  std::unique_ptr<Apart> apart(new Apart(std::move(folder)));
  TRY(make_dirs(apart->cache()));
  TRY(make_dirs(apart->scratch()));
  if (settings.sandbox) TRY(give_to_build(*settings.sandbox, apart->folder_));
  return apart;
}

Status Apart::end() {
  ended_ = true;
  TRY(take_over(folder_));
  TRY(remove_tree(cache()));
  return remove_tree(scratch());
}

Apart::~Apart() {
  // Of a build that has failed: whoever removes its folder has to be able to.
  if (!ended_) static_cast<void>(take_over(folder_).has_value());
}

Result<std::vector<std::string>> parse_exact_lines(std::string_view text,
                                                   const std::vector<std::string>& asked) {
  std::vector<std::string> lines;
  std::string open;
  for (const std::string& raw : split(text, '\n')) {
    std::string_view line = trim(raw);
    if (line.starts_with('#') || (line.empty() && open.empty())) continue;
    const bool goes_on = line.ends_with('\\');
    if (goes_on) line = trim(line.substr(0, line.size() - 1));
    open += (open.empty() ? "" : " ") + std::string(line);
    if (goes_on) continue;
    lines.push_back(std::exchange(open, {}));
  }
  if (!open.empty()) lines.push_back(std::move(open));
  for (const std::string& line : lines) {
    const Requirement requirement = parse_requirement(line);
    const bool pinned = line.find("==") != std::string::npos || line.find('@') != std::string::npos;
    const std::string plain = line.substr(0, line.find(" --hash"));
    const bool same = std::ranges::any_of(
        asked, [&](const std::string& each) { return parse_requirement(each).text == plain; });
    if (!same && (requirement.name.empty() || !pinned)) {
      return fail(ErrorKind::invalid, "the resolver has said '" + line.substr(0, 200) +
                                          "', which is no exact version of a package");
    }
  }
  return lines;
}

std::string hashes_of(std::string_view line) {
  // Not "--hash" in a comment or a URL: lines that have hashes are installed without resolving.
  line = line.substr(0, line.find(" #"));
  const size_t at = line.find(" --hash=");
  return at == std::string_view::npos ? "" : " " + std::string(trim(line.substr(at)));
}

}  // namespace trainyard::env
