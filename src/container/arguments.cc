#include "container/arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <functional>
#include <map>

#include "base/text.h"

namespace trainyard::container {
namespace {

constexpr std::string_view kMark = "TRAINYARD_ATTEMPT_MARK";  // Of runtime/ranks.h.
constexpr std::string_view kGpuDevices = "gpus";              // Of RolePolicy::devices.
constexpr std::string_view kMpiPrefixes[] = {"OMPI_", "PMIX_", "PMI_", "PRTE_", "HYDRA_", "MPI_"};

constexpr std::string_view kLimits[] = {
    "as",   "core",   "cpu",   "data", "fsize",  "locks",  "memlock",    "msgqueue",
    "nice", "nofile", "nproc", "rss",  "rtprio", "rttime", "sigpending", "stack"};

using Text = std::string_view;
using Parts = std::map<std::string, std::string, std::less<>>;

std::unexpected<Error> bad(Text option, Text value, Text why) {
  return fail(ErrorKind::invalid, fmt::format("{} {}: {}", option, value, why));
}

// "C:\\data", also when a shell took the backslash: no path of ours is one letter alone.
bool is_windows_path(Text path) {
  return path.size() >= 3 && std::isalpha(static_cast<unsigned char>(path[0])) != 0 &&
         path[1] == ':';
}

Status check_target(Text option, Text value, Text path) {
  if (!path.starts_with('/')) return bad(option, value, "the path inside must begin with '/'");
  if (path == "/") return bad(option, value, "the whole root cannot be covered");
  return {};
}

Status check_bind(Text option, Text value, const Bind& bind) {
  if (!bind.source.starts_with('/')) {
    return fail(ErrorKind::invalid,
                fmt::format("{} {}: '{}' is not an absolute path", option, value, bind.source),
                "Volumes of an engine are not taken: name a folder of the machine the run is on.");
  }
  return check_target(option, value, bind.target);
}

Status add_volume(Text option, Text value, Arguments& to) {
  if (is_windows_path(value)) {
    return fail(ErrorKind::invalid, fmt::format("{} {}: this is a path of Windows", option, value),
                "Name the folder as the machine of the run has it: -v /full/path:/data");
  }
  const std::vector<std::string> parts = split(value, ':');
  if (parts.size() < 2 || parts.size() > 3) {
    return bad(option, value, "must be HOST-PATH:PATH-INSIDE[:ro]");
  }
  Bind bind{.source = parts[0], .target = parts[1]};
  for (const std::string& word : split(parts.size() == 3 ? parts[2] : "rw", ',')) {
    // The rest is of SELinux, Docker Desktop and mount propagation, and changes nothing here.
    constexpr std::array<Text, 9> kNothing = {
        "rw", "z", "Z", "cached", "delegated", "consistent", "shared", "rshared", "rprivate"};
    const bool nothing = std::find(kNothing.begin(), kNothing.end(), word) != kNothing.end();
    if (!nothing && word != "ro") return bad(option, value, "'" + word + "' is not known");
    bind.read_only = bind.read_only || word == "ro";
  }
  TRY(check_bind(option, value, bind));
  to.binds.push_back(std::move(bind));
  return {};
}

Status add_mount(Text option, Text value, Arguments& to) {
  Parts parts;
  for (const std::string& part : split(value, ',')) {
    const size_t equals = part.find('=');
    const std::string key = part.substr(0, equals);
    parts[key] = equals == std::string::npos ? "true" : part.substr(equals + 1);
  }
  const auto take = [&](std::initializer_list<Text> names) {
    for (const Text name : names) {
      if (const auto it = parts.find(name); it != parts.end()) return parts.extract(it).mapped();
    }
    return std::string();
  };
  const std::string type = take({"type"});
  const std::string source = take({"source", "src"});
  const std::string target = take({"target", "destination", "dst"});
  const std::string read_only = take({"readonly", "ro"});
  const std::string size = take({"tmpfs-size"});
  take({"bind-propagation"});
  take({"tmpfs-mode"});
  if (!parts.empty()) return bad(option, value, "'" + parts.begin()->first + "' is not known");
  if (type == "tmpfs") {
    TRY(check_target(option, value, target));
    Arguments::Memory memory{.target = target};
    if (!size.empty()) {
      TRY_SET(memory.bytes, parse_size(size, "tmpfs-size"));
    }
    to.memory.push_back(std::move(memory));
    return {};
  }
  if (type != "bind") return bad(option, value, "only type=bind and type=tmpfs are taken");
  if (is_windows_path(source)) return add_volume(option, source + ":" + target, to);
  Bind bind{.source = source, .target = target};
  bind.read_only = read_only == "true" || read_only == "1";
  TRY(check_bind(option, value, bind));
  to.binds.push_back(std::move(bind));
  return {};
}

Status add_tmpfs(Text option, Text value, Arguments& to) {
  const size_t colon = std::min(value.find(':'), value.size());
  Arguments::Memory memory{.target = std::string(value.substr(0, colon))};
  TRY(check_target(option, value, memory.target));
  for (const std::string& word : split(value.substr(std::min(colon + 1, value.size())), ',')) {
    if (word.starts_with("size=")) {
      TRY_SET(memory.bytes, parse_size(word.substr(5), "size"));
    }
  }
  to.memory.push_back(std::move(memory));
  return {};
}

Status add_variable(Text option, Text value, Arguments& to) {
  const size_t equals = value.find('=');
  Arguments::Variable variable{.name = std::string(value.substr(0, equals)), .value = {}};
  if (variable.name.empty()) return bad(option, value, "must be NAME=VALUE or NAME");
  if (equals != Text::npos) variable.value = std::string(value.substr(equals + 1));
  to.variables.push_back(std::move(variable));
  return {};
}

Status set_shm(Text option, Text value, Arguments& to) {
  TRY_SET(to.shm_bytes, parse_size(value, option));
  return {};
}

Status set_ipc(Text option, Text value, Arguments& to) {
  if (value != "host" && value != "private" && value != "shareable" && value != "none") {
    return bad(option, value, "must be host, private, shareable or none");
  }
  to.ipc = value;
  return {};
}

Status set_network(Text, Text value, Arguments& to) {
  to.network = value;
  return {};
}

Status add_device(Text option, Text value, Arguments& to) {
  const std::vector<std::string> parts = split(value, ':');
  Arguments::Device device{.source = parts[0], .target = parts[0]};
  // "/dev/x:rw" says what may be done, "/dev/x:/dev/y" where it is.
  const bool named = parts.size() > 1 && parts[1].starts_with('/');
  if (named) device.target = parts[1];
  const size_t rights = named ? 2 : 1;
  if (parts.size() > rights) device.rights = parts[rights];
  const bool good = parts.size() <= rights + 1 && !device.rights.empty() &&
                    device.rights.find_first_not_of("rwm") == std::string::npos;
  if (!good || !device.source.starts_with('/')) {
    return bad(option, value, "must be /dev/NAME[:/dev/INSIDE][:rwm]");
  }
  to.devices.push_back(std::move(device));
  return {};
}

Status add_limit(Text option, Text value, Arguments& to) {
  const size_t equals = value.find('=');
  Arguments::Limit limit{.name = std::string(value.substr(0, equals))};
  const bool known =
      std::find(std::begin(kLimits), std::end(kLimits), limit.name) != std::end(kLimits);
  if (!known || equals == Text::npos) {
    return bad(option, value, "must be NAME=SOFT[:HARD], such as memlock=-1 or nofile=4096:8192");
  }
  const std::vector<std::string> numbers = split(value.substr(equals + 1), ':');
  const auto number = [&](const std::string& text) -> Result<int64_t> {
    if (text == "unlimited" || text == "-1") return -1;
    TRY_SET(const int64_t parsed, parse_int(text, option));
    if (parsed < 0) return bad(option, value, "cannot be below -1");
    return parsed;
  };
  TRY_SET(limit.soft, number(numbers[0]));
  TRY_SET(limit.hard, number(numbers.size() > 1 ? numbers[1] : numbers[0]));
  if (numbers.size() > 2 || (limit.hard >= 0 && (limit.soft < 0 || limit.soft > limit.hard))) {
    return bad(option, value, "must be NAME=SOFT[:HARD], the hard one not below the soft one");
  }
  to.limits.push_back(std::move(limit));
  return {};
}

std::string capability(Text value) {
  std::string name(value);
  for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name.starts_with("CAP_") ? name.substr(4) : name;
}

Status add_capability(Text, Text value, Arguments& to) {
  to.capabilities.push_back(capability(value));
  return {};
}

Status drop_capability(Text, Text value, Arguments& to) {
  to.capabilities_less.push_back(capability(value));
  return {};
}

Status set_gpus(Text option, Text value, Arguments& to) {
  std::string text(value);
  std::erase(text, '"');  // docker's own form is '"device=0,1"'.
  const bool number = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  if (text != "all" && !number && !text.starts_with("device=")) {
    return bad(option, value, "must be all, a number, or device=0,1");
  }
  to.gpus = std::move(text);
  return {};
}

Status set_entrypoint(Text, Text value, Arguments& to) {
  to.entrypoint = std::string(value);
  return {};
}

Status set_user(Text option, Text value, Arguments& to) {
  if (value.empty()) return bad(option, value, "must be NAME or UID[:GID]");
  to.user = value;
  return {};
}

Status set_folder(Text option, Text value, Arguments& to) {
  if (!value.starts_with('/')) return bad(option, value, "must begin with '/'");
  to.folder = value;
  return {};
}

// What an option lets a container reach beyond itself; check_arguments() compares that with the
// policy. An option that asks for none of it is free for all who may submit.
enum class Power { none, host_path, capability, device, gpus, network, user };

struct Option {
  Text name;
  Text letter;  // Empty: none.
  Power power;
  Status (*take)(Text option, Text value, Arguments& to);
};

// All that is taken.
constexpr Option kOptions[] = {
    {"--volume", "-v", Power::host_path, add_volume},
    {"--mount", "", Power::host_path, add_mount},
    {"--tmpfs", "", Power::none, add_tmpfs},
    {"--env", "-e", Power::none, add_variable},
    {"--shm-size", "", Power::none, set_shm},
    {"--ipc", "", Power::none, set_ipc},  // "host" is the default anyway.
    {"--network", "", Power::network, set_network},
    {"--net", "", Power::network, set_network},
    {"--gpus", "", Power::gpus, set_gpus},
    {"--device", "", Power::device, add_device},
    {"--ulimit", "", Power::none, add_limit},
    {"--cap-add", "", Power::capability, add_capability},
    {"--cap-drop", "", Power::none, drop_capability},
    {"--entrypoint", "", Power::none, set_entrypoint},
    {"--user", "-u", Power::user, set_user},
    {"--workdir", "-w", Power::none, set_folder},
};

// What is so anyway.
constexpr Text kFlags[] = {"--rm", "--init"};

std::unexpected<Error> not_taken(Text word) {
  std::string known;
  for (const Option& option : kOptions) {
    known += (known.empty() ? "" : " ") +
             std::string(option.letter.empty() ? option.name : option.letter);
  }
  const Text name = word.substr(0, word.find_first_of("= "));
  if (!name.starts_with('-')) {
    return fail(ErrorKind::invalid,
                "'" + std::string(name) + "' stands among the container's arguments alone",
                "Each begins with '-'. Those that are taken: " + known);
  }
  return fail(ErrorKind::invalid,
              "'" + std::string(name) + "' is not taken among the container's arguments",
              "Those that are: " + known);
}

// The value in the same word, where there is one: "--a=b", "-ab", and "-a b", which some write.
struct Match {
  const Option* option = nullptr;
  std::optional<Text> value;
};

Match match(Text word) {
  for (const Option& option : kOptions) {
    if (word == option.name || (!option.letter.empty() && word == option.letter))
      return {&option, {}};
    if (word.starts_with(option.name)) {
      const char next = word[option.name.size()];
      if (next == '=' || next == ' ') return {&option, trim(word.substr(option.name.size() + 1))};
    }
    if (!option.letter.empty() && !word.starts_with("--") && word.starts_with(option.letter)) {
      Text value = word.substr(option.letter.size());
      if (value.starts_with('=')) value.remove_prefix(1);
      return {&option, trim(value)};
    }
  }
  return {};
}

// Finds each option among the words, and its value.
Status for_each(std::span<const std::string> words,
                const std::function<Status(const Option& option, Text value)>& take) {
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (std::find(std::begin(kFlags), std::end(kFlags), word) != std::end(kFlags)) continue;
    const Match found = match(word);
    if (found.option == nullptr) return not_taken(word);
    Text value = found.value.value_or("");
    if (!found.value) {
      if (++i >= words.size())
        return fail(ErrorKind::invalid, "'" + word + "' has no value after it");
      value = words[i];
    }
    TRY(take(*found.option, value));
  }
  return {};
}

// An allowed folder may be a link itself: it is the admin who named it.
Result<std::vector<std::string>> with_links_followed(std::span<const std::string> host_paths) {
  std::vector<std::string> followed(host_paths.begin(), host_paths.end());
  for (const std::string& entry : host_paths) {
    const bool read_only = entry.ends_with(":ro");
    std::error_code error;
    const fs::path real = fs::canonical(entry.substr(0, entry.size() - (read_only ? 3 : 0)), error);
    if (!error) followed.push_back(real.string() + (read_only ? ":ro" : ""));
  }
  return followed;
}

Result<std::string> real_source(const Bind& bind, std::span<const std::string> allowed) {
  std::error_code error;
  const std::string real = fs::canonical(bind.source, error);
  if (error) {
    return fail_errno(error.value(), bind.source + ", which was to be seen as " + bind.target);
  }
  const PathUse use = bind.read_only ? PathUse::read : PathUse::write;
  if (!allows_path(allowed, real, use)) {
    return fail(ErrorKind::denied,
                bind.source + " leads to " + real + " here, which is not among the allowed paths",
                "An admin decides about them with: trainyard server policy set --host-path");
  }
  if (real.find(',') != std::string::npos || bind.target.find(',') != std::string::npos) {
    return fail(ErrorKind::invalid, bind.source + ": a path with a comma cannot be mounted");
  }
  return real;
}

}  // namespace

