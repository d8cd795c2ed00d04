// What a script tells by its records, and what it is told by secrets and by the attempt before.
#include <doctest/doctest.h>

#include "supervisor/supervise.h"
#include "supervisor/test_yard.h"

using namespace trainyard;
using namespace trainyard::supervisor;
using http::eventually;

TEST_CASE("what ranks tell arrives, each in its stream, before the attempt's end") {
  Yard yard;
  yard.assignment.spec.processes_per_node = 2;
  yard.shell("echo rank$RANK >> $TRAINYARD_RECORDS; echo more >> $TRAINYARD_RECORDS");
  CHECK(yard.carry() == kExitDone);
  const auto records = yard.server.seen().records;
  CHECK(records.at(0) == "rank0\nmore\n");
  CHECK(records.at(1) == "rank1\nmore\n");
}

TEST_CASE("a line that a kill cut short is left out, and holds nothing up") {
  Yard yard;
  yard.shell("printf 'whole\\nhal' >> $TRAINYARD_RECORDS; kill -9 $$");
  CHECK(yard.carry() == kExitDone);
  CHECK(yard.server.seen().records.at(0) == "whole\n");
}

TEST_CASE("a line longer than any record is left out, and what follows it is kept") {
  Yard yard;
  yard.shell(
      "echo before >> $TRAINYARD_RECORDS; head -c 9000000 /dev/zero | tr '\\0' x >> "
      "$TRAINYARD_RECORDS; echo >> $TRAINYARD_RECORDS; echo after >> $TRAINYARD_RECORDS; "
      "echo done");
  CHECK(yard.carry() == kExitDone);
  CHECK(yard.server.console() == "done\n");
  CHECK(yard.server.end().exit_code == 0);
  std::string kept;
  for (const std::string& line : split(yard.server.seen().records.at(0), '\n')) {
    if (!line.empty()) kept += line + ";";
  }
  CHECK(kept == R"(before;{"k":"line longer than 4 MB","n":"-"};after;)");
}

TEST_CASE("a server that went back inside or before a long line gets the rest, and no line less") {
  Yard yard;
  const fs::path sign = yard.dir.path() / "sign";
  yard.shell(
      "echo before >> $TRAINYARD_RECORDS; head -c 9000000 /dev/zero | tr '\\0' x >> "
      "$TRAINYARD_RECORDS; echo >> $TRAINYARD_RECORDS; echo after >> $TRAINYARD_RECORDS; "
      "while [ ! -e " +
      sign.string() + " ]; do sleep 0.02; done; echo last >> $TRAINYARD_RECORDS");
  yard.server.start();
  yard.launch();
  REQUIRE(eventually([&] {
    const auto seen = yard.server.seen();
    return seen.records.contains(0) && seen.records.at(0).ends_with("after\n");
  }));
  size_t left = 0;
  SUBCASE("before") { left = 0; }
  SUBCASE("at its beginning") { left = 7; }
  SUBCASE("inside") { left = 7 + (4 << 20); }
  yard.server.lose(9, 0, left);
  REQUIRE(write_file(sign, ""));
  CHECK(yard.wait() == kExitDone);
  std::string kept;
  for (const std::string& line : split(yard.server.seen().records.at(0), '\n')) {
    if (!line.empty()) kept += line + ";";
  }
  CHECK(kept == R"(before;{"k":"line longer than 4 MB","n":"-"};after;last;)");
}

TEST_CASE("records told while the server is away are sent when it is back, once") {
  Yard yard;
  const fs::path go = yard.dir.path() / "go";
  yard.shell(
      "i=0; while [ $i -lt 2000 ]; do echo $i >> $TRAINYARD_RECORDS; i=$((i+1)); done; "
      "while [ ! -e " +
      go.string() + " ]; do sleep 0.01; done; echo last >> $TRAINYARD_RECORDS");
  yard.server.start();
  yard.launch();
  REQUIRE(eventually([&] { return yard.server.saw(ReportKind::running); }));
  yard.server.stop();
  REQUIRE(write_file(go, "", 0600, Durable::no));
  yard.server.start();
  CHECK(yard.wait() == kExitDone);
  std::string expected;
  for (int i = 0; i < 2000; ++i) expected += std::to_string(i) + "\n";
  CHECK(yard.server.seen().records.at(0) == expected + "last\n");
}

TEST_CASE("records outlive their supervisor: the next one sends what is left") {
  Yard yard;
  yard.shell("echo one >> $TRAINYARD_RECORDS; echo ready; sleep 1000");
  yard.server.start();
  yard.launch();
  REQUIRE(eventually([&] { return !yard.server.seen().records[0].empty(); }));
  REQUIRE(write_file(yard.folder / "spool" / "records-0", "one\ntwo\n", 0600, Durable::no));
  yard.kill_supervisor();
  yard.start_supervisor();
  CHECK(yard.wait() == kExitDone);
  CHECK(yard.server.seen().records.at(0) == "one\ntwo\n");
}

