#include "container/account.h"

#include <doctest/doctest.h>

using namespace trainyard::container;

namespace {

const Account kAda{.uid = 1000, .gid = 100, .name = "ada", .groups = {100, 44}};

}  // namespace

TEST_CASE("an account is added to an image's files where they have none") {
  CHECK(passwd_with("", kAda, "/tmp") == "ada:x:1000:100::/tmp:/bin/sh\n");
  CHECK(passwd_with("root:x:0:0::/root:/bin/sh", kAda, "/tmp") ==
        "root:x:0:0::/root:/bin/sh\nada:x:1000:100::/tmp:/bin/sh\n");
  CHECK(passwd_with("jo:x:1000:1::/home/jo:/bin/sh\n", kAda, "/tmp") ==
        "jo:x:1000:1::/home/jo:/bin/sh\n");
  // The name is another's there.
  CHECK(passwd_with("ada:x:7:7::/:/bin/sh\n", kAda, "/tmp") ==
        "ada:x:7:7::/:/bin/sh\nuser1000:x:1000:100::/tmp:/bin/sh\n");
}

TEST_CASE("groups are named as on this machine, unless the image knows them") {
  const std::string here = "video:x:44:ada\nusers:x:100:\n";
  CHECK(group_with("", kAda, here) == "users:x:100:\nvideo:x:44:\n");
  CHECK(group_with("staff:x:100:\n", kAda, here) == "staff:x:100:\nvideo:x:44:\n");
  CHECK(group_with("video:x:9:\n", kAda, here) == "video:x:9:\nusers:x:100:\ngroup44:x:44:\n");
  CHECK(group_with("", kAda, "") == "ada:x:100:\ngroup44:x:44:\n");
}
