#include "client/attempt.h"

#include <doctest/doctest.h>

#include "http/test_server.h"
#include "wire/json.h"

using namespace trainyard;
using trainyard::client::AttemptApi;

namespace {

struct Bench {
  http::TestServer http;
  std::string target;
  std::string body;
  int status = 200;
  std::string answer = "{}";

  Bench() {
    const std::string attempt = "/api/v1/runs/{id}/attempts/{n}/";
    const auto handle = [this](const http::Request& request) {
      target = request.path;
      for (const auto& [key, value] : request.query) target += " " + key + "=" + value;
      body = request.body;
      return http::Response::json(answer, status);
    };
    http.on(http::Method::post, attempt + "{rest...}", handle);
    http.on(http::Method::get, attempt + "{rest...}", handle);
    http.start();
  }
};

}  // namespace

TEST_CASE("each call of a supervisor goes where the API has it") {
  Bench bench;
  http::Client client = bench.http.client();
  AttemptApi attempt(client, {RunId{"run"}, 2}, 5);
  bench.answer = R"({"seqAcknowledged": 7, "cancel": true})";

  Report report;
  report.seq = 7;
  report.kind = ReportKind::running;
  const Result<Orders> orders = attempt.report(std::vector{report});
  REQUIRE(orders);
  CHECK(orders->seq_acknowledged == 7);
  CHECK(orders->cancel);
  CHECK(bench.target == "/api/v1/runs/run/attempts/2/reports node=5");
  const wire::Json sent = wire::parse(bench.body).value();
  REQUIRE(sent["reports"].size() == 1);
  CHECK(wire::decode_report(sent["reports"][0]).value() == report);

  REQUIRE(attempt.report({}));
  CHECK(wire::parse(bench.body).value()["reports"].empty());

  REQUIRE(attempt.orders({.go = true}, seconds(0)));
  CHECK(bench.target ==
        "/api/v1/runs/run/attempts/2/orders cancel=0 done=0 execs= go=1 node=5 stop=0 wait=0");

  bench.answer = R"({"size": 42})";
  std::string bytes = "frames";
  CHECK(attempt.console(3, 36, bytes).value().size == 42);
  CHECK(bench.target == "/api/v1/runs/run/attempts/2/console/3 from=36");
  CHECK(bench.body == "frames");
  CHECK(bytes.empty());

  bytes = "text";
  CHECK(attempt.file("logs/a b&c.txt", 0, bytes, AttemptApi::Reset::yes).value() == 42);
  CHECK(bench.target == "/api/v1/runs/run/attempts/2/files from=0 path=logs/a b&c.txt reset=1");
  bytes = "text";
  CHECK(attempt.file("logs/x", 5, bytes).value() == 42);
  CHECK(bench.target == "/api/v1/runs/run/attempts/2/files from=5 path=logs/x");
}

TEST_CASE("an answer that is no success is its error") {
  Bench bench;
  http::Client client = bench.http.client();
  AttemptApi attempt(client, {RunId{"run"}, 1});
  bench.status = 409;
  bench.answer = wire::dump(wire::error_to_json({ErrorKind::conflict, "attempt 2 exists", {}}));
  const Result<Orders> orders = attempt.report({});
  REQUIRE_FALSE(orders);
  CHECK(orders.error().kind == ErrorKind::conflict);
  CHECK(orders.error().message == "attempt 2 exists");
  bench.status = 200;
  bench.answer = "not JSON";
  CHECK_FALSE(attempt.report({}));
}
