#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"

namespace trainyard::env {

struct Program;

// How the programs of a build are confined: bubblewrap shows them the system's programs read-only,
// the folders that the build names, and the network. The home, other people's files and the sockets
// of engines are not there. No capability is left and none can be gained.
struct Sandbox {
  std::string bwrap;
  std::string setpriv;  // Set where we are root: code of packages runs as another account.
  unsigned uid = 0;     // That account.
  unsigned gid = 0;
  std::vector<fs::path> hidden;  // Never shown, wherever it lies: the server's home.
};

// Tries it. `unavailable` with the reason and what to do.
Result<Sandbox> open_sandbox(std::vector<fs::path> hidden);

// Whose code a program runs.
enum class Code {
  tools,     // Only the machine's own: uv that installs wheels. It may write to the shared cache.
  packages,  // Also that of the recipe's packages: a build backend, a conda link script.
};

// What a program sees besides the system. A path that is not there is left out.
struct Access {
  Code code = Code::packages;
  std::vector<fs::path> readable;
  std::vector<fs::path> writable;
  fs::path scratch;  // HOME and TMPDIR; writable.
};

// Whether a build gets this variable of the server: where indexes, proxies and certificates are,
// how compilers are called. All others stay away from packages' code.
bool is_build_variable(std::string_view name);

// The program, to be started inside.
Program confine(Program program, const Sandbox& sandbox, const Access& access);

// Hands a folder that is still empty of others' files to the account that packages' code runs as.
Status give_to_build(const Sandbox& sandbox, const fs::path& folder);

// Makes what that code left ours again: owner, permissions that let us read and delete, no FIFO,
// socket or device. Links stay and are never followed.
Status take_over(const fs::path& folder);

// Whether `path` names a plain file (no link) whose folder lies inside `root`, links resolved: what
// a build left is read and rewritten only then.
bool is_plain_file_inside(const fs::path& root, const fs::path& path);
// The same of a folder.
bool is_folder_inside(const fs::path& root, const fs::path& path);

}  // namespace trainyard::env
