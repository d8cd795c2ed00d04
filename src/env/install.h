#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "env/build.h"
#include "env/programs.h"
#include "env/python.h"
#include "model/requirement.h"

namespace trainyard::env {

// What is to be installed into a new virtual environment.
struct Install {
  Python python;
  fs::path folder;                        // root/ is made in it.
  std::vector<std::string> requirements;  // As the user wrote them, for errors.
  std::vector<PipOption> options;
  std::vector<std::string> lines;        // To install; empty: none.
  std::vector<std::string> constraints;  // Empty: none.
  std::vector<std::string> local;        // Paths of this machine that the recipe names.
  bool exact = false;                    // The lines are a lock: nothing else is installed.
  bool made = false;                     // root/ is there already: of conda.

  fs::path root() const { return folder / "root"; }
};

// Puts the lines, the recipe's options and constraints into `install`.
Status write_install(const Environment& environment, const std::vector<std::string>& lines,
                     Install& install);

// " --hash=sha256:…" by a package's name: what its artifact has to be.
using Hashes = std::map<std::string, std::string>;

// In Settings::cache: the cache that uv's installations of wheels share, and the folders of those
// under way. They are writable in the sandbox of such an installation, and nothing else of
// Settings::cache is; as one mount, so that files are linked from the cache.
inline constexpr const char* kWheels = "wheels";
inline constexpr const char* kBuilds = "builds";

// By uv: first the exact versions, then the wheels of these, which runs no code of packages and
// shares a cache; only where one has no wheel is it built, with a cache of its own.
Result<Hashes> install_by_uv(const fs::path& uv, const Install& install, const Settings& settings,
                             Watcher& watcher);
// Whether pip installs a pip into the environment and works by that one: the pips of today do not
// run on Python 3.6 and 3.7.
bool has_own_pip(const Install& install);
// By pip, which may run code of packages at every step, and therefore shares no cache.
Result<Hashes> install_by_pip(const Install& install, const Settings& settings, Watcher& watcher);

// uv's own file, by PATH; of a shim of pyenv's what that starts. Empty: it is not here.
fs::path find_uv(const Settings& settings);

// Runs one step: its lines go to the log but for those that `is_logged` refuses, and its failure is
// explained in its own words.
using IsLogged = std::function<bool(std::string_view line)>;
Status run_step(const Program& program, std::string_view name, const Install& install,
                Watcher& watcher, const IsLogged& is_logged, const OnTick& on_tick = {});

// The machine's variables without those that say where else to install, what else to import, or to
// compile modules: that is done later (compile.h).
Variables plain_variables(const Settings& settings);

// The program in the sandbox, where there is one: it sees the interpreter, itself, what the
// server's settings and the recipe name, and may write to `writable`.
Program in_sandbox(Program program, const Install& install, const Settings& settings, Code code,
                   std::vector<fs::path> writable, const fs::path& scratch = {});

// The time in which code of packages works in a folder: it is handed to the account of builds, and
// ours again after end(). Refused where there is no sandbox for whoever asks.
class Apart {
 public:
  static Result<std::unique_ptr<Apart>> begin(const Settings& settings, fs::path folder);
  ~Apart();
  Apart(const Apart&) = delete;
  Apart& operator=(const Apart&) = delete;
  Status end();

  fs::path cache() const { return folder_ / "cache"; }
  fs::path scratch() const { return folder_ / "tmp"; }

 private:
  explicit Apart(fs::path folder) : folder_(std::move(folder)) {}
  const fs::path folder_;
  bool ended_ = false;
};

// A text of lines as `uv pip compile` writes them: one pinned package each, continued over several
// lines; or one of `asked` as it is, a wheel by its path or URL. `invalid` for anything else.
Result<std::vector<std::string>> parse_exact_lines(std::string_view text,
                                                   const std::vector<std::string>& asked = {});

// " --hash=…" of a line and all that follow it; empty: none.
std::string hashes_of(std::string_view line);

}  // namespace trainyard::env
