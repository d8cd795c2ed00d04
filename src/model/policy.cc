#include "model/policy.h"

#include <algorithm>
#include <filesystem>

#include "base/text.h"

namespace trainyard {
namespace {

constexpr std::string_view kEverything = "*";
constexpr std::string_view kReadOnly = ":ro";
constexpr size_t kPolicyEntriesMax = 1000;  // In one list.
constexpr size_t kPolicyEntryMax = 4096;    // Bytes, as a path has.

std::string normal(std::string_view path) {
  std::string text = std::filesystem::path(path).lexically_normal();
  while (text.size() > 1 && text.ends_with('/')) text.pop_back();
  return text;
}

bool lies_in(std::string_view path, std::string_view folder) {
  return path == folder || folder == "/" ||
         (path.starts_with(folder) && path[folder.size()] == '/');
}

Status check_path(std::string_view option, const std::string& entry,
                  std::span<const std::string> guarded) {
  std::string_view path = entry;
  if (path.ends_with(kReadOnly)) path.remove_suffix(kReadOnly.size());
  const std::string what = std::string(option) + " " + entry;
  if (!path.starts_with('/') || normal(path) != path) {
    return fail(ErrorKind::invalid, what + ": must be an absolute path without '.' and '..'");
  }
  if (path == "/") {
    return fail(ErrorKind::invalid, what + ": the whole machine cannot be allowed",
                "Name the folders that people need.");
  }
  for (const std::string& kept : guarded) {
    if (!lies_in(path, kept) && !lies_in(kept, path)) continue;
    return fail(ErrorKind::invalid,
                what + ": it reaches " + kept + ", by which one could act as the server",
                "Name a folder that does not hold it.");
  }
  return {};
}

// As --cap-add's are compared: without CAP_, in capitals.
Status check_capability(const std::string& entry) {
  const std::vector<std::string> known = {"ALL",
                                          "AUDIT_CONTROL",
                                          "AUDIT_READ",
                                          "AUDIT_WRITE",
                                          "BLOCK_SUSPEND",
                                          "BPF",
                                          "CHECKPOINT_RESTORE",
                                          "CHOWN",
                                          "DAC_OVERRIDE",
                                          "DAC_READ_SEARCH",
                                          "FOWNER",
                                          "FSETID",
                                          "IPC_LOCK",
                                          "IPC_OWNER",
                                          "KILL",
                                          "LEASE",
                                          "LINUX_IMMUTABLE",
                                          "MAC_ADMIN",
                                          "MAC_OVERRIDE",
                                          "MKNOD",
                                          "NET_ADMIN",
                                          "NET_BIND_SERVICE",
                                          "NET_BROADCAST",
                                          "NET_RAW",
                                          "PERFMON",
                                          "SETFCAP",
                                          "SETGID",
                                          "SETPCAP",
                                          "SETUID",
                                          "SYSLOG",
                                          "SYS_ADMIN",
                                          "SYS_BOOT",
                                          "SYS_CHROOT",
                                          "SYS_MODULE",
                                          "SYS_NICE",
                                          "SYS_PACCT",
                                          "SYS_PTRACE",
                                          "SYS_RAWIO",
                                          "SYS_RESOURCE",
                                          "SYS_TIME",
                                          "SYS_TTY_CONFIG",
                                          "WAKE_ALARM"};
  if (entry == kEverything || std::ranges::find(known, entry) != known.end()) return {};
  std::string plain = entry;
  for (char& c : plain) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
  if (plain.starts_with("CAP_")) plain = plain.substr(4);
  const std::string near = nearest(plain, known);
  return fail(ErrorKind::invalid,
              "--capability " + printable(entry.substr(0, 80)) + ": there is no such capability",
              near.empty() ? "They are written like SYS_PTRACE; `man capabilities` has them."
                           : "Did you mean '" + near + "'?");
}

}  // namespace

RolePolicy default_policy() {
  RolePolicy policy;
  policy.networks = {"host", "bridge", "none"};
  return policy;
}

RolePolicy unlimited_policy() {
  const std::vector<std::string> all = {std::string(kEverything)};
  return {.image_folders = all,
          .host_paths = all,
          .capabilities = all,
          .devices = all,
          .networks = all,
          .users = all};
}

bool allows_everything(std::span<const std::string> list) {
  return std::ranges::find(list, kEverything) != list.end();
}

bool allows_name(std::span<const std::string> list, std::string_view name) {
  return allows_everything(list) || std::ranges::find(list, name) != list.end();
}

bool allows_path(std::span<const std::string> list, std::string_view path, PathUse use) {
  if (allows_everything(list)) return true;
  const std::string wanted = normal(path);
  if (!wanted.starts_with('/')) return false;
  return std::ranges::any_of(list, [&](std::string_view entry) {
    const bool read_only = entry.ends_with(kReadOnly);
    if (read_only) entry.remove_suffix(kReadOnly.size());
    return lies_in(wanted, entry) && (!read_only || use == PathUse::read);
  });
}

Status check_policy(const RolePolicy& policy, std::span<const std::string> guarded) {
  for (const auto* list : {&policy.image_folders, &policy.host_paths, &policy.capabilities,
                           &policy.devices, &policy.networks, &policy.users}) {
    if (list->size() > kPolicyEntriesMax) {
      return fail(ErrorKind::invalid, "a list of the policy has more than " +
                                          std::to_string(kPolicyEntriesMax) + " entries");
    }
    for (const std::string& entry : *list) {
      if (entry.empty() || entry.size() > kPolicyEntryMax) {
        return fail(ErrorKind::invalid, "an entry of the policy is empty or too long");
      }
    }
  }
  for (const std::string& folder : policy.image_folders) {
    if (folder != kEverything) TRY(check_path("--image-folder", folder, guarded));
  }
  for (const std::string& path : policy.host_paths) {
    if (path != kEverything) TRY(check_path("--host-path", path, guarded));
  }
  for (const std::string& name : policy.capabilities) TRY(check_capability(name));
  return {};
}

}  // namespace trainyard