Result<Arguments> parse_arguments(std::span<const std::string> words) {
  Arguments arguments;
  TRY(for_each(words, [&](const Option& option, Text value) {
    return option.take(option.name, value, arguments);
  }));
  return arguments;
}

Status check_arguments(std::span<const std::string> words, const RolePolicy& policy,
                       std::string_view role, RunGpus gpus) {
  return for_each(words, [&](const Option& option, Text value) -> Status {
    Arguments asked;
    TRY(option.take(option.name, value, asked));
    const auto refused = [&](Text name, Text setting) {
      return fail(ErrorKind::denied,
                  fmt::format("{} {}: the role {} may not use it", option.name, value, role),
                  fmt::format("An admin can allow it: trainyard server policy set --role {} {} {}",
                              role, setting, name));
    };
    switch (option.power) {
      case Power::none:
        return {};
      case Power::host_path:
        for (const Bind& bind : asked.binds) {
          const PathUse use = bind.read_only ? PathUse::read : PathUse::write;
          if (!allows_path(policy.host_paths, bind.source, use)) {
            return refused(bind.source + (bind.read_only ? ":ro" : ""), "--host-path");
          }
        }
        return {};
      case Power::capability:
        for (const std::string& name : asked.capabilities) {
          if (!allows_name(policy.capabilities, name)) return refused(name, "--capability");
        }
        return {};
      case Power::device:
        for (const Arguments::Device& device : asked.devices) {
          if (!allows_name(policy.devices, device.source)) {
            return refused(device.source, "--device");
          }
        }
        return {};
      case Power::gpus:
        // A run that asked the scheduler for GPUs sees those, whatever this says.
        if (gpus == RunGpus::none && !allows_name(policy.devices, kGpuDevices)) {
          Error error = refused(kGpuDevices, "--device").error();
          error.hint = "Ask for GPUs with --gpus N of the run itself. " + error.hint;
          return std::unexpected(std::move(error));
        }
        return {};
      case Power::network:
        if (!allows_name(policy.networks, asked.network)) {
          return refused(asked.network, "--network");
        }
        return {};
      case Power::user:
        if (!allows_name(policy.users, asked.user)) return refused(asked.user, "--user");
        return {};
    }
    return {};
  });
}

