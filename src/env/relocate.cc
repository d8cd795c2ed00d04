#include "env/relocate.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <string>
#include <vector>

#include "base/text.h"
#include "env/sandbox.h"

namespace trainyard::env {
namespace {

constexpr size_t kFirstLinesMax = 4096;

// For sh an exec, for Python a string: the kernel knows no relative interpreter.
constexpr std::string_view kBeside =
    "#!/bin/sh\n"
    "'''exec' \"$(dirname -- \"$(realpath -- \"$0\")\")\"/'python' \"$0\" \"$@\"\n"
    "' '''\n";

// How many bytes at the beginning name the interpreter of `root`; 0: none.
size_t shebang_size(std::string_view text, const std::string& root) {
  const std::string_view first = text.substr(0, text.find('\n'));
  if (first.starts_with("#!" + root + "/bin/python")) return first.size() + 1;
  // What pip writes where the path is too long for the kernel, or has a blank.
  if (!text.starts_with("#!/bin/sh\n'''exec' ")) return 0;
  const size_t end = text.find("\n' '''\n");
  if (end == std::string_view::npos) return 0;
  const std::string_view second = text.substr(0, end);
  return second.find(root + "/bin/python") != std::string_view::npos ? end + 7 : 0;
}

Status rewrite(const fs::path& file, const std::string& text) {
  struct stat about{};
  if (::stat(file.c_str(), &about) != 0) return fail_errno(errno, "stat " + file.string());
  return write_file(file, text, about.st_mode & 07777);
}

Status mend_program(const fs::path& file, const std::string& root) {
  TRY_SET(const Fd fd, open_file(file, O_RDONLY));
  TRY_SET(const std::string first, read_at(fd.get(), 0, kFirstLinesMax, file.string()));
  const size_t size = shebang_size(first, root);
  if (size == 0) return {};
  TRY_SET(const std::string text, read_file(file));
  return rewrite(file, std::string(kBeside) + text.substr(std::min(size, text.size())));
}

// `source bin/activate` of sh and bash.
Status mend_activate(const fs::path& file, const std::string& root) {
  constexpr std::string_view kHere =
      "\"$(cd -- \"$(dirname -- \"${BASH_SOURCE:-$0}\")/..\" > /dev/null && pwd)\"";
  TRY_SET(const std::string text, read_file(file));
  std::string mended;
  for (const std::string& line : split(text, '\n')) {
    const bool names = line.find(root) != std::string::npos;
    const size_t equals = line.find("VIRTUAL_ENV=");
    mended += names && equals != std::string::npos
                  ? line.substr(0, equals) + "VIRTUAL_ENV=" + std::string(kHere)
                  : line;
    mended += '\n';
  }
  mended.pop_back();  // split() gives an empty last one.
  return rewrite(file, mended);
}

// How it was made, with its path, is of no use to anybody.
Status mend_config(const fs::path& file) {
  const auto text = read_file(file);
  if (!text) return {};
  std::vector<std::string> lines = split(*text, '\n');
  const auto taken =
      std::erase_if(lines, [](const std::string& line) { return line.starts_with("command = "); });
  return taken == 0 ? Status() : rewrite(file, join(lines, "\n"));
}

}  // namespace

Status make_relocatable(const fs::path& root) {
  // What a build has left may be links to anywhere.
  if (is_plain_file_inside(root, root / "pyvenv.cfg")) TRY(mend_config(root / "pyvenv.cfg"));
  if (!is_folder_inside(root, root / "bin")) {
    return fail(ErrorKind::invalid, "the build has left no folder bin");
  }
  // Other shells' have no way to know where they are.
  for (const char* name : {"activate.csh", "activate.fish", "Activate.ps1"}) {
    std::error_code none;
    fs::remove(root / "bin" / name, none);
  }
  std::error_code error;
  for (fs::directory_iterator entry(root / "bin", error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->is_symlink() || !entry->is_regular_file()) continue;
    const bool activate = entry->path().filename() == "activate";
    TRY(activate ? mend_activate(entry->path(), root) : mend_program(entry->path(), root));
  }
  if (error) return fail_errno(error.value(), "list " + (root / "bin").string());
  return {};
}

}  // namespace trainyard::env
