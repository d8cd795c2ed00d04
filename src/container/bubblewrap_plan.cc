#include "container/bubblewrap_plan.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/text.h"
#include "container/arguments.h"
#include "container/bubblewrap_gpu.h"
#include "container/bubblewrap_view.h"

namespace trainyard::container {
namespace {

// What docker leaves to root in a container.
constexpr const char* kRootsCapabilities[] = {
    "CAP_CHOWN",  "CAP_DAC_OVERRIDE", "CAP_FSETID",           "CAP_FOWNER",     "CAP_MKNOD",
    "CAP_SETGID", "CAP_SETUID",       "CAP_SETFCAP",          "CAP_SETPCAP",    "CAP_NET_RAW",
    "CAP_KILL",   "CAP_SYS_CHROOT",   "CAP_NET_BIND_SERVICE", "CAP_AUDIT_WRITE"};

// Folders that programs write to, for when the root is read-only.
constexpr const char* kMemoryFolders[] = {"/tmp", "/var/tmp", "/run"};

constexpr std::string_view kHomeDefault = "/tmp";

using Words = std::vector<std::string>;

void add(Words& words, std::initializer_list<std::string> more) {
  words.insert(words.end(), more.begin(), more.end());
}

struct BubblewrapLimit {
  std::string_view name;
  int resource;
};
constexpr BubblewrapLimit kBubblewrapLimits[] = {
    {"as", RLIMIT_AS},           {"core", RLIMIT_CORE},     {"cpu", RLIMIT_CPU},
    {"data", RLIMIT_DATA},       {"fsize", RLIMIT_FSIZE},   {"locks", RLIMIT_LOCKS},
    {"memlock", RLIMIT_MEMLOCK}, {"nice", RLIMIT_NICE},     {"msgqueue", RLIMIT_MSGQUEUE},
    {"nofile", RLIMIT_NOFILE},   {"nproc", RLIMIT_NPROC},   {"rss", RLIMIT_RSS},
    {"rtprio", RLIMIT_RTPRIO},   {"rttime", RLIMIT_RTTIME}, {"sigpending", RLIMIT_SIGPENDING},
    {"stack", RLIMIT_STACK}};

std::unexpected<Error> needs_engine(const std::string& what) {
  return fail(ErrorKind::invalid, what + " needs docker or podman; this node has bubblewrap alone",
              "Leave it out, or run where an engine is.");
}

class Planner {
 public:
  Planner(const Plan& plan, const Submitter& submitter, const fs::path& file)
      : plan_(plan), submitter_(submitter), file_(file) {}
  Result<Carried> run();

 private:
  void add_variables();
  Status add_machine();
  Status add_shared_memory();
  Status add_gpus();
  Status add_network();
  Status add_user();
  Status add_capabilities();
  Status add_limits();
  Status add_account(const std::string& path, unsigned id, const std::string& line);
  Status add_bind(const Bind& bind, const std::string& word);
  Status add_bind(const Bind& bind) {
    return add_bind(bind, bind.read_only ? "--ro-bind" : "--bind");
  }
  Status add_binds();
  Status add_folder();
  Status add_root();
  Result<std::string> text_inside(const std::string& path) const;
  View view() const { return {plan_.root, carried_.binds}; }