TEST_CASE("a secret reaches the rank, and nobody who reads its console") {
  Yard yard;
  yard.server.secrets = {{"API_KEY", "hunter2-and-more"}};
  yard.assignment.spec.secrets = {"API_KEY"};
  // In two writes, and its length: the script itself does not name it.
  yard.shell(
      "echo \"key=$API_KEY.\"; printf '%.7s' \"$API_KEY\" >&2; "
      "printf %s \"${API_KEY#???????}\" >&2; test ${#API_KEY} = 16 || exit 1; "
      "echo core=$(ulimit -c)");
  CHECK(yard.carry() == kExitDone);
  CHECK(yard.server.end().exit_code == 0);
  const std::string console = yard.server.console();
  CHECK(console.find("key=***.\n") != std::string::npos);
  CHECK(console.find("hunter2") == std::string::npos);
  CHECK(console.find("core=0\n") != std::string::npos);  // None is left of it.
  // Nor on the node's disk.
  for (const auto& entry : fs::recursive_directory_iterator(yard.folder)) {
    if (!entry.is_regular_file()) continue;
    CAPTURE(entry.path().string());
    CHECK(read_file(entry.path()).value().find("hunter2") == std::string::npos);
  }
}

TEST_CASE("a secret that a script tells by its records is covered there") {
  Yard yard;
  yard.server.secrets = {{"API_KEY", "hunter2-and-more"}};
  yard.assignment.spec.secrets = {"API_KEY"};
  yard.shell(
      "echo \"{\\\"v\\\":\\\"$API_KEY\\\"}\" >> $TRAINYARD_RECORDS; "
      "echo after >> $TRAINYARD_RECORDS");
  CHECK(yard.carry() == kExitDone);
  CHECK(yard.server.seen().records.at(0) == "{\"v\":\"****************\"}\nafter\n");
}

TEST_CASE("secrets that cannot be had end the attempt before its program runs") {
  Yard yard;
  yard.server.refuse_secrets = 403;
  yard.assignment.spec.secrets = {"API_KEY"};
  yard.shell("echo ran");
  CHECK(yard.carry() == kExitDone);
  CHECK(yard.server.end().cause == EndCause::prepare_failed);
  CHECK(yard.server.end().error.starts_with("secrets: "));
  CHECK(yard.server.console().empty());
}

TEST_CASE("the next attempt finds the outputs and logs of the one before") {
  Yard yard;
  yard.server.logs = {{"logs/train/log.txt", "epoch 1\n"}};
  const fs::path before = yard.dir.path() / "before";
  REQUIRE(make_dirs(before / "deep"));
  REQUIRE(write_file(before / "deep" / "model", "weights", 0644));
  const snapshot::Captured captured = snapshot::capture(before, {.code = false}).value();
  REQUIRE(yard.server.store->put(sha256("weights"), "weights"));
  REQUIRE(yard.server.store->put(captured.id, captured.text));
  REQUIRE(yard.server.store->sync());
  yard.assignment.attempt = 2;
  yard.assignment.outputs = captured.id.hex();
  yard.shell("cat outputs/deep/model logs/train/log.txt; echo epoch 2 >> logs/train/log.txt");
  CHECK(yard.carry() == kExitDone);
  CHECK(yard.server.console() == "weightsepoch 1\n");
  CHECK(yard.server.seen().files.at("logs/train/log.txt").bytes == "epoch 1\nepoch 2\n");
  CHECK(yard.server.end().outputs == captured.id.hex());
}

TEST_CASE("a run that wants no outputs kept has none") {
  Yard yard;
  yard.assignment.spec.keep_outputs = false;
  yard.shell("echo x > outputs/x");
  CHECK(yard.carry() == kExitDone);
  CHECK(yard.server.end().outputs.empty());
}

TEST_CASE("on a cluster a supervisor that is told to stop was evicted, and keeps the outputs") {
  Yard yard;
  yard.assignment.spec.target = "lab";
  yard.shell(
      "echo half > outputs/checkpoint; trap 'exit 0' TERM; echo up; while :; do sleep 0.1; done");
  yard.server.start();
  yard.launch();
  REQUIRE(eventually([&] { return yard.server.console() == "up\n"; }));
  ::kill(yard.child.pid, SIGTERM);
  CHECK(yard.wait() == kExitDone);
  const AttemptEnd end = yard.server.end();
  CHECK(end.cause == EndCause::evicted);
  CHECK(end.error == "its node was taken away (SIGTERM)");
  CHECK(!end.outputs.empty());
}
