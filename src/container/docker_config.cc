#include "container/docker_config.h"

#include <fmt/format.h>
#include <sys/statvfs.h>

#include <algorithm>

#include "base/text.h"

namespace trainyard::container {
namespace {

using wire::Json;
using Variables = std::map<std::string, std::string>;

constexpr int64_t kNofile = 20'000;  // What podman may be given where it insists on both.
constexpr int64_t kNproc = 32'768;
constexpr int64_t kBillion = 1'000'000'000;

const std::string* find(const Variables& variables, const std::string& name) {
  const auto found = variables.find(name);
  return found == variables.end() ? nullptr : &found->second;
}

// ---- GPUs ----

struct Gpus {
  Json requests = Json::array();  // docker's
  Json devices = Json::array();   // podman's, by the names of CDI
  std::string seen;               // CUDA_VISIBLE_DEVICES inside; empty: as it is.
};

// Those named are counted from 0 inside, whatever their numbers here.
std::string renumbered(const std::vector<std::string>& ids) {
  std::string text;
  for (size_t i = 0; i < ids.size(); ++i) {
    const bool number = parse_int(ids[i], "device").has_value();
    text += (i == 0 ? "" : ",") + (number ? std::to_string(i) : ids[i]);
  }
  return text;
}

Gpus gpus_of(const Plan& plan, const Arguments& arguments, const Variables& variables) {
  const std::string* visible = find(variables, "CUDA_VISIBLE_DEVICES");
  std::vector<std::string> ids;
  Json request{{"Driver", "nvidia"}, {"Capabilities", {{"gpu"}}}};
  Gpus gpus;
  if (plan.gpus && visible != nullptr && !visible->empty()) {
    ids = split(*visible, ',');
    gpus.seen = renumbered(ids);
  } else if (arguments.gpus.starts_with("device=")) {
    ids = split(arguments.gpus.substr(7), ',');
  } else if (!plan.gpus && arguments.gpus.empty()) {
    return gpus;
  }
  const auto count = parse_int(arguments.gpus, "--gpus");
  if (ids.empty() && !plan.gpus && count) {
    request["Count"] = *count;
    for (int64_t i = 0; i < *count; ++i) ids.push_back(std::to_string(i));
  } else if (ids.empty()) {
    request["Count"] = -1;
    ids = {"all"};
  } else {
    request["DeviceIDs"] = ids;
  }
  gpus.requests.push_back(std::move(request));
  for (const std::string& id : ids) {
    const std::string name = "nvidia.com/gpu=" + id;
    gpus.devices.push_back({{"PathOnHost", name}});
  }
  return gpus;
}

// ---- the rest ----

Json mounts_of(const Plan& plan, const Arguments& arguments) {
  Json mounts = Json::array();
  const auto add = [&](const Bind& bind) {
    mounts.push_back({{"Type", "bind"},
                      {"Source", bind.source},
                      {"Target", bind.target},
                      {"ReadOnly", bind.read_only}});
  };
  // The user's own come later: theirs is the last word on a path.
  for (const Bind& bind : plan.binds) {
    const auto same = [&](const Bind& other) { return other.target == bind.target; };
    if (std::none_of(arguments.binds.begin(), arguments.binds.end(), same)) add(bind);
  }
  for (const Bind& bind : arguments.binds) add(bind);
  for (const Arguments::Memory& memory : arguments.memory) {
    Json mount{{"Type", "tmpfs"}, {"Target", memory.target}};
    if (memory.bytes > 0) mount["TmpfsOptions"] = {{"SizeBytes", memory.bytes}};
    mounts.push_back(std::move(mount));
  }
  return mounts;
}

Json variables_of(const Plan& plan, const Arguments& arguments, const Variables& ours,
                  const Gpus& gpus, const std::string& person) {
  // The image's own come with it, but for one that was taken in as a folder.
  Variables inside;
  for (const std::string& text : plan.config.variables) {
    const size_t equals = text.find('=');
    if (equals != std::string::npos) inside[text.substr(0, equals)] = text.substr(equals + 1);
  }
  for (const std::string& name : plan.variables) {
    if (const std::string* value = find(ours, name)) inside[name] = *value;
  }
  for (const auto& [name, value] : ours) {
    if (goes_inside(name)) inside[name] = value;
  }
  if (!person.empty()) {
    inside.try_emplace("USER", person);
    inside.try_emplace("LOGNAME", person);
  }
  if (gpus.requests.empty()) {
    inside["NVIDIA_VISIBLE_DEVICES"] = "void";  // Images say "all", and some engines heed it.
  } else if (!gpus.seen.empty()) {
    inside["CUDA_VISIBLE_DEVICES"] = gpus.seen;
  }
  for (const Arguments::Variable& variable : arguments.variables) {
    const std::string* outside = find(ours, variable.name);
    if (variable.value) {
      inside[variable.name] = *variable.value;
    } else if (outside != nullptr) {
      inside[variable.name] = *outside;
    }
  }
  Json list = Json::array();
  for (const auto& [name, value] : inside) list.push_back(name + "=" + value);
  return list;
}

Json limits_of(const Arguments& arguments, bool podman) {
  Json limits = Json::array();
  bool nofile = false;
  bool nproc = false;
  const auto add = [&](std::string_view name, int64_t soft, int64_t hard) {
    limits.push_back({{"Name", name}, {"Soft", soft}, {"Hard", hard}});
  };
  for (const Arguments::Limit& limit : arguments.limits) {
    add(limit.name, limit.soft, limit.hard);
    nofile = nofile || limit.name == "nofile";
    nproc = nproc || limit.name == "nproc";
  }
  // One limit given, podman forgets its settings for these two and asks for more than it may have.
  if (podman && !limits.empty() && !nofile) add("nofile", kNofile, kNofile);
  if (podman && !limits.empty() && !nproc) add("nproc", kNproc, kNproc);
  return limits;
}

// Root in a person's own docker is that person; podman can keep the ids as they are.
bool is_root_inside(const EngineAddress& engine) { return engine.rootless && !engine.podman; }

bool is_persons(const Arguments& arguments, const EngineAddress& engine, const Account& account) {
  return arguments.user.empty() && !is_root_inside(engine) && account.uid != 0;
}

std::string user_of(const Arguments& arguments, const EngineAddress& engine,
                    const Account& account) {
  if (!arguments.user.empty()) return arguments.user;
  if (is_root_inside(engine)) return "0:0";
  return fmt::format("{}:{}", account.uid, account.gid);
}

Result<Json> host_config(const Plan& plan, const Arguments& arguments, const EngineAddress& engine,
                         const Here& here, const Gpus& gpus) {
  Json host{{"NetworkMode", arguments.network.empty() ? "host" : arguments.network},
            {"Mounts", mounts_of(plan, arguments)},
            // What it prints is ours to keep; an engine would keep it a second time.
            {"LogConfig", {{"Type", "none"}}}};
  int64_t shm = arguments.shm_bytes;
  if (shm == 0 && !plan.shm_size.empty()) {
    TRY_SET(shm, parse_size(plan.shm_size, "shm size"));
  }
  // The machine's where it is large enough: ranks of a node find each other there (MPI, NCCL).
  const std::string ipc = arguments.ipc.empty() && shm <= here.shm_bytes ? "host" : arguments.ipc;
  if (!ipc.empty()) host["IpcMode"] = ipc;
  if (shm > 0 && ipc != "host") host["ShmSize"] = shm;
  if (plan.memory_bytes > 0) {
    host["Memory"] = plan.memory_bytes;
    host["MemorySwap"] = plan.memory_bytes;  // Both together: no swap.
  }
  if (plan.cpus > 0) host["NanoCpus"] = plan.cpus * kBillion;
  Json devices = engine.podman ? gpus.devices : Json::array();
  for (const Arguments::Device& device : arguments.devices) {
    devices.push_back({{"PathOnHost", device.source},
                       {"PathInContainer", device.target},
                       {"CgroupPermissions", device.rights}});
  }
  if (!devices.empty()) host["Devices"] = std::move(devices);
  if (!engine.podman && !gpus.requests.empty()) host["DeviceRequests"] = gpus.requests;
  Json limits = limits_of(arguments, engine.podman);
  if (!limits.empty()) host["Ulimits"] = std::move(limits);
  if (!arguments.capabilities.empty()) host["CapAdd"] = arguments.capabilities;
  if (!arguments.capabilities_less.empty()) host["CapDrop"] = arguments.capabilities_less;
  if (engine.rootless && engine.podman) host["UsernsMode"] = "keep-id";
  // Shared folders are often open to a group alone.
  if (is_persons(arguments, engine, here.account)) {
    // A person's own podman may not add them, and hands on those that the person has.
    if (engine.rootless) host["GroupAdd"] = {std::string(kKeepGroups)};
    for (const unsigned group : here.account.groups) {
      if (!engine.rootless) host["GroupAdd"].push_back(std::to_string(group));
    }
  }
  return host;
}

}  // namespace

std::string kept_image(const std::string& container) { return "trainyard-kept:" + container; }

bool runs_as(const Account& account, const Plan& plan, const EngineAddress& engine) {
  const auto arguments = parse_arguments(plan.arguments);
  return arguments && is_persons(*arguments, engine, account);
}

Here look_here(Account account) {
  Here here{.account = std::move(account)};
  struct statvfs shm{};
  if (::statvfs("/dev/shm", &shm) == 0) {
    here.shm_bytes = static_cast<int64_t>(shm.f_blocks) * static_cast<int64_t>(shm.f_frsize);
  }
  return here;
}

Result<Json> container_config(const Plan& plan, const EngineAddress& engine, const Here& here,
                              const Variables& variables, Init init) {
  TRY_SET(const Arguments arguments, parse_arguments(plan.arguments));
  TRY_SET(const std::vector<std::string> words, started_words(plan, arguments));
  const Gpus gpus = gpus_of(plan, arguments, variables);
  TRY_SET(Json host, host_config(plan, arguments, engine, here, gpus));
  // MPI's ranks share memory, and take another for themselves if it has the same number.
  const bool mpi = std::ranges::any_of(variables, [](const auto& each) {
    return goes_inside(each.first) && each.first.ends_with("_RANK");
  });
  if (mpi) {
    host["PidMode"] = "host";
  } else if (init == Init::yes) {
    host["Init"] = true;
  }
  const bool persons = is_persons(arguments, engine, here.account);
  const std::string person = persons ? here.account.name : "";
  Json config{{"Image", plan.upon.empty() ? plan.image : kept_image(plan.upon)},
              // All of it as entry point, or the image's own would come before it.
              {"Entrypoint", words},
              {"Cmd", Json::array()},
              {"Env", variables_of(plan, arguments, variables, gpus, person)},
              {"User", user_of(arguments, engine, here.account)},
              {"AttachStdout", true},
              {"AttachStderr", true},
              {"Labels", {{kLabelMark, plan.mark}}},
              {"HostConfig", std::move(host)}};
  for (const std::string* folder : {&arguments.folder, &plan.folder, &plan.config.folder}) {
    if (folder->empty()) continue;
    config["WorkingDir"] = *folder;
    break;
  }
  return config;
}

}  // namespace trainyard::container
