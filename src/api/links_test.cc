#include "api/links.h"

#include <doctest/doctest.h>

#include "api/run_files.h"
#include "api/test_yard.h"
#include "store/people.h"

namespace trainyard::api {
namespace {

// The link to a file, as a path of this server.
std::string link_of(Yard& yard, const RunId& run, const std::string& path, seconds ago = {}) {
  const wire::Json links =
      log_links(*yard.house, yard.control->run(run).value(), "rita", yard.clock.wall() - ago);
  REQUIRE_MESSAGE(links.contains(path), links.dump());
  return links[path].get<std::string>().substr(std::string("http://yard").size());
}

http::Response fetch_range(http::Client& client, const std::string& target,
                           const std::string& range) {
  http::ClientRequest request{.target = target};
  request.headers["range"] = range;
  return client.send(request).value();
}

}  // namespace

TEST_CASE("a link opens its own file, without a token, until it expires") {
  Yard yard;
  REQUIRE(yard.store->create_user("rita", Role::reader));
  const RunId run = yard.submit("run-1");
  const RunId other = yard.submit("run-2");
  yard.place(run);
  http::Client nobody = yard.over_tcp();
  const std::string path = "system_logs/lifecycle.txt";
  const std::string link = link_of(yard, run, path);
  CHECK(fetch(nobody, link).status == 200);
  CHECK(fetch(nobody, link).body.contains("provisioning"));

  const std::string query = link.substr(link.find('?'));
  CHECK(fetch(nobody, wire::file_url(run, path)).status == 401);
  CHECK(fetch(nobody, wire::file_url(run, "stdout.txt") + query).status == 403);
  CHECK(fetch(nobody, wire::file_url(other, path) + query).status == 403);
  CHECK(fetch(nobody, wire::file_url(run, path) + "?signature=").status == 403);
  CHECK(fetch(nobody, wire::run_url(run, query)).status == 401);
  CHECK(fetch(nobody, wire::run_url(run, "/files") + query).status == 401);
  const std::string later = query.substr(0, query.find("expires=")) + "expires=9999999999" +
                            query.substr(query.find("&signature"));
  CHECK(fetch(nobody, wire::file_url(run, path) + later).status == 403);

  CHECK(fetch(nobody, link_of(yard, run, path, kLinkLife - seconds(60))).status == 200);
  const http::Response late = fetch(nobody, link_of(yard, run, path, kLinkLife));
  CHECK(late.status == 403);
  CHECK(late.body.contains("expired"));
}

TEST_CASE("a link ends with the right of the user who got it") {
  Yard yard;
  REQUIRE(yard.store->create_user("rita", Role::reader));
  REQUIRE(yard.store->create_user("sam", Role::submitter));
  const RunId run = yard.submit("run-1");
  yard.place(run);
  http::Client nobody = yard.over_tcp();
  const std::string link = link_of(yard, run, "system_logs/lifecycle.txt");
  CHECK(fetch(nobody, link).status == 200);
  const auto write = [&](const std::function<Status(db::Transaction&)>& change) {
    REQUIRE(yard.store->write(Durable::no, change));
  };
  write([](db::Transaction& t) { return store::set_access(t, "default", Access::members); });
  CHECK(fetch(nobody, link).status == 403);
  write([](db::Transaction& t) { return store::set_access(t, "default", Access::everyone); });
  CHECK(fetch(nobody, link).status == 200);
  write([](db::Transaction& t) { return store::remove_user(t, "rita", {}); });
  CHECK(fetch(nobody, link).status == 403);
}

TEST_CASE("a file is read in ranges as HTTP has them") {
  Yard yard;
  const RunId run = yard.submit("run-1");
  http::Client client = yard.over_socket(yard.place(run));
  const std::string sent = "/api/v1/runs/run-1/attempts/1/files?path=logs/a.txt&from=0";
  REQUIRE(send(client, http::Method::post, sent, "0123456789").status == 200);
  const std::string target = "/api/v1/runs/run-1/files/logs/a.txt";
  struct Row {
    const char* range;
    int status;
    const char* body;
    const char* content_range;
  };
  const Row rows[] = {
      {"bytes=2-4", 206, "234", "bytes 2-4/10"},        {"bytes=7-", 206, "789", "bytes 7-9/10"},
      {"bytes=-3", 206, "789", "bytes 7-9/10"},         {"bytes=8-99", 206, "89", "bytes 8-9/10"},
      {"bytes=-99", 206, "0123456789", "bytes 0-9/10"}, {"bytes=10-", 416, nullptr, "bytes */10"},
      {"bytes=-0", 416, nullptr, "bytes */10"},         {"bytes=4-2", 200, "0123456789", nullptr},
      {"bytes=0-1,4-5", 200, "0123456789", nullptr},    {"bytes=+1-2", 200, "0123456789", nullptr},
      {"lines=1-2", 200, "0123456789", nullptr}};
  for (const Row& row : rows) {
    CAPTURE(row.range);
    const http::Response got = fetch_range(client, target, row.range);
    CHECK(got.status == row.status);
    if (row.body != nullptr) CHECK(got.body == row.body);
    const auto said = got.headers.find("content-range");
    REQUIRE((said != got.headers.end()) == (row.content_range != nullptr));
    if (row.content_range != nullptr) CHECK(said->second == row.content_range);
  }
}

TEST_CASE("the stages of an attempt have AzureML's names for their logs") {
  Yard yard;
  const RunId run = yard.submit("run-1", 2);
  yard.place(run);
  yard.finish(run);
  const Run ended = yard.control->run(run).value();
  const std::string node = ended.attempts.back().node;
  const auto text = [&](const std::string& name) {
    return classic_text(ended, "azureml-logs/" + name).value_or("none");
  };
  CHECK(text("60_control_log.txt") == lifecycle_text(ended));
  CHECK(text("70_driver_log.txt") == "none");
  CHECK(text("process_info.json").contains(R"("rank":1)"));
  if (!node.empty()) CHECK(text("75_job_post-" + node + ".txt").contains("ended"));
}

}  // namespace trainyard::api
