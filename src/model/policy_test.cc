#include "model/policy.h"

#include <doctest/doctest.h>

namespace trainyard {
namespace {

using List = std::vector<std::string>;

TEST_CASE("a path is allowed by its own name or that of a folder above it") {
  const List list = {"/data", "/scratch:ro"};
  CHECK(allows_path(list, "/data", PathUse::write));
  CHECK(allows_path(list, "/data/a/b", PathUse::write));
  CHECK(allows_path(list, "/data/./a/", PathUse::write));
  CHECK(allows_path(list, "/scratch/x", PathUse::read));
  CHECK_FALSE(allows_path(list, "/scratch/x", PathUse::write));
  for (const char* other : {"/", "/dat", "/database", "/data/../etc", "/etc", "data", ""}) {
    CAPTURE(other);
    CHECK_FALSE(allows_path(list, other, PathUse::read));
  }
  CHECK(allows_path(List{"*"}, "/", PathUse::write));
  CHECK_FALSE(allows_path({}, "/data", PathUse::read));
}

TEST_CASE("submitters begin with nothing of the machine, admins with everything") {
  const RolePolicy submitter = default_policy();
  CHECK_FALSE(allows_path(submitter.host_paths, "/tmp", PathUse::read));
  CHECK_FALSE(allows_path(submitter.image_folders, "/tmp/x.tar", PathUse::read));
  CHECK_FALSE(allows_name(submitter.capabilities, "SYS_PTRACE"));
  CHECK_FALSE(allows_name(submitter.devices, "/dev/fuse"));
  CHECK_FALSE(allows_name(submitter.users, "root"));
  CHECK(allows_name(submitter.networks, "none"));
  CHECK_FALSE(allows_name(submitter.networks, "container:other"));
  const RolePolicy admin = unlimited_policy();
  CHECK(allows_path(admin.host_paths, "/", PathUse::write));
  CHECK(allows_name(admin.capabilities, "SYS_ADMIN"));
}

TEST_CASE("an entry that would reach the server's home or an engine's socket is refused") {
  const List guarded = {"/srv/yard", "/run/docker.sock"};
  const auto check = [&](const std::string& path) {
    return check_policy({.host_paths = {path}}, guarded).has_value();
  };
  CHECK(check("/data"));
  CHECK(check("/data:ro"));
  CHECK(check("/srv/images"));
  CHECK(check("*"));
  for (const char* bad : {"/", "/srv", "/srv/yard", "/srv/yard/blobs", "/run", "/run:ro", "data",
                          "/data/../srv", "/data/", ""}) {
    CAPTURE(bad);
    CHECK_FALSE(check(bad));
  }
  CHECK_FALSE(check_policy({.image_folders = {"/srv"}}, guarded));
}

TEST_CASE("a capability is one of the kernel's, written as it is compared") {
  const auto hint = [](const char* name) {
    RolePolicy policy;
    policy.capabilities = {name};
    const Status checked = check_policy(policy, {});
    return checked ? std::string("allowed") : checked.error().hint;
  };
  CHECK(hint("SYS_PTRACE") == "allowed");
  CHECK(hint("ALL") == "allowed");
  CHECK(hint("*") == "allowed");
  CHECK(hint("SYS_PTRCE") == "Did you mean 'SYS_PTRACE'?");
  CHECK(hint("CAP_SYS_ADMIN") == "Did you mean 'SYS_ADMIN'?");
  CHECK(hint("net_raw") == "Did you mean 'NET_RAW'?");
  CHECK(hint("FOO").starts_with("They are written like SYS_PTRACE"));
}

}  // namespace
}  // namespace trainyard
