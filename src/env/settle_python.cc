#include "env/settle_python.h"

#include <unistd.h>

#include <cerrno>

#include "base/text.h"
#include "env/python.h"
#include "env/sandbox.h"

namespace trainyard::env {
namespace {

// Whole or not at all: another run may start by the link at this moment.
Status replace_link(const fs::path& link, const fs::path& target) {
  const fs::path aside = link.string() + "." + std::to_string(::getpid());
  std::error_code none;
  fs::remove(aside, none);
  if (::symlink(target.c_str(), aside.c_str()) != 0)
    return fail_errno(errno, "link " + link.string());
  if (::rename(aside.c_str(), link.c_str()) != 0) return fail_errno(errno, "link " + link.string());
  return {};
}

Status point_home(const fs::path& file, const fs::path& folder) {
  TRY_SET(const std::string before, read_file(file));
  std::string text;
  for (const std::string& line : split(trim(before), '\n')) {
    const bool home = trim(line.substr(0, line.find('='))) == "home";
    text += (home ? "home = " + folder.string() : line) + "\n";
  }
  return write_file(file, text, 0444);
}

}  // namespace

Result<bool> settle_python(const fs::path& root, const std::string& platform,
                           const Settings& settings) {
  const fs::path python = root / "bin" / "python";
  if (::access(python.c_str(), X_OK) == 0) return false;
  if (!is_folder_inside(root, root / "bin") || !is_plain_file_inside(root, root / "pyvenv.cfg")) {
    return fail(ErrorKind::invalid, "the environment is no virtual environment");
  }
  std::error_code error;
  const fs::path missing = fs::read_symlink(python, error);
  const std::string version = platform.substr(platform.rfind('-') + 1);
  const auto found = find_python(version, settings);
  if (!found || found->platform() != platform) {
    const std::string here = found ? found->platform() + " is here" : found.error().message;
    return fail(ErrorKind::not_found,
                "its Python, " + missing.string() + ", is not on this node: " + here,
                "Install Python " + version +
                    " there, name a version that the node has in the environment (python=), or run "
                    "in a container.");
  }
  TRY(point_home(root / "pyvenv.cfg", found->file.parent_path()));
  for (fs::directory_iterator entry(root / "bin", error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code none;
    const bool ours = entry->path().filename().string().starts_with("python");
    const fs::path target = ours ? fs::read_symlink(entry->path(), none) : fs::path();
    if (target.is_absolute()) TRY(replace_link(entry->path(), found->file));
  }
  return true;
}

}  // namespace trainyard::env
