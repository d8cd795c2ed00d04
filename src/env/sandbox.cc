#include "env/sandbox.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <set>

#include "base/command.h"
#include "base/text.h"
#include "container/bubblewrap.h"
#include "container/bubblewrap_plan.h"
#include "env/programs.h"

namespace trainyard::env {
namespace {

constexpr auto kTryWait = milliseconds(60'000);      // A machine under load needs seconds for it.
constexpr const char* kAccount = "trainyard-build";  // Used where the machine has it.
constexpr unsigned kNobody = 65534;
constexpr int kDepthMax = 200;  // Of folders that a build leaves.

constexpr auto kSystem = std::to_array<const char*>({"/usr", "/opt", "/nix"});
// Links into /usr on most systems, folders on others.
constexpr auto kSystemLinks =
    std::to_array<const char*>({"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"});
// What programs need to resolve names, check certificates and load libraries. Not all of /etc: keys
// that the server's account may read lie there too.
constexpr std::string_view kEtc =
    "alternatives ca-certificates ca-certificates.conf conda crypto-policies gai.conf gitconfig "
    "group host.conf hosts ld.so.cache ld.so.conf ld.so.conf.d locale.alias localtime mime.types "
    "networks nsswitch.conf os-release passwd pip.conf pki protocols resolv.conf services ssl "
    "timezone uv";
constexpr auto kMasked = std::to_array<const char*>({"/etc/ssl/private", "/etc/pki/tls/private"});

// Around each name a blank.
constexpr std::string_view kVariables =
    " PATH LANG LANGUAGE TZ HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY http_proxy https_proxy "
    "all_proxy no_proxy SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE CC CXX CFLAGS "
    "CXXFLAGS CPPFLAGS LDFLAGS MAKEFLAGS MAX_JOBS CUDA_HOME CUDA_PATH NO_COLOR RUST_LOG CONDARC "
    "PYENV_VERSION SOURCE_DATE_EPOCH TORCH_CUDA_ARCH_LIST LD_LIBRARY_PATH ";
constexpr auto kVariablePrefixes =
    std::to_array<std::string_view>({"LC_", "PIP_", "UV_", "CONDA_", "MAMBA_", "CMAKE_"});

using Words = std::vector<std::string>;

void add(Words& words, std::initializer_list<std::string> more) {
  words.insert(words.end(), more.begin(), more.end());
}

bool is_below(const fs::path& path, const fs::path& folder) {
  const std::string base = folder.string();
  return path == folder || path.string().starts_with(base == "/" ? base : base + "/");
}

bool is_hidden(const Sandbox& sandbox, const fs::path& path) {
  std::error_code none;
  const fs::path real = fs::weakly_canonical(path, none);
  return std::ranges::any_of(sandbox.hidden, [&](const fs::path& hidden) {
    return is_below(path, hidden) || is_below(real, hidden);
  });
}

// Collects bwrap's words. Folders above a bind are made here: bwrap makes them for their owner
// alone, and another account could not pass.
class Shown {
 public:
  void make_parents(const fs::path& path) {
    fs::path above;
    for (const fs::path& part : path.parent_path()) {
      above /= part;
      if (above == "/" || covered(above) || !made_.insert(above).second) continue;
      add(words_, {"--perms", "0755", "--dir", above});
    }
  }
  void bind(const char* how, const fs::path& path) {
    std::error_code none;
    if (!fs::exists(path, none)) return;
    make_parents(path);
    add(words_, {how, path, path});
    if (fs::is_directory(path, none)) binds_.push_back(path);
  }
  void empty(const fs::path& path, const char* mode) {
    make_parents(path);
    add(words_, {"--perms", mode, "--tmpfs", path});
    // What was shown or made below it is gone.
    std::erase_if(made_, [&](const fs::path& made) { return is_below(made, path); });
    std::erase_if(binds_, [&](const fs::path& bind) { return is_below(bind, path); });
    made_.insert(path);
    emptied_.push_back(path);
  }
  void link(const fs::path& path) {
    std::error_code none;
    const fs::path target = fs::read_symlink(path, none);
    if (none) return bind("--ro-bind", path);
    add(words_, {"--symlink", target, path});
  }
  bool covered(const fs::path& path) const {
    const auto below = [&](const fs::path& folder) { return is_below(path, folder); };
    // The innermost of both decides.
    size_t bound = 0;
    size_t emptied = 0;
    for (const fs::path& folder : binds_) {
      if (below(folder)) bound = std::max(bound, folder.string().size());
    }
    for (const fs::path& folder : emptied_) {
      if (below(folder)) emptied = std::max(emptied, folder.string().size());
    }
    return bound > emptied;
  }
  Words take() { return std::move(words_); }

 private:
  Words words_;
  std::set<fs::path> made_;
  std::vector<fs::path> binds_;
  std::vector<fs::path> emptied_;
};

void show_system(Shown& shown) {
  for (const char* path : kSystem) shown.bind("--ro-bind", path);
  for (const char* path : kSystemLinks) {
    std::error_code none;
    if (fs::exists(path, none)) shown.link(path);
  }
  for (const std::string& name : split(kEtc, ' ')) {
    shown.bind("--ro-bind", fs::path("/etc") / name);
  }
  std::error_code none;
  for (fs::directory_iterator entry("/etc", none), end; !none && entry != end;
       entry.increment(none)) {
    if (entry->path().filename().string().starts_with("python")) {
      shown.bind("--ro-bind", entry->path());
    }
  }
  for (const char* path : kMasked) {
    std::error_code missing;
    if (fs::exists(path, missing)) shown.empty(path, "0755");
  }
}

Words wrapper_of(const Sandbox& sandbox, const Access& access, const fs::path& folder) {
  const bool other = access.code == Code::packages && !sandbox.setpriv.empty();
  Words words = {sandbox.bwrap,          "--unshare-pid",     "--unshare-ipc", "--unshare-uts",
                 "--unshare-cgroup-try", "--die-with-parent", "--cap-drop",    "ALL"};
  if (other) {
    for (const char* name : {"CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"}) {
      add(words, {"--cap-add", name});
    }
  }
  add(words, {"--dev", "/dev", "--proc", "/proc"});  // First: a build may lie in /dev/shm.
  Shown shown;
  show_system(shown);
  shown.empty("/tmp", "1777");
  shown.empty("/run", "0755");
  std::vector<fs::path> readable = access.readable;
  std::ranges::sort(readable, {}, [](const fs::path& path) { return path.string().size(); });
  for (const fs::path& path : readable) {
    if (!is_hidden(sandbox, path) && !shown.covered(path)) shown.bind("--ro-bind", path);
  }
  for (const fs::path& path : sandbox.hidden) {
    if (shown.covered(path)) shown.empty(path, "0755");
  }
  // One mount for a folder and what is in it: files are linked from a cache within one mount only.
  for (const fs::path& path : access.writable) {
    const auto holds = [&](const fs::path& each) { return each != path && is_below(path, each); };
    if (std::ranges::none_of(access.writable, holds)) shown.bind("--bind", path);
  }
  const Words binds = shown.take();
  words.insert(words.end(), binds.begin(), binds.end());
  add(words, {"--chdir", folder, "--"});
  if (other) {
    add(words, {sandbox.setpriv, "--reuid", std::to_string(sandbox.uid), "--regid",
                std::to_string(sandbox.gid), "--clear-groups", "--no-new-privs", "--inh-caps",
                "-all", "--bounding-set", "-all", "--"});
  }
  return words;
}

// Name by name from open folders: the code that made them may have put links in our way.
class TakingOver {
 public:
  Status folder(int parent, const char* name, const fs::path& shown, int depth) {
    if (depth > kDepthMax) {
      return fail(ErrorKind::invalid,
                  "the build has left folders that are too deep in " + shown.string());
    }
    // First: a folder of another account, or without permissions, cannot be opened otherwise.
    if (::fchownat(parent, name, uid_, gid_, AT_SYMLINK_NOFOLLOW) != 0) {
      return fail_errno(errno, "take over " + shown.string());
    }
    Fd path(::openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    struct stat about{};
    if (!path || ::fstat(path.get(), &about) != 0) {
      return fail_errno(errno, "take over " + shown.string());
    }
    const std::string link = "/proc/self/fd/" + std::to_string(path.get());
    if (::chmod(link.c_str(), (about.st_mode & 0755) | 0700) != 0) {
      return fail_errno(errno, "chmod " + shown.string());
    }
    const int fd = ::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    const std::unique_ptr<DIR, int (*)(DIR*)> entries(fd < 0 ? nullptr : ::fdopendir(fd),
                                                      ::closedir);
    if (!entries) return fail_errno(errno, "list " + shown.string());
    while (const dirent* entry = ::readdir(entries.get())) {
      const std::string_view each = entry->d_name;
      if (each != "." && each != "..") TRY(take(fd, entry->d_name, shown / each, depth));
    }
    return {};
  }

 private:
  Status take(int parent, const char* name, const fs::path& shown, int depth) {
    struct stat about{};
    if (::fstatat(parent, name, &about, AT_SYMLINK_NOFOLLOW) != 0) return {};
    if (S_ISDIR(about.st_mode)) return folder(parent, name, shown, depth + 1);
    if (!S_ISREG(about.st_mode) && !S_ISLNK(about.st_mode)) {
      if (::unlinkat(parent, name, 0) == 0) return {};
      return fail_errno(errno, "remove " + shown.string());
    }
    const bool owned = about.st_uid == uid_ && about.st_gid == gid_;
    if (!owned && ::fchownat(parent, name, uid_, gid_, AT_SYMLINK_NOFOLLOW) != 0) {
      return fail_errno(errno, "take over " + shown.string());
    }
    const mode_t mode = (about.st_mode & 0755) | 0600;
    const bool changed = !S_ISLNK(about.st_mode) && (about.st_mode & 07777) != mode;
    if (changed && ::fchmodat(parent, name, mode, 0) != 0) {
      return fail_errno(errno, "chmod " + shown.string());
    }
    return {};
  }

  const uid_t uid_ = ::geteuid();
  const gid_t gid_ = ::getegid();
};

}  // namespace

bool is_build_variable(std::string_view name) {
  return kVariables.find(" " + std::string(name) + " ") != std::string_view::npos ||
         std::ranges::any_of(kVariablePrefixes,
                             [&](std::string_view prefix) { return name.starts_with(prefix); });
}

Result<Sandbox> open_sandbox(std::vector<fs::path> hidden) {
  TRY_SET(const container::Submitter found, container::find_bubblewrap());
  Sandbox sandbox{.bwrap = found.bwrap, .uid = kNobody, .gid = kNobody};
  for (const fs::path& path : hidden) {
    std::error_code none;
    const fs::path real = fs::canonical(path, none);
    sandbox.hidden.push_back(none ? path : real);
  }
  if (::geteuid() == 0) {
    // By its real file: it is started inside, where a folder of links is not.
    std::error_code missing;
    sandbox.setpriv = fs::canonical(trainyard::find_program("setpriv"), missing);
    if (missing) {
      return fail(ErrorKind::unavailable, "there is no setpriv on the server's machine",
                  "Install the package util-linux.");
    }
    for (const std::string& line : split(read_file("/etc/passwd").value_or(""), '\n')) {
      const std::vector<std::string> fields = split(line, ':');
      if (fields.size() < 4 || fields[0] != kAccount) continue;
      const auto uid = parse_int(fields[2], "uid");
      const auto gid = parse_int(fields[3], "gid");
      if (uid && gid && *uid > 0) {
        sandbox.uid = static_cast<unsigned>(*uid);
        sandbox.gid = static_cast<unsigned>(*gid);
      }
    }
  }
  const Program tried =
      confine({.command = {"/bin/true"}, .variables = {}, .folder = "/"}, sandbox, {});
  if (const auto works = output_of(tried, kTryWait); !works) {
    TRY(container::try_bubblewrap(sandbox.bwrap));
    return fail(ErrorKind::unavailable, "bubblewrap cannot make a sandbox for builds",
                "Processes and /proc of its own are refused: in a container, start it with "
                "--security-opt systempaths=unconfined and --cap-add SYS_ADMIN.");
  }
  return sandbox;
}

Program confine(Program program, const Sandbox& sandbox, const Access& access) {
  std::erase_if(program.variables, [](const auto& each) { return !is_build_variable(each.first); });
  const std::string scratch = access.scratch.empty() ? "/tmp" : access.scratch.string();
  program.variables["HOME"] = scratch;
  program.variables["TMPDIR"] = scratch;
  program.wrapper = wrapper_of(sandbox, access, program.folder);
  return program;
}

Status give_to_build(const Sandbox& sandbox, const fs::path& folder) {
  if (sandbox.setpriv.empty()) return {};
  std::error_code error;
  if (::lchown(folder.c_str(), sandbox.uid, sandbox.gid) != 0) {
    return fail_errno(errno, "give " + folder.string() + " to the build");
  }
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (::lchown(entry->path().c_str(), sandbox.uid, sandbox.gid) != 0) {
      return fail_errno(errno, "give " + entry->path().string() + " to the build");
    }
  }
  if (error) return fail_errno(error.value(), "list " + folder.string());
  return {};
}

Status take_over(const fs::path& folder) {
  return TakingOver().folder(AT_FDCWD, folder.c_str(), folder, 0);
}

bool is_folder_inside(const fs::path& root, const fs::path& path) {
  std::error_code error;
  // A build may have put a link to anywhere in place of the root itself.
  if (!fs::is_directory(fs::symlink_status(root, error))) return false;
  const fs::path above = fs::canonical(root, error);
  if (error) return false;
  const fs::path real = fs::canonical(path, error);
  return !error && is_below(real, above) && fs::is_directory(real, error);
}

bool is_plain_file_inside(const fs::path& root, const fs::path& path) {
  struct stat about{};
  return ::lstat(path.c_str(), &about) == 0 && S_ISREG(about.st_mode) &&
         is_folder_inside(root, path.parent_path());
}

}  // namespace trainyard::env
