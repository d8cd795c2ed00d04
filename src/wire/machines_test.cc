#include "wire/machines.h"

#include <doctest/doctest.h>

namespace trainyard::wire {
namespace {

const MachineFacts kFacts{
    .host = "box", .version = "0.1.0", .cpus = 8, .memory_bytes = 1LL << 36, .gpus = {0, 2}};

TEST_CASE("what a machine reports is read as it was written") {
  MachineReport report{.session = "s", .number = 3, .facts = kFacts, .seen = 41, .held = {}};
  report.held.push_back({.id = {RunId{"calm-finch-1"}, 2}, .live = false, .why = "exited"});
  report.held.push_back({.id = {RunId{"calm-finch-2"}, 1}});
  const auto read = decode_machine_report(*parse(dump(encode(report))));
  REQUIRE(read);
  CHECK(read->facts == kFacts);
  CHECK(read->session == "s");
  CHECK(read->number == 3);
  CHECK(read->seen == 41);
  REQUIRE(read->held.size() == 2);
  CHECK(read->held[0].id == AttemptId{RunId{"calm-finch-1"}, 2});
  CHECK_FALSE(read->held[0].live);
  CHECK(read->held[0].why == "exited");
  CHECK(read->held[1].live);
}

TEST_CASE("orders are read as they were written, assignments with their tokens") {
  MachineOrders orders{.version = 7, .keep = {{RunId{"a"}, 1}}, .kill = {{RunId{"b"}, 3}}};
  Assignment assignment{.run = "a", .attempt = 1, .token = "tya_x"};
  assignment.spec.command = {"true"};
  assignment.gpus = {1};
  orders.start.push_back(assignment);
  const auto read = decode_machine_orders(*parse(dump(encode(orders))));
  REQUIRE(read);
  CHECK(read->version == 7);
  CHECK(read->keep == orders.keep);
  CHECK(read->kill == orders.kill);
  REQUIRE(read->start.size() == 1);
  CHECK(read->start[0].token == "tya_x");
  CHECK(read->start[0].spec == assignment.spec);
}

TEST_CASE("a report that is none is refused by what is wrong with it") {
  const auto wrong = [](const char* text) {
    const auto read = decode_machine_report(*parse(text));
    return read ? std::string() : read.error().message;
  };
  CHECK(wrong("{}").find("facts") != std::string::npos);
  CHECK(wrong(R"({"facts":{"cpus":0}})").find("CPUs") != std::string::npos);
  CHECK(wrong(R"({"facts":{"cpus":1},"held":7})").find("held") != std::string::npos);
  CHECK(wrong(R"({"facts":{"cpus":1},"held":[{"attempt":"../x"}]})").find("attempt") !=
        std::string::npos);
  CHECK(wrong(R"({"facts":{"cpus":1,"gpus":["a"]}})").find("gpus") != std::string::npos);
  CHECK(wrong(R"({"facts":{"cpus":1}})").empty());
}

}  // namespace
}  // namespace trainyard::wire
