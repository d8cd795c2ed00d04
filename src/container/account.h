#pragma once

#include <optional>
#include <string>
#include <vector>

namespace trainyard::container {

// The account that a container's processes run as.
struct Account {
  unsigned uid = 0;
  unsigned gid = 0;
  std::string name;  // Empty: nobody knows it.
  std::vector<unsigned> groups;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("uid", self.uid);
    f("gid", self.gid);
    f("name", self.name);
    f("groups", self.groups);
  }
  bool operator==(const Account&) const = default;
};

// This process's own. Not to be asked in a rank's user namespace: groups are unknown there.
Account own_account();

// The fields of a number's line in a passwd or group file.
std::optional<std::vector<std::string>> account_of(const std::string& text, unsigned id);

// An image's passwd and group files, with lines for the account and its groups where they have
// none: programs that ask who they are fail where nobody knows. Groups are named as in
// `groups_here`.
std::string passwd_with(std::string text, const Account& account, const std::string& home);
std::string group_with(std::string text, const Account& account, const std::string& groups_here);

}  // namespace trainyard::container
