#include "env/index_settings.h"

#include <doctest/doctest.h>

namespace trainyard::env {
namespace {

struct Machine {
  TempDir temp;
  Variables variables = {{"HOME", temp.path()}};
  fs::path file = temp.path() / "etc-pip.conf";

  void settle() { add_index_settings(variables, file); }
};

TEST_CASE("pip's variables hold for uv too") {
  Machine machine;
  machine.variables["PIP_INDEX_URL"] = "https://index.example/simple";
  machine.variables["PIP_EXTRA_INDEX_URL"] = "https://a.example https://b.example";
  machine.variables["PIP_FIND_LINKS"] =
      "/no/such https://wheels.example " + machine.temp.path().string();
  machine.variables["PIP_CERT"] = "/etc/ca.pem";
  machine.settle();
  CHECK(machine.variables["UV_DEFAULT_INDEX"] == "https://index.example/simple");
  CHECK(machine.variables["UV_INDEX"] == "https://a.example https://b.example");
  CHECK(machine.variables["UV_INDEX_STRATEGY"] == "unsafe-best-match");
  CHECK(machine.variables["UV_FIND_LINKS"] ==
        "https://wheels.example," + machine.temp.path().string());
  CHECK(machine.variables["SSL_CERT_FILE"] == "/etc/ca.pem");
  CHECK(!machine.variables.contains("UV_NO_INDEX"));
}

TEST_CASE("uv's own variables win") {
  Machine machine;
  machine.variables["PIP_INDEX_URL"] = "https://pip.example";
  SUBCASE("as they are called now") {
    machine.variables["UV_DEFAULT_INDEX"] = "https://uv.example";
    machine.settle();
    CHECK(machine.variables["UV_DEFAULT_INDEX"] == "https://uv.example");
  }
  SUBCASE("as they were called") {
    machine.variables["UV_INDEX_URL"] = "https://uv.example";
    machine.settle();
    CHECK(!machine.variables.contains("UV_DEFAULT_INDEX"));
  }
}

TEST_CASE("pip's files are read: the machine's, the user's, and the one that is named") {
  Machine machine;
  REQUIRE(write_file(machine.file,
                     "# ours\n[global]\nindex-url = https://system.example\n"
                     "extra_index_url =\n  https://a.example\n  https://b.example\n"
                     "[list]\nproxy = http://not.ours\n"));
  SUBCASE("the machine's") {
    machine.settle();
    CHECK(machine.variables["UV_DEFAULT_INDEX"] == "https://system.example");
    CHECK(machine.variables["UV_INDEX"] == "https://a.example https://b.example");
    CHECK(!machine.variables.contains("ALL_PROXY"));
  }
  SUBCASE("the user's over it") {
    REQUIRE(make_dirs(machine.temp.path() / ".config/pip"));
    REQUIRE(write_file(machine.temp.path() / ".config/pip/pip.conf",
                       "[install]\nindex-url: https://user.example\n"));
    machine.settle();
    CHECK(machine.variables["UV_DEFAULT_INDEX"] == "https://user.example");
  }
  SUBCASE("the named one over that") {
    REQUIRE(
        write_file(machine.temp.path() / "my.conf", "[global]\nindex-url=https://my.example\n"));
    machine.variables["PIP_CONFIG_FILE"] = machine.temp.path() / "my.conf";
    machine.settle();
    CHECK(machine.variables["UV_DEFAULT_INDEX"] == "https://my.example");
  }
  SUBCASE("none") {
    machine.variables["PIP_CONFIG_FILE"] = "/dev/null";
    machine.settle();
    CHECK(!machine.variables.contains("UV_DEFAULT_INDEX"));
  }
}

}  // namespace
}  // namespace trainyard::env