Result<std::vector<std::string>> resolve_binds(std::span<const std::string> words,
                                               std::span<const std::string> host_paths) {
  if (host_paths.empty()) return std::vector<std::string>(words.begin(), words.end());
  TRY_SET(const std::vector<std::string> allowed, with_links_followed(host_paths));
  std::vector<std::string> resolved;
  const auto resolve = [&](const Option& option, Text value) -> Status {
    Arguments asked;
    TRY(option.take(option.name, value, asked));
    for (const Bind& bind : asked.binds) {
      TRY_SET(const std::string real, real_source(bind, allowed));
      resolved.emplace_back("--mount");
      resolved.push_back("type=bind,source=" + real + ",target=" + bind.target +
                         (bind.read_only ? ",readonly" : ""));
    }
    if (asked.binds.empty()) {
      resolved.emplace_back(option.name);
      resolved.emplace_back(value);
    }
    return {};
  };
  TRY(for_each(words, resolve));
  return resolved;
}

Result<std::vector<std::string>> argument_words(std::span<const std::string> given) {
  std::vector<std::string> words;
  for (const std::string& argument : given) {
    const bool several = argument.starts_with('-') && argument.find(' ') != std::string::npos;
    TRY_SET(const std::vector<std::string> parts,
            several ? split_words(argument) : Result<std::vector<std::string>>({argument}));
    words.insert(words.end(), parts.begin(), parts.end());
  }
  TRY(parse_arguments(words));
  return words;
}

