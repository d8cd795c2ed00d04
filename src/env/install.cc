#include "env/install.h"

#include <deque>

#include "base/text.h"
#include "env/explain.h"

namespace trainyard::env {
namespace {

constexpr size_t kLinesKept = 400;  // For saying why it failed.

Result<fs::path> write_lines(const fs::path& file, const std::vector<std::string>& lines) {
  if (lines.empty()) return fs::path();
  TRY(write_file(file, join(lines, "\n") + "\n"));
  return file;
}

// What comes over the API need not have gone through our reader of files: "-r /etc/passwd".
Status check_lines(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) {
    if (!line.starts_with('-') && line.find('\n') == std::string::npos) continue;
    return fail(ErrorKind::invalid, "'" + line + "' is no package",
                "Options of packages belong to the recipe's options, other files' lines to its "
                "packages.");
  }
  return {};
}

}  // namespace

Status write_install(const Environment& environment, const std::vector<std::string>& lines,
                     Install& install) {
  install.exact = !environment.lock.empty();
  std::vector<std::string> constraints;
  for (const std::string& text : environment.recipe.options) {
    if (parse_requirement(text).text.empty()) continue;
    TRY_SET(PipOption option, parse_pip_option(text));
    if (option.name == "--constraint") constraints.push_back(option.value);
    install.options.push_back(std::move(option));
  }
  TRY(check_lines(lines));
  TRY(check_lines(constraints));
  TRY_SET(install.file, write_lines(install.folder / "requirements.txt", lines));
  if (install.exact) return {};
  TRY_SET(install.constraints, write_lines(install.folder / "constraints.txt", constraints));
  return {};
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
        "UV_PYTHON", "UV_SYSTEM_PYTHON", "UV_TARGET", "UV_PROJECT", "UV_WORKING_DIR", "RUST_LOG"}) {
    variables.erase(name);
  }
  variables["NO_COLOR"] = "1";
  return variables;
}

}  // namespace trainyard::env
