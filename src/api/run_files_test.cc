#include "api/run_files.h"

#include <doctest/doctest.h>

#include "api/test_yard.h"

namespace trainyard::api {
namespace {

TEST_CASE("a console has the contract's names, with the rank when there are several") {
  struct Row {
    const char* path;
    int ranks;
    int rank;  // -1: no such name
    logs::View view;
  };
  const Row rows[] = {
      {"user_logs/std_log.txt", 1, 0, logs::View::both},
      {"user_logs/std_log_process_3.txt", 4, 3, logs::View::both},
      {"user_logs/std_log.txt", 4, -1, logs::View::both},
      {"user_logs/std_log_process_4.txt", 4, -1, logs::View::both},
      {"user_logs/std_log_process_03.txt", 4, -1, logs::View::both},
      {"user_logs/std_log_process_0.txt", 1, -1, logs::View::both},
      {"user_logs/std_log_process_-1.txt", 4, -1, logs::View::both},
      {"stdout.txt", 1, 0, logs::View::out},
      {"stdout-1.txt", 2, 1, logs::View::out},
      {"stderr-0.txt", 2, 0, logs::View::err},
      {"stdout_1.txt", 2, -1, logs::View::out},
      {"azureml-logs/70_driver_log.txt", 1, 0, logs::View::both},
      {"azureml-logs/70_driver_log_1.txt", 2, 1, logs::View::both},
      {"stdout", 1, -1, logs::View::out},
      {"", 1, -1, logs::View::out},
  };
  for (const Row& row : rows) {
    CAPTURE(row.path);
    CAPTURE(row.ranks);
    const auto name = find_console_name(row.path, row.ranks);
    REQUIRE(name.has_value() == (row.rank >= 0));
    if (!name) continue;
    CHECK(name->rank == row.rank);
    CHECK(name->view == row.view);
  }
  for (const int ranks : {1, 12}) {
    for (int rank = 0; rank < ranks; ++rank) {
      for (const ConsoleName& name : console_names(rank, ranks)) {
        const auto found = find_console_name(name.path, ranks);
        REQUIRE(found.has_value());
        CHECK(found->rank == rank);
        CHECK(found->view == name.view);
      }
    }
  }
}

TEST_CASE("nothing a script wrote is served as something a browser runs") {
  for (const char* path : {"x.html", "x.svg", "x.js", "x.htm", "x.xml", "x", "x.HTML", "x.pdf"}) {
    CAPTURE(path);
    CHECK(content_type(path) == "application/octet-stream");
  }
  CHECK(content_type("a/b.json") == "application/json");
  CHECK(content_type("stdout.txt").starts_with("text/plain"));
}

TEST_CASE("the exact versions of a virtual environment are a file of every run with it") {
  Yard yard;
  RunSpec spec;
  spec.experiment = "tests";
  spec.command = {"sleep", "1000"};
  spec.environment.recipe.kind = EnvironmentKind::venv;
  spec.environment.recipe.requirements = {"pear"};
  spec.environment.left_out = {"trainyard"};
  const RunId run{"run-1"};
  REQUIRE(yard.control->submit({run, spec, "owner"}).has_value());
  const fs::path locks = yard.home.environments() / "locks";
  REQUIRE(make_dirs(locks));
  const std::string hash = yard.control->run(run).value().spec.environment.hash;
  REQUIRE(hash.size() == 64);
  REQUIRE(write_file(locks / hash, "pear==2.5\n"));
  http::Client client = yard.over_socket();
  const std::string target = "/api/v1/runs/run-1/files/system_logs/environment_lock.txt";
  CHECK(fetch(client, target).status == 404);  // It has not begun.
  const std::string token = yard.place(run);
  const http::Response got = fetch(client, target);
  const std::string text = "# left out, as Trainyard provides it: trainyard\npear==2.5\n";
  CHECK(got.body == text);
  CHECK(got.headers.at("x-final") == "1");
  CHECK(fetch(client, target + "?from=50").body == text.substr(50));
  const auto listed = [&] {
    std::vector<uint64_t> sizes;
    const auto files = list_files(*yard.house, yard.control->run(run).value()).value();
    for (const ListedFile& file : files) {
      if (file.path == kVersionsFile) sizes.push_back(file.size);
    }
    return sizes;
  };
  CHECK(listed() == std::vector<uint64_t>{text.size()});
  // One that a supervisor sent is the run's own.
  http::Client supervisor = yard.over_socket(token);
  const std::string sent = "/api/v1/runs/run-1/attempts/1/files?path=" + std::string(kVersionsFile);
  REQUIRE(send(supervisor, http::Method::post, sent + "&from=0", "own\n").status == 200);
  CHECK(listed() == std::vector<uint64_t>{4});
  CHECK(fetch(client, target).body == "own\n");
}

TEST_CASE("the lifecycle is a line an event") {
  Run run;
  run.events.push_back({.seq = 1, .kind = "queued"});
  run.events.push_back({.seq = 2, .attempt = 1, .kind = "running", .text = "on node-1"});
  CHECK(lifecycle_text(run) ==
        "1970-01-01T00:00:00.000000Z queued\n"
        "1970-01-01T00:00:00.000000Z attempt 1 running: on node-1\n");
}

}  // namespace
}  // namespace trainyard::api
