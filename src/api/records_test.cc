#include "api/test_yard.h"

namespace trainyard::api {
namespace {

using enum http::Method;

std::string line(int value) {
  return R"({"k":"metric","n":"x","v":)" + std::to_string(value) + "}\n";
}

TEST_CASE("what a program outside sends twice by its stream counts once") {
  Yard yard;
  http::Client client = yard.over_socket();
  const std::string run = R"({"id":"r","spec":{"experiment":"e","interactive":true}})";
  REQUIRE(send(client, post, "/api/v1/runs", run).status == 201);
  const auto give = [&](int stream, size_t from, const std::string& lines) {
    const http::Response response = send(
        client, post,
        "/api/v1/runs/r/records?stream=" + std::to_string(stream) + "&from=" + std::to_string(from),
        lines);
    REQUIRE(response.status == 200);
    return json_of(response)["size"].get<size_t>();
  };
  const auto values = [&] {
    std::string found;
    const Json series = json_of(fetch(client, "/api/v1/runs/r/series?name=x"));
    for (const Json& point : series["points"]) {
      found += std::to_string(point["value"].get<int>());
    }
    return found;
  };
  const size_t one = line(1).size();
  CHECK(give(7, 0, line(1)) == one);
  CHECK(give(7, 0, line(1)) == one);
  CHECK(give(7, 0, line(1) + line(2)) == 2 * one);
  CHECK(give(7, 5 * one, line(9)) == 2 * one);  // Beyond what is known: to be sent from there.
  CHECK(values() == "12");
  CHECK(give(8, 0, line(3)) == one);  // Another program's.
  CHECK(values() == "123");

  REQUIRE(send(client, post, "/api/v1/runs/r/end", R"({"status":"Completed"})").status == 200);
  CHECK(send(client, post, "/api/v1/runs/r/records?stream=7&from=0", line(4)).status == 409);
  CHECK(send(client, post, "/api/v1/runs/r/records?stream=-1", line(4)).status == 400);
}

}  // namespace
}  // namespace trainyard::api
