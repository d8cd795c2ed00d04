#include <thread>

#include "api/test_yard.h"

// What supervisors send, and what readers see of it.
namespace trainyard::api {
namespace {

using enum http::Method;

struct Live {
  Yard yard;
  RunId run;
  std::string token;
  http::Client supervisor;
  http::Client reader;

  explicit Live(int processes = 1)
      : run(yard.submit("calm-finch-2", processes)),
        token(yard.place(run)),
        supervisor(yard.over_socket(token)),
        reader(yard.over_socket()) {}

  std::string url(std::string_view rest, int attempt = 1) const {
    return wire::attempt_url({run, attempt}, rest);
  }
  http::Response print(std::string_view frames, uint64_t from = 0, int rank = 0) {
    return send(supervisor, post,
                url("/console/" + std::to_string(rank) + "?from=" + std::to_string(from)),
                std::string(frames));
  }
  http::Response file(std::string_view path, std::string_view query = "") {
    return fetch(reader, wire::run_url(run, "/files/" + std::string(path) + std::string(query)));
  }
};

struct Followed {
  std::string out;
  std::string err;
  Json state;
};
Followed parse_follow(const std::string& body) {
  Followed followed;
  for (size_t at = 0; at < body.size();) {
    const wire::FollowHead head = wire::parse_follow_head(body.data() + at);
    at += wire::kFollowHeadSize;
    const std::string bytes = body.substr(at, head.size);
    at += head.size;
    if (head.kind == 's') {
      followed.state = wire::parse(bytes).value();
    } else {
      (head.kind == 'o' ? followed.out : followed.err) += std::to_string(head.rank) + bytes;
    }
  }
  return followed;
}

TEST_CASE("only the attempt itself writes its console, files and reports") {
  Live live;
  http::Client admin = live.yard.over_socket();
  CHECK(send(admin, post, live.url("/reports"), "{}").status == 403);
  CHECK(send(admin, post, live.url("/console/0"), frame('o', "x")).status == 403);
  CHECK(send(live.supervisor, post, live.url("/reports", 2), "{}").status == 403);
  CHECK(send(live.supervisor, post, "/api/v1/runs/other/attempts/1/reports", "{}").status == 403);
  CHECK(send(live.supervisor, post, live.url("/reports"), "{}").status == 200);
  CHECK(live.print(frame('o', "x")).status == 200);
  CHECK(live.print(frame('o', "x"), 0, 1).status == 400);
  CHECK(live.print("x").status == 400);
  CHECK(live.print(frame('s', "x")).status == 400);
  CHECK(live.print(wire::console_head('o', 100) + "short").status == 400);
  const std::string files = live.url("/files");
  CHECK(send(live.supervisor, post, files + "?path=outputs/x", "x").status == 400);
  CHECK(send(live.supervisor, post, files + "?path=logs/../../x", "x").status == 400);
  CHECK(send(live.supervisor, post, files + "?path=/etc/x", "x").status == 400);
  CHECK(send(live.supervisor, post, files, "x").status == 400);
}

TEST_CASE("an attempt's token reads its own workspace and little else") {
  Live live;
  live.yard.submit("other-run-1");
  REQUIRE(live.yard.store->create_workspace({.name = "lab"}).has_value());
  RunSpec spec;
  spec.workspace = "lab";
  spec.experiment = "e";
  spec.command = {"true"};
  REQUIRE(live.yard.control->submit({RunId{"lab-run-1"}, spec, "owner"}).has_value());
  struct Row {
    http::Method method;
    const char* url;
    int status;
  };
  const Row rows[] = {
      {get, "/api/v1/runs/calm-finch-2", 200},
      {get, "/api/v1/runs/other-run-1", 200},
      {get, "/api/v1/runs/lab-run-1", 403},
      {get, "/api/v1/runs/lab-run-1/follow", 403},
      {get, "/api/v1/runs/lab-run-1/files/stdout.txt", 403},
      {get, "/api/v1/runs?workspace=lab", 403},
      {get, "/api/v1/workspaces/lab", 403},
      {get, "/api/v1/workspaces/default", 200},
      {get, "/api/v1/users", 403},
      {get, "/api/v1/tokens", 403},
      {post, "/api/v1/tokens", 403},
      {post, "/api/v1/runs", 400},
      {post, "/api/v1/runs/other-run-1/cancel", 403},
      {post, "/api/v1/runs/other-run-1/records", 403},
      {patch, "/api/v1/runs/other-run-1", 403},
      {get, "/api/v1/workspaces/default/secrets", 403},
      {post, "/api/v1/server/stop", 403},
      {get, "/api/v1/server?token=1", 403},
  };
  for (const Row& row : rows) {
    CAPTURE(row.url);
    CHECK(send(live.supervisor, row.method, row.url).status == row.status);
  }
  const Json runs = json_of(fetch(live.supervisor, "/api/v1/runs"))["items"];
  CHECK(runs.size() == 2);
  CHECK(json_of(fetch(live.supervisor, "/api/v1/workspaces"))["items"].size() == 1);
}

TEST_CASE("console sent again or beyond a gap leaves it whole") {
  Live live;
  CHECK(json_of(live.print(frame('o', "one\n") + frame('e', "two\n")))["size"] == 8);
  CHECK(json_of(live.print(frame('o', "one\n") + frame('e', "two\nthree\n")))["size"] == 14);
  CHECK(json_of(live.print(frame('o', "lost"), 20))["size"] == 14);
  CHECK(json_of(live.print(""))["size"] == 14);
  CHECK(live.file("user_logs/std_log.txt").body == "one\ntwo\nthree\n");
  CHECK(live.file("azureml-logs/70_driver_log.txt").body == "one\ntwo\nthree\n");
  CHECK(live.file("stdout.txt").body == "one\n");
  CHECK(live.file("stderr.txt").body == "two\nthree\n");
  CHECK(live.file("stderr.txt", "?from=4").body == "three\n");
  CHECK(live.file("stderr.txt", "?tail=1").body == "three\n");
  CHECK(live.file("user_logs/std_log.txt", "?tail=2").body == "two\nthree\n");
  CHECK(live.file("user_logs/std_log.txt", "?attempt=1").body == "one\ntwo\nthree\n");
  CHECK(live.file("user_logs/std_log.txt", "?attempt=2").body == "");
  const http::Response part = live.file("user_logs/std_log.txt", "?from=8");
  CHECK(part.headers.at("x-next") == "14");
  CHECK(part.headers.at("x-final") == "0");
  CHECK(part.headers.at("x-content-type-options") == "nosniff");
  CHECK(part.headers.at("content-security-policy").find("sandbox") != std::string::npos);
  live.yard.finish(live.run);
  CHECK(live.file("user_logs/std_log.txt", "?from=14").headers.at("x-final") == "1");
  CHECK(live.file("stdout.txt").headers.at("x-final") == "1");
}

TEST_CASE("a view larger than memory should hold comes whole") {
  Live live;
  std::string expected;
  uint64_t from = 0;
  for (int i = 0; i < 6; ++i) {
    const std::string bytes(700'000, static_cast<char>('a' + i));
    expected += bytes;
    from = json_of(live.print(frame('o', bytes) + frame('e', "-"), from))["size"];
  }
  const http::Response whole = live.file("stdout.txt");
  CHECK(whole.body == expected);
  CHECK(whole.headers.at("x-next") == std::to_string(expected.size()));
  CHECK(live.file("stdout.txt", "?from=699999").body == expected.substr(699'999));
}

TEST_CASE("files of logs/ are appended to and read under their names") {
  Live live;
  const std::string at = live.url("/files?path=logs/a%20b/train.log");
  CHECK(json_of(send(live.supervisor, post, at + "&from=0", "hello "))["size"] == 6);
  CHECK(json_of(send(live.supervisor, post, at + "&from=4", "o world"))["size"] == 11);
  CHECK(live.file("logs/a%20b/train.log").body == "hello world");
  CHECK(json_of(send(live.supervisor, post, at + "&from=0&reset=1", "new"))["size"] == 3);
  CHECK(live.file("logs/a%20b/train.log").body == "new");
  CHECK(send(live.supervisor, post, live.url("/files?path=system_logs/s.txt"), "s").status == 200);
  CHECK(live.file("system_logs/lifecycle.txt").body.find("queued") != std::string::npos);
  const Json files = json_of(fetch(live.reader, wire::run_url(live.run, "/files")))["items"];
  std::map<std::string, std::string> kinds;
  for (const Json& file : files) kinds[file["path"]] = file["kind"];
  const std::map<std::string, std::string> expected = {
      {"user_logs/std_log.txt", "console"},
      {"stdout.txt", "view"},
      {"stderr.txt", "view"},
      {"azureml-logs/70_driver_log.txt", "alias"},
      {"logs/a b/train.log", "log"},
      {"system_logs/s.txt", "system"},
      {"system_logs/lifecycle.txt", "system"},
      {"azureml-logs/60_control_log.txt", "alias"},
      {"azureml-logs/process_info.json", "alias"},
  };
  CHECK(kinds == expected);
}

TEST_CASE("outputs are read from their tree, links never followed") {
  Live live;
  const std::string model = "weights";
  snapshot::Tree tree;
  tree.entries.push_back(
      {.kind = snapshot::EntryKind::symlink, .path = "link", .target = "/etc/passwd"});
  tree.entries.push_back({.path = "model.html", .size = model.size(), .digest = sha256(model)});
  const std::string text = snapshot::encode(tree);
  REQUIRE(live.yard.blobs->put(sha256(model), model).has_value());
  REQUIRE(live.yard.blobs->put(sha256(text), text).has_value());
  Report report{.seq = 1, .kind = ReportKind::ended};
  report.end.outputs = sha256(text).hex();
  report.end.ranks_started = true;
  const std::string body = wire::dump({{"reports", Json::array({wire::encode(report)})}});
  CHECK(send(live.supervisor, post, live.url("/reports"), body).status == 200);
  const http::Response file = live.file("outputs/model.html");
  CHECK(file.body == model);
  CHECK(file.headers.at("content-type") == "application/octet-stream");
  CHECK(live.file("outputs/link").status == 409);
  CHECK(live.file("outputs/none").status == 404);
  CHECK(fetch(live.reader, wire::run_url(live.run, "/outputs")).body == text);
}

TEST_CASE("an attempt that is over writes no more") {
  Live live;
  REQUIRE(live.print(frame('o', "x")).status == 200);
  live.yard.finish(live.run);
  // Refused by the token or by the attempt's state; never taken.
  for (const http::Response& response :
       {live.print(frame('o', "y"), 1),
        send(live.supervisor, post, live.url("/files?path=logs/x"), "x")}) {
    CHECK((response.status == 409 || response.status == 401));
  }
  CHECK(live.file("stdout.txt").body == "x");
}

TEST_CASE("a follower sees console as it comes, the state, and the end once all was read") {
  Live live;
  const std::string url = wire::run_url(live.run, "/follow");
  Followed now = parse_follow(fetch(live.reader, url + "?wait=0").body);
  const int64_t version = now.state["version"];
  CHECK(now.state["status"] == "Provisioning");
  CHECK(now.state["next"] == Json::array({0}));

  std::string woken;
  const std::string waiting = url + "?wait=30&version=" + std::to_string(version);
  std::jthread follower([&] {
    http::Client client = live.yard.over_socket();
    http::ClientRequest request{.target = waiting, .timeout = std::chrono::seconds(60)};
    woken = client.send(request).value().body;
  });
  while (live.yard.server->counts().parked == 0) std::this_thread::yield();
  REQUIRE(live.print(frame('o', "hello\n") + frame('e', "oh\n")).status == 200);
  follower.join();
  now = parse_follow(woken);
  CHECK(now.out == "0hello\n");
  CHECK(now.err == "0oh\n");
  CHECK(now.state["next"] == Json::array({9}));
  CHECK(now.state["final"] == false);

  const std::string large(200'000, 'x');
  REQUIRE(live.print(frame('o', large), 9).status == 200);
  live.yard.finish(live.run, 1, 3);
  std::string seen;
  int answers = 0;
  for (uint64_t from = 9; !now.state["final"].get<bool>(); ++answers) {
    now = parse_follow(fetch(live.reader, url + "?wait=30&from=" + std::to_string(from)).body);
    CHECK(now.state["status"] == "Failed");
    if (!now.out.empty()) seen += now.out.substr(1);
    from = now.state["next"][0];
  }
  CHECK(seen == large);
  CHECK(answers >= 3);
  CHECK(now.state["exitCode"] == 3);
}

TEST_CASE("no rank's console waits for another's to fall silent") {
  Live live(2);
  REQUIRE(live.print(frame('o', std::string(500'000, 'x')), 0, 0).status == 200);
  REQUIRE(live.print(frame('o', "second"), 0, 1).status == 200);
  const Followed both = parse_follow(fetch(live.reader, wire::run_url(live.run, "/follow")).body);
  CHECK(both.out.ends_with("1second"));
  const Followed one =
      parse_follow(fetch(live.reader, wire::run_url(live.run, "/follow?rank=1&from=0,3")).body);
  CHECK(one.out == "1ond");
  CHECK(one.state["next"] == Json::array({0, 6}));
  CHECK(live.file("stdout-1.txt").body == "second");
  CHECK(live.file("user_logs/std_log_process_1.txt").body == "second");
  CHECK(live.file("stdout.txt").status == 404);
}

TEST_CASE("waiting for a run, a file and orders ends with the change") {
  Live live;
  const int64_t version = json_of(fetch(live.reader, wire::run_url(live.run)))["version"];
  std::string bodies[3];
  const std::string urls[3] = {
      wire::run_url(live.run, "/wait?wait=30&version=" + std::to_string(version)),
      wire::file_url(live.run, "stdout.txt", 0, 30),
      live.url("/orders?cancel=0&wait=30"),
  };
  std::vector<std::jthread> waiters;
  for (size_t i = 0; i < 3; ++i) {
    waiters.emplace_back([&, i] {
      http::Client client = live.yard.over_socket(i == 2 ? live.token : "");
      http::ClientRequest request{.target = urls[i], .timeout = std::chrono::seconds(60)};
      bodies[i] = client.send(request).value().body;
    });
  }
  while (live.yard.server->counts().parked < 3) std::this_thread::yield();
  REQUIRE(live.print(frame('o', "now")).status == 200);
  waiters[1].join();
  CHECK(bodies[1] == "now");
  REQUIRE(send(live.reader, post, wire::run_url(live.run, "/cancel")).status == 200);
  waiters.clear();
  CHECK(wire::parse(bodies[0]).value()["status"] == "CancelRequested");
  CHECK(wire::parse(bodies[2]).value()["cancel"] == true);
}

TEST_CASE("who waits is answered when the server stops") {
  Live live;
  int status = 0;
  const int64_t version = json_of(fetch(live.reader, wire::run_url(live.run)))["version"];
  std::jthread waiter([&] {
    http::Client client = live.yard.over_socket();
    http::ClientRequest request{
        .target = wire::run_url(live.run, "/wait?wait=30&version=" + std::to_string(version)),
        .timeout = std::chrono::seconds(60)};
    status = client.send(request).value().status;
  });
  while (live.yard.server->counts().parked == 0) std::this_thread::yield();
  live.yard.house->stop_waiting();
  live.yard.server->stop();
  waiter.join();
  CHECK(status == 200);
}

}  // namespace
}  // namespace trainyard::api