  const Plan& plan_;
  const Submitter& submitter_;
  const fs::path& file_;
  Arguments arguments_;
  Carried carried_;
  Words targets_;  // All that is mounted upon.
};

Result<Carried> Planner::run() {
  struct stat found{};
  if (plan_.root.empty() || stat(plan_.root.c_str(), &found) != 0 || !S_ISDIR(found.st_mode)) {
    return fail(ErrorKind::not_found, "the unpacked image is not here: " + plan_.root);
  }
  TRY_SET(arguments_, parse_arguments(plan_.arguments));
  TRY_SET(carried_.command, started_words(plan_, arguments_));
  carried_.bwrap = submitter_.bwrap;
  carried_.root = plan_.root;
  carried_.layer = file_.string() + ".layer";
  // By their names: who comes later knows no more of one that was kept.
  const auto kept_layer = [&](const std::string& name) {
    return file_.parent_path() / ("container-" + name + ".layer");
  };
  carried_.kept = plan_.kept;
  if (plan_.kept) carried_.layer = kept_layer(plan_.name);
  if (!plan_.upon.empty()) carried_.below = kept_layer(plan_.upon);
  carried_.note = plan_.note;
  add_variables();
  TRY(add_machine());
  TRY(add_shared_memory());
  TRY(add_network());
  TRY(add_user());
  TRY(add_capabilities());
  TRY(add_limits());
  TRY(add_gpus());
  TRY(add_binds());
  TRY(add_folder());
  TRY(add_root());
  return std::move(carried_);
}

void Planner::add_variables() {
  for (const std::string& variable : plan_.config.variables) {
    const size_t equals = std::min(variable.find('='), variable.size());
    carried_.given[variable.substr(0, equals)] =
        equals < variable.size() ? variable.substr(equals + 1) : "";
  }
  carried_.variables = plan_.variables;
  for (const Arguments::Variable& variable : arguments_.variables) {
    if (variable.value) {
      carried_.set[variable.name] = *variable.value;
    } else {
      carried_.variables.push_back(variable.name);
    }
  }
}

// What every program expects. The processes are those of the rank's own namespace.
Status Planner::add_machine() {
  add(carried_.words, {"--dev", "/dev", "--bind", "/proc", "/proc", "--ro-bind", "/sys", "/sys"});
  for (const char* path : {"/dev", "/proc", "/sys"}) targets_.push_back(path);
  for (const char* path : {"/etc/resolv.conf", "/etc/hosts"}) {
    if (access(path, R_OK) == 0) TRY(add_bind({path, path, true}));
  }
  for (const Arguments::Device& device : arguments_.devices) {
    TRY(add_bind({device.source, device.target}, "--dev-bind"));
  }
  return {};
}

Status Planner::add_shared_memory() {
  const std::string& ipc = arguments_.ipc;
  const bool own = ipc == "private" || ipc == "shareable" || ipc == "none";
  if (!own && !ipc.empty() && ipc != "host") return needs_engine("--ipc " + ipc);
  if (own) add(carried_.words, {"--unshare-ipc"});
  int64_t bytes = arguments_.shm_bytes;
  if (bytes == 0 && !plan_.shm_size.empty()) {
    TRY_SET(bytes, parse_size(plan_.shm_size, "shm size"));
  }
  // The machine's own where that is large enough: ranks of a node find each other there (MPI,
  // NCCL).
  struct statvfs there{};
  const bool enough = statvfs("/dev/shm", &there) == 0 &&
                      static_cast<int64_t>(there.f_blocks * there.f_frsize) >= bytes;
  if (!own && (enough || ipc == "host")) {
    add(carried_.words, {"--bind", "/dev/shm", "/dev/shm"});
    return {};
  }
  add(carried_.words, {"--perms", "1777"});
  if (bytes > 0) add(carried_.words, {"--size", std::to_string(bytes)});
  add(carried_.words, {"--tmpfs", "/dev/shm"});
  return {};
}

Status Planner::add_network() {
  const std::string& network = arguments_.network;
  if (network == "none") {
    add(carried_.words, {"--unshare-net"});
  } else if (!network.empty() && network != "host") {
    return needs_engine("--network " + network);
  }
  return {};
}

Status Planner::add_gpus() {
  if (!plan_.gpus && arguments_.gpus.empty()) return {};
  const GpuFiles files = gpu_files("/");
  if (files.devices.empty()) {
    return fail(ErrorKind::unavailable, "the run wants GPUs and there is no /dev/nvidia0 here");
  }
  for (const std::string& device : files.devices) {
    add(carried_.words, {"--dev-bind", device, device});
  }
  for (const Bind& bind : files.driver) TRY(add_bind(bind));
  const auto append = [&](const std::string& name, const std::string& otherwise) {
    std::string& value = carried_.given.emplace(name, otherwise).first->second;
    value += (value.empty() ? "" : ":") + std::string(kDriverFolder);
  };
  append("LD_LIBRARY_PATH", "");
  append("PATH", std::string(kPathInside));
  return {};
}

Status Planner::add_user() {
  const std::string id = std::to_string(submitter_.uid);
  const std::string group = std::to_string(submitter_.gid);
  const std::string name = submitter_.name.empty() ? "user" + id : submitter_.name;
  const std::string user = arguments_.user.substr(0, arguments_.user.find(':'));
  unsigned inside = submitter_.uid;
  if (user == "0" || user == "root") {
    inside = 0;
    // Root inside, and the submitter for everybody else.
    if (submitter_.uid != 0) add(carried_.words, {"--unshare-user", "--uid", "0", "--gid", "0"});
  } else if (!user.empty() && user != id && user != name) {
    return needs_engine("--user " + arguments_.user);
  }
  TRY_SET(const std::string known, text_inside("/etc/passwd"));
  std::string home(kHomeDefault);
  if (const auto entry = account_of(known, inside); entry && entry->size() >= 6) {
    const Result<Place> place = view().find((*entry)[5]);
    if (place && place->folder) home = (*entry)[5];
  }
  carried_.given.emplace("HOME", home);
  if (inside != 0) {
    carried_.given.emplace("USER", name);
    carried_.given.emplace("LOGNAME", name);
  }
  TRY(add_account("/etc/passwd", submitter_.uid,
                  name + ":x:" + id + ":" + group + "::" + home + ":/bin/sh\n"));
  return add_account("/etc/group", submitter_.gid, name + ":x:" + group + ":\n");
}

// An ordinary user has none to give away.
Status Planner::add_capabilities() {
  if (submitter_.uid != 0) {
    if (arguments_.capabilities.empty()) return {};
    return needs_engine("--cap-add " + arguments_.capabilities.front());
  }
  const auto named = [](const std::string& name) { return name == "ALL" ? name : "CAP_" + name; };
  add(carried_.words, {"--cap-drop", "ALL"});
  for (const char* capability : kRootsCapabilities) add(carried_.words, {"--cap-add", capability});
  for (const std::string& name : arguments_.capabilities_less) {
    add(carried_.words, {"--cap-drop", named(name)});
  }
  for (const std::string& name : arguments_.capabilities) {
    add(carried_.words, {"--cap-add", named(name)});
  }
  return {};
}

Status Planner::add_limits() {
  for (const Arguments::Limit& limit : arguments_.limits) {
    const auto* known =
        std::find_if(std::begin(kBubblewrapLimits), std::end(kBubblewrapLimits),
                     [&](const BubblewrapLimit& it) { return it.name == limit.name; });
    if (known == std::end(kBubblewrapLimits)) return needs_engine("--ulimit " + limit.name);
    const auto value = [](int64_t given) {
      return given < 0 ? RLIM_INFINITY : static_cast<rlim_t>(given);
    };
    carried_.limits.push_back({known->resource, value(limit.soft), value(limit.hard)});
  }
  return {};
}

// Programs that ask who they are fail where nobody knows.
Status Planner::add_account(const std::string& path, unsigned id, const std::string& line) {
  TRY_SET(std::string text, text_inside(path));
  if (account_of(text, id)) return {};
  if (!text.empty() && !text.ends_with('\n')) text += '\n';
  const std::string copy = file_.string() + "." + fs::path(path).filename().string();
  TRY(write_file(copy, text + line));
  return add_bind({copy, path, true});
}

Status Planner::add_bind(const Bind& bind, const std::string& word) {
  if (!bind.target.starts_with('/')) {
    return fail(ErrorKind::invalid, "'" + bind.target + "' is no absolute path of a container");
  }
  if (access(bind.source.c_str(), F_OK) != 0) {
    return fail_errno(errno, "show " + bind.source + " as " + bind.target);
  }
  TRY_SET(const Place place, view().find(bind.target));
  if (place.inside == "/") {
    return fail(ErrorKind::invalid, "'" + bind.target + "' is the container's whole root");
  }
  add(carried_.words, {word, bind.source, place.inside});
  carried_.binds.push_back({bind.source, place.inside, bind.read_only});
  targets_.push_back(place.inside);
  return {};
}

Status Planner::add_binds() {
  // The user's own have the last word on a path; one in another goes over it.
  std::vector<Bind> binds = plan_.binds;
  binds.insert(binds.end(), arguments_.binds.begin(), arguments_.binds.end());
  std::stable_sort(binds.begin(), binds.end(), [](const Bind& one, const Bind& other) {
    return one.target.size() < other.target.size();
  });
  for (const Bind& bind : binds) TRY(add_bind(bind));
  for (const Arguments::Memory& memory : arguments_.memory) {
    TRY_SET(const Place place, view().find(memory.target));
    if (memory.bytes > 0) add(carried_.words, {"--size", std::to_string(memory.bytes)});
    add(carried_.words, {"--tmpfs", place.inside});
    targets_.push_back(place.inside);
  }
  return {};
}

Status Planner::add_folder() {
  std::string folder = arguments_.folder.empty() ? plan_.folder : arguments_.folder;
  if (folder.empty()) folder = plan_.config.folder.empty() ? "/" : plan_.config.folder;
  TRY_SET(const Place place, view().find(folder));
  if (!place.exists) {
    add(carried_.words, {"--dir", place.inside});
    targets_.push_back(place.inside);
  } else if (!place.folder) {
    return fail(ErrorKind::invalid, "'" + folder + "' is no folder of the container");
  }
  add(carried_.words, {"--chdir", place.inside});
  return {};
}

Status Planner::add_root() {
  carried_.layered = {"--bind", carried_.layer + "/root", "/"};
  Words memory;
  for (const char* path : kMemoryFolders) {
    TRY_SET(const Place place, View(plan_.root, {}).find(path));
    targets_.push_back(place.inside);
    add(memory, {"--perms", "1777", "--tmpfs", place.inside});
  }
  TRY_SET(carried_.plain, root_words(plan_.root, targets_, "--ro-bind"));
  carried_.plain.insert(carried_.plain.end(), memory.begin(), memory.end());
  return {};
}

Result<std::string> Planner::text_inside(const std::string& path) const {
  TRY_SET(const Place place, View(plan_.root, {}).find(path));
  if (!place.exists) return std::string();
  return read_file(place.outside);
}

}  // namespace

Result<Carried> plan_bubblewrap(const Plan& plan, const Submitter& submitter,
                                const fs::path& file) {
  return Planner(plan, submitter, file).run();
}

}  // namespace trainyard::container
