#include "container/account.h"

#include <unistd.h>

#include <cstdlib>

#include "base/file.h"
#include "base/text.h"

namespace trainyard::container {
namespace {

void add_line(std::string& text, const std::string& line) {
  if (!text.empty() && !text.ends_with('\n')) text += '\n';
  text += line + '\n';
}

bool has_name(const std::string& text, const std::string& name) {
  return text.starts_with(name + ":") || text.find("\n" + name + ":") != std::string::npos;
}

// One that the file does not use for another.
std::string free_name(const std::string& text, const std::string& name, const std::string& other) {
  return name.empty() || has_name(text, name) ? other : name;
}

}  // namespace

Account own_account() {
  Account account{.uid = geteuid(), .gid = getegid(), .name = {}, .groups = {}};
  // Not by NSS: a static program has none.
  const char* user = std::getenv("USER");
  const auto entry = account_of(read_file("/etc/passwd").value_or(""), account.uid);
  account.name = entry ? entry->front() : user != nullptr ? user : "";
  if (const int count = getgroups(0, nullptr); count > 0) {
    account.groups.resize(static_cast<size_t>(count));
    const int got = getgroups(count, account.groups.data());
    account.groups.resize(got < 0 ? 0 : static_cast<size_t>(got));
  }
  return account;
}

std::optional<std::vector<std::string>> account_of(const std::string& text, unsigned id) {
  for (const std::string& line : split(text, '\n')) {
    std::vector<std::string> fields = split(line, ':');
    if (fields.size() >= 4 && fields[2] == std::to_string(id)) return fields;
  }
  return std::nullopt;
}

std::string passwd_with(std::string text, const Account& account, const std::string& home) {
  if (account_of(text, account.uid)) return text;
  const std::string id = std::to_string(account.uid);
  const std::string name = free_name(text, account.name, "user" + id);
  add_line(text, name + ":x:" + id + ":" + std::to_string(account.gid) + "::" + home + ":/bin/sh");
  return text;
}

std::string group_with(std::string text, const Account& account, const std::string& groups_here) {
  std::vector<unsigned> groups = account.groups;
  groups.insert(groups.begin(), account.gid);
  for (const unsigned group : groups) {
    if (account_of(text, group)) continue;
    const std::string id = std::to_string(group);
    const auto here = account_of(groups_here, group);
    const std::string name = free_name(text, here ? here->front() : account.name, "group" + id);
    add_line(text, name + ":x:" + id + ":");
  }
  return text;
}

}  // namespace trainyard::container