Result<std::vector<std::string>> split_words(std::string_view text) {
  std::vector<std::string> words;
  bool in_word = false;
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool space = c == ' ' || c == '\t' || c == '\n' || c == '\r';
    if (quote == 0 && space) {
      in_word = false;
      continue;
    }
    if (!in_word) words.emplace_back();
    in_word = true;
    if (quote != 0 && c == quote) {
      quote = 0;
    } else if (quote == 0 && (c == '"' || c == '\'')) {
      quote = c;
    } else if (c == '\\' && quote != '\'' && i + 1 < text.size()) {
      words.back() += text[++i];
    } else {
      words.back() += c;
    }
  }
  if (quote != 0) {
    return fail(ErrorKind::invalid, fmt::format("a {} is not closed: {}", quote, text));
  }
  return words;
}

Result<std::vector<std::string>> started_words(const Plan& plan, const Arguments& arguments) {
  std::vector<std::string> words;
  const auto add = [&](const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
  };
  if (arguments.entrypoint) {
    if (!arguments.entrypoint->empty()) words.push_back(*arguments.entrypoint);
    add(plan.command);
  } else if (!plan.command.empty()) {
    add(plan.command);
  } else {
    add(plan.config.entrypoint);
    add(plan.config.command);
  }
  if (words.empty()) {
    return fail(ErrorKind::invalid, "the image has no command of its own", "Give the run one.");
  }
  return words;
}

bool goes_inside(std::string_view variable) {
  const auto begins = [&](std::string_view prefix) { return variable.starts_with(prefix); };
  return variable == kMark || std::any_of(std::begin(kMpiPrefixes), std::end(kMpiPrefixes), begins);
}

}  // namespace trainyard::container
