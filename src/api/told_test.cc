#include "api/test_yard.h"

// What runs tell of themselves, and what is told of them: metrics, labels, children, secrets.
namespace trainyard::api {
namespace {

using enum http::Method;

struct ToldLive {
  Yard yard;
  RunId run = yard.submit("calm-finch-2");
  http::Client supervisor = yard.over_socket(yard.place(run));
  http::Client people = yard.over_socket();

  http::Response tell(const std::string& lines, int64_t from = 0, int rank = 0) {
    return send(supervisor, post,
                wire::attempt_url(
                    {run, 1}, "/records/" + std::to_string(rank) + "?from=" + std::to_string(from)),
                lines);
  }
  Json shown(std::string_view id = "calm-finch-2") {
    return json_of(fetch(people, "/api/v1/runs/" + std::string(id)));
  }
  Json series(std::string_view name, std::string_view more = "") {
    return json_of(fetch(people, "/api/v1/runs/calm-finch-2/series?name=" + http::encode_url(name) +
                                     std::string(more)));
  }
};

std::string metric(std::string_view name, double value) {
  return wire::dump({{"k", "metric"}, {"n", name}, {"v", value}, {"t", 1'700'000'000'000'000}}) +
         "\n";
}

TEST_CASE("metrics are series; a run shows the latest of each") {
  ToldLive live;
  const std::string lines = metric("loss", 0.5) + metric("loss", 0.25) + metric("übung ✓", 3) +
                            R"({"k":"list","n":"l","v":[1,"NaN",3]})"
                            "\n"
                            R"({"k":"row","n":"r","v":{"a":1,"b":"x"}})"
                            "\n"
                            R"({"k":"metric","n":"bad","v":"Infinity","s":7})"
                            "\n"
                            R"({"k":"param","n":"lr","v":"0.1"})"
                            "\n";
  CHECK(json_of(live.tell(lines))["size"] == lines.size());
  const Json run = live.shown();
  CHECK(run["metrics"]["loss"] == 0.25);
  CHECK(run["metrics"]["übung ✓"] == 3);
  CHECK(run["metrics"]["bad"] == "Infinity");
  CHECK(run["metrics"]["r"]["b"] == "x");
  CHECK(run["parameters"]["lr"] == "0.1");
  const Json loss = live.series("loss");
  CHECK(loss["kind"] == "scalar");
  REQUIRE(loss["points"].size() == 2);
  CHECK(loss["points"][0]["value"] == 0.5);
  CHECK(loss["points"][0]["at"] == "2023-11-14T22:13:20.000000Z");
  CHECK(loss["next"].is_null());
  CHECK(live.series("l")["points"][1]["value"] == "NaN");
  CHECK(live.series("l")["points"][2]["value"] == 3);
  CHECK(live.series("bad")["points"][0]["step"] == 7);
  const Json page = live.series("loss", "&limit=1");
  CHECK(page["points"].size() == 1);
  CHECK(page["next"] == 1);
  CHECK(live.series("loss", "&from=1")["points"][0]["value"] == 0.25);
  CHECK(fetch(live.people, "/api/v1/runs/calm-finch-2/series?name=none").status == 404);
}

TEST_CASE("what is sent again counts once, and half a line waits for its other half") {
  ToldLive live;
  const std::string first = metric("loss", 1);
  const std::string second = metric("loss", 2);
  const auto size = static_cast<int64_t>(first.size());
  CHECK(json_of(live.tell(first + second.substr(0, 9)))["size"] == size);
  CHECK(json_of(live.tell(first + second.substr(0, 9)))["size"] == size);
  CHECK(json_of(live.tell("far ahead\n", size + 100))["size"] == size);
  CHECK(json_of(live.tell(first + second))["size"] == size + static_cast<int64_t>(second.size()));
  CHECK(live.series("loss")["points"].size() == 2);
  // Another rank has a stream of its own.
  CHECK(json_of(live.tell(first, 0, 1))["size"] == size);
  CHECK(live.series("loss")["points"].size() == 3);
  const Json streams = json_of(fetch(live.people, "/api/v1/runs/calm-finch-2/metrics"))["streams"];
  CHECK(streams["1/1"] == size);
}

TEST_CASE("what is no record is left out; what follows it is not") {
  ToldLive live;
  const std::string lines = "nonsense\n[]\n{\"k\":\"metric\"}\n{\"k\":\"what\",\"n\":\"x\"}\n\n" +
                            metric("loss", 1) + std::string("\xff\xfe\n");
  CHECK(json_of(live.tell(lines))["size"] == lines.size());
  CHECK(live.shown()["metrics"].size() == 1);
}

TEST_CASE("after a run's end nothing more is taken") {
  ToldLive live;
  CHECK(live.tell(metric("loss", 1)).status == 200);
  live.yard.finish(live.run);
  CHECK(live.tell(metric("loss", 2), 0).status != 200);
  CHECK(send(live.people, post, "/api/v1/runs/calm-finch-2/records", metric("loss", 2)).status ==
        409);
  CHECK(live.series("loss")["points"].size() == 1);
}

TEST_CASE("labels change, a property only once") {
  ToldLive live;
  const std::string url = "/api/v1/runs/calm-finch-2";
  const auto change = [&](const std::string& body) { return send(live.people, patch, url, body); };
  Json run = json_of(change(R"({"tags":{"a":1,"b":"two"},"properties":{"p":"1"},
                                "displayName":"fine","description":"d"})"));
  CHECK(run["tags"] == Json({{"a", "1"}, {"b", "two"}}));
  CHECK(run["name"] == "fine");
  CHECK(run["description"] == "d");
  CHECK(change(R"({"properties":{"p":"1"}})").status == 200);
  CHECK(change(R"({"properties":{"p":"2"},"tags":{"c":"3"}})").status == 409);
  run = json_of(change(R"({"tags":{"a":null}})"));
  CHECK(run["tags"] == Json({{"b", "two"}}));
  CHECK(run["properties"]["p"] == "1");
  CHECK(change(R"({"command":["x"]})").status == 400);
  CHECK(change(R"({"tags":{"a":[1]}})").status == 400);
  // Also by its own script.
  const std::string lines = R"({"k":"tag","n":"best","v":"yes"})"
                            "\n"
                            R"({"k":"property","n":"p","v":"9"})"
                            "\n";
  live.tell(lines);
  CHECK(live.shown()["tags"]["best"] == "yes");
  CHECK(live.shown()["properties"]["p"] == "1");
}

TEST_CASE("runs are found by tag, and not at all when they are archived") {
  ToldLive live;
  live.yard.submit("other-run-1");
  send(live.people, patch, "/api/v1/runs/calm-finch-2", R"({"tags":{"k":"v"}})");
  const auto found = [&](const std::string& query) {
    return json_of(fetch(live.people, "/api/v1/runs?" + query))["items"].size();
  };
  CHECK(found("") == 2);
  CHECK(found("tag=k") == 1);
  CHECK(found("tag=k%3Dv") == 1);
  CHECK(found("tag=k%3Dw") == 0);
  CHECK(send(live.people, patch, "/api/v1/runs/other-run-1", R"({"archived":true})").status == 200);
  CHECK(found("") == 1);
  CHECK(found("archived=any") == 2);
  CHECK(found("archived=only") == 1);
  CHECK(fetch(live.people, "/api/v1/runs?archived=perhaps").status == 400);
}

TEST_CASE("an interactive run runs at once and ends by word") {
  ToldLive live;
  const std::string body = R"({"id":"free-run-1","spec":{"experiment":"e","interactive":true}})";
  const http::Response made = send(live.people, post, "/api/v1/runs", body);
  REQUIRE(made.status == 201);
  CHECK(json_of(made)["status"] == "Running");
  CHECK(json_of(made)["attempts"].empty());
  CHECK(json_of(send(live.people, post, "/api/v1/runs/free-run-1/records",
                     metric("x", 1)))["taken"] == 1);
  const http::Response put_file =
      send(live.people, put, "/api/v1/runs/free-run-1/outputs/a/b.txt", "bytes");
  REQUIRE(put_file.status == 200);
  CHECK(send(live.people, put, "/api/v1/runs/free-run-1/outputs/a.txt", "more").status == 200);
  CHECK(send(live.people, put, "/api/v1/runs/free-run-1/outputs/..%2Fx", "more").status == 400);
  CHECK(send(live.people, put, "/api/v1/runs/calm-finch-2/outputs/x", "more").status == 409);
  CHECK(fetch(live.people, "/api/v1/runs/free-run-1/files/outputs/a/b.txt").body == "bytes");
  CHECK(send(live.people, post, "/api/v1/runs/calm-finch-2/end", R"({"status":"Completed"})")
            .status == 409);
  CHECK(send(live.people, post, "/api/v1/runs/free-run-1/end", R"({"status":"Running"})").status ==
        400);
  const Json ended = json_of(send(live.people, post, "/api/v1/runs/free-run-1/end",
                                  R"({"status":"Failed","error":"no luck"})"));
  CHECK(ended["status"] == "Failed");
  CHECK(ended["error"] == "no luck");
  CHECK(ended["timeline"].size() == 1);
  CHECK(
      send(live.people, post, "/api/v1/runs/free-run-1/end", R"({"status":"Completed"})").status ==
      409);
}

TEST_CASE("children are made by records, told of by records, and end with their parent") {
  ToldLive live;
  const std::string lines = R"({"k":"child","r":"kid-1","n":"fold 1"})"
                            "\n"
                            R"({"k":"child","r":"kid-2"})"
                            "\n"
                            R"({"k":"metric","r":"kid-1","n":"score","v":9})"
                            "\n"
                            R"({"k":"child","r":"grandkid-1","p":"kid-2"})"
                            "\n"
                            R"({"k":"metric","r":"grandkid-1","n":"deep","v":1})"
                            "\n"
                            R"({"k":"child","r":"stray","p":"other-run-1"})"
                            "\n"
                            R"({"k":"end","r":"kid-1","v":"Completed"})"
                            "\n"
                            R"({"k":"metric","r":"kid-1","n":"score","v":10})"
                            "\n"
                            R"({"k":"metric","r":"other-run-1","n":"score","v":10})"
                            "\n";
  live.yard.submit("other-run-1");
  CHECK(json_of(live.tell(lines))["size"] == lines.size());
  const Json first = live.shown("kid-1");
  CHECK(first["status"] == "Completed");
  CHECK(first["name"] == "fold 1");
  CHECK(first["parentId"] == "calm-finch-2");
  CHECK(first["metrics"]["score"] == 9);
  CHECK(live.shown("kid-2")["status"] == "Running");
  CHECK(live.shown("other-run-1")["metrics"].empty());
  const Json children = json_of(fetch(live.people, "/api/v1/runs?parent=calm-finch-2"))["items"];
  CHECK(children.size() == 2);
  CHECK(json_of(fetch(live.people, "/api/v1/runs"))["items"].size() == 2);
  CHECK(json_of(fetch(live.people, "/api/v1/runs?children=1"))["items"].size() == 5);
  CHECK(live.shown("grandkid-1")["parentId"] == "kid-2");
  CHECK(live.shown("grandkid-1")["metrics"]["deep"] == 1);
  live.yard.finish(live.run, 1, 3);
  const Json second = live.shown("kid-2");
  CHECK(second["status"] == "Failed");
  CHECK(live.shown("grandkid-1")["status"] == "Failed");
  CHECK(second["error"].get<std::string>().find("calm-finch-2") != std::string::npos);
}

TEST_CASE("a secret is sealed, and opens only for an attempt whose spec names it") {
  ToldLive live;
  const std::string url = "/api/v1/workspaces/default/secrets";
  CHECK(send(live.people, put, url + "/API_KEY", R"({"value":"hunter2hunter2"})").status == 200);
  CHECK(send(live.people, put, url + "/API_KEY", R"({"value":""})").status == 400);
  CHECK(send(live.people, put, url + "/bad%20name", R"({"value":"x"})").status == 400);
  const Json list = json_of(fetch(live.people, url));
  REQUIRE(list["items"].size() == 1);
  CHECK(list["items"][0]["name"] == "API_KEY");
  CHECK(wire::dump(list).find("hunter2") == std::string::npos);
  const std::string own = wire::attempt_url({live.run, 1}, "/secrets");
  CHECK(json_of(fetch(live.supervisor, own))["secrets"].empty());
  CHECK(fetch(live.people, own).status == 403);

  RunSpec spec;
  spec.experiment = "tests";
  spec.command = {"true"};
  spec.secrets = {"API_KEX"};
  const auto missing = live.yard.control->submit({RunId{"keyed-1"}, spec, "owner"});
  REQUIRE(!missing);
  CHECK(missing.error().kind == ErrorKind::not_found);
  CHECK(missing.error().hint.find("API_KEY") != std::string::npos);
  spec.secrets = {"API_KEY"};
  REQUIRE(live.yard.control->submit({RunId{"keyed-1"}, spec, "owner"}));
  http::Client keyed = live.yard.over_socket(live.yard.place(RunId{"keyed-1"}));
  CHECK(json_of(fetch(
            keyed, wire::attempt_url({RunId{"keyed-1"}, 1}, "/secrets")))["secrets"]["API_KEY"] ==
        "hunter2hunter2");
  const std::string shown = fetch(live.people, "/api/v1/runs/keyed-1").body +
                            fetch(live.people, "/api/v1/runs/keyed-1/spec").body;
  CHECK(shown.find("API_KEY") != std::string::npos);
  CHECK(shown.find("hunter2") == std::string::npos);
  // Nothing on the disk holds it.
  for (const auto& entry : fs::recursive_directory_iterator(live.yard.home.root())) {
    if (!entry.is_regular_file()) continue;
    CAPTURE(entry.path().string());
    CHECK(read_file(entry.path()).value().find("hunter2") == std::string::npos);
  }
  CHECK(send(live.people, del, url + "/API_KEY").status == 204);
  CHECK(send(live.people, del, url + "/API_KEY").status == 404);
}

TEST_CASE("files of an interactive run are put into one tree for many") {
  ToldLive live;
  const std::string body = R"({"id":"free-run-1","spec":{"experiment":"e","interactive":true}})";
  REQUIRE(send(live.people, post, "/api/v1/runs", body).status == 201);
  const auto blobs_bytes = [&] {
    uint64_t bytes = 0;
    for (const auto& entry : fs::recursive_directory_iterator(live.yard.home.blobs())) {
      if (entry.is_regular_file()) bytes += entry.file_size();
    }
    return bytes;
  };
  constexpr int kFiles = 300;
  for (int i = 0; i < kFiles; ++i) {
    const std::string path = "/api/v1/runs/free-run-1/outputs/d/" + std::to_string(i) + ".txt";
    REQUIRE(send(live.people, put, path, "x").status == 200);
  }
  CHECK(blobs_bytes() == 1);  // All of them alike, and no tree yet.
  const std::string outputs = "/api/v1/runs/free-run-1/outputs";
  // A file where there is a folder, and the reverse: before there is a tree and after.
  for (int round = 0; round < 2; ++round) {
    CHECK(send(live.people, put, outputs + "/d", "x").status == 409);
    CHECK(send(live.people, put, outputs + "/d/7.txt/y", "x").status == 409);
    CHECK(fetch(live.people, "/api/v1/runs/free-run-1/files/outputs/d/7.txt").body == "x");
  }
  const uint64_t one_tree = blobs_bytes();
  CHECK(one_tree < kFiles * 200);
  REQUIRE(send(live.people, put, outputs + "/d/7.txt", "changed").status == 200);
  REQUIRE(
      send(live.people, post, "/api/v1/runs/free-run-1/end", R"({"status":"Completed"})").status ==
      200);
  CHECK(fetch(live.people, "/api/v1/runs/free-run-1/files/outputs/d/7.txt").body == "changed");
  CHECK(fetch(live.people, "/api/v1/runs/free-run-1/files/outputs/d/8.txt").body == "x");
  CHECK(send(live.people, put, outputs + "/late", "x").status == 409);
}

TEST_CASE("runs that are tried again keep their outputs and say so") {
  ToldLive live;
  RunSpec spec;
  spec.experiment = "tests";
  spec.command = {"false"};
  spec.retry.max = 1;
  REQUIRE(live.yard.control->submit({RunId{"again-1"}, spec, "owner"}));
  live.yard.place(RunId{"again-1"});
  live.yard.finish(RunId{"again-1"}, 1, 3);
  Json run = live.shown("again-1");
  CHECK(run["status"] == "Queued");
  CHECK(run["retries"] == 1);
  CHECK(run["attempts"][0]["exitCode"] == 3);
  live.yard.place(RunId{"again-1"});
  live.yard.finish(RunId{"again-1"}, 1, 4);
  run = live.shown("again-1");
  CHECK(run["status"] == "Failed");
  CHECK(run["exitCode"] == 4);
  CHECK(run["attempts"].size() == 2);
  CHECK(wire::dump(run["timeline"]).find("is tried again (1 of 1)") != std::string::npos);
}

}  // namespace
}  // namespace trainyard::api
