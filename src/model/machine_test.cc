#include "model/machine.h"

#include <doctest/doctest.h>

#include "model/run_spec.h"

namespace trainyard {
namespace {

TEST_CASE("a machine's queue is that of the runs sent to it") {
  Machine joined{.workspace = "w", .name = "box"};
  RunSpec spec;
  spec.workspace = "w";
  spec.target = "box";
  CHECK(queue_of(joined) == queue_of(spec));

  const Machine own{.key = "k7", .name = "laptop", .personal = true};
  RunSpec local;
  CHECK(queue_of(local) == kLocalQueue);
  CHECK(queue_of(own) != queue_of(local));
  local.host = "k7";
  CHECK(queue_of(own) == queue_of(local));
  local.workspace = "another";
  CHECK(queue_of(own) == queue_of(local));
}

TEST_CASE("the server's machine has one queue by either of its names") {
  RunSpec spec;
  spec.target = "server";
  CHECK(queue_of(spec) == kLocalQueue);
}

TEST_CASE("a host's name becomes one that a target may have") {
  CHECK(name_from_host("gpu-box.lab.example") == "gpu-box");
  CHECK(name_from_host("Bob's Mac") == "Bob-s-Mac");
  CHECK(name_from_host("") == "machine");
  CHECK(name_from_host("-x") == "machine-x");
  CHECK(name_from_host("local") == "machine-local");
  CHECK(name_from_host("server.example") == "machine-server");
  CHECK(check_name(name_from_host(std::string(300, 'a')), "target"));
}

TEST_CASE("an attempt's name is read back, and nothing else is") {
  const AttemptId id{RunId{"brisk-otter-x7k2m9qd"}, 12};
  CHECK(attempt_from(id.str()) == id);
  CHECK(attempt_from("a.b.3")->run.value == "a.b");
  for (const char* wrong : {"", ".1", "a", "a.", "a.0", "a.x", "a.-1", "../a.1", ".python"}) {
    CAPTURE(wrong);
    CHECK_FALSE(attempt_from(wrong).has_value());
  }
}

}  // namespace
}  // namespace trainyard
