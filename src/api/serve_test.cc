#include "api/serve.h"

#include "api/test_yard.h"

namespace trainyard::api {
namespace {

ServeOptions options_for(const fs::path& root) {
  ServeOptions options{.home = Home(root)};
  options.make_engine = [](Clock&, Log&) -> Result<std::unique_ptr<engine::Engine>> {
    return std::make_unique<StillEngine>();
  };
  return options;
}

uint16_t port_of(const Serving& serving) {
  return http::Address::parse_url(serving.facts().url).value().port;
}

http::Client socket_of(const Serving& serving) {
  http::Address address;
  address.unix_socket = serving.facts().socket;
  return {std::move(address), ""};
}

TEST_CASE("a home keeps its port over restarts, and takes another while a stranger has it") {
  TempDir dir;
  const ServeOptions options = options_for(dir.path() / "home");
  uint16_t first = 0;
  {
    const auto serving = Serving::start(options).value();
    first = port_of(*serving);
    CHECK(first != 0);
  }
  {
    const auto serving = Serving::start(options).value();
    CHECK(port_of(*serving) == first);
  }
  const auto stranger = Serving::start(options_for(dir.path() / "other")).value();
  const std::string taken = R"({"port": )" + std::to_string(port_of(*stranger)) + "}";
  REQUIRE(write_file(options.home.server_file(), taken).has_value());
  const auto serving = Serving::start(options).value();
  CHECK(port_of(*serving) != port_of(*stranger));
}

TEST_CASE("an explicit port that is taken is an error") {
  TempDir dir;
  const auto stranger = Serving::start(options_for(dir.path() / "other")).value();
  ServeOptions options = options_for(dir.path() / "home");
  options.listen = "127.0.0.1:" + std::to_string(port_of(*stranger));
  CHECK_FALSE(Serving::start(options).has_value());
}

TEST_CASE("a second server of a home is refused, and the end frees the home") {
  TempDir dir;
  const ServeOptions options = options_for(dir.path() / "home");
  auto serving = Serving::start(options).value();
  const auto second = Serving::start(options);
  REQUIRE_FALSE(second.has_value());
  CHECK(second.error().kind == ErrorKind::conflict);
  CHECK(second.error().message.find(serving->facts().url) != std::string::npos);
  http::Client client = socket_of(*serving);
  CHECK(fetch(client, "/health").status == 200);
  serving->stop();
  CHECK(read_lock(options.home).host.empty());
  CHECK_FALSE(fs::exists(options.home.socket()));
  CHECK(Serving::start(options).has_value());
}

TEST_CASE("runs are there after a restart") {
  TempDir dir;
  const ServeOptions options = options_for(dir.path() / "home");
  const std::string body = R"({"id":"odd-wren-4","spec":{"experiment":"e","command":["true"]}})";
  {
    const auto serving = Serving::start(options).value();
    http::Client client = socket_of(*serving);
    CHECK(send(client, http::Method::post, "/api/v1/runs", body).status == 201);
  }
  const auto serving = Serving::start(options).value();
  http::Client client = socket_of(*serving);
  CHECK(send(client, http::Method::post, "/api/v1/runs", body).status == 200);
  CHECK(fetch(client, "/api/v1/runs/odd").status == 200);
}

TEST_CASE("stop over the API makes stop_fd readable") {
  TempDir dir;
  const auto serving = Serving::start(options_for(dir.path() / "home")).value();
  http::Client client = socket_of(*serving);
  CHECK(send(client, http::Method::post, "/api/v1/server/stop").status == 202);
  uint64_t count = 0;
  CHECK(::read(serving->stop_fd(), &count, sizeof count) == sizeof count);
}

TEST_CASE("what a killed server left half-written is gone at the next start") {
  TempDir dir;
  const ServeOptions options = options_for(dir.path() / "home");
  REQUIRE(prepare_home(options.home).has_value());
  REQUIRE(write_file(options.home.tmp() / "half", "x").has_value());
  const auto serving = Serving::start(options).value();
  CHECK_FALSE(fs::exists(options.home.tmp() / "half"));
}

TEST_CASE("listening beyond loopback needs --insecure") {
  TempDir dir;
  ServeOptions options = options_for(dir.path() / "home");
  options.listen = "0.0.0.0:0";
  const auto refused = Serving::start(options);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().kind == ErrorKind::denied);
  CHECK(refused.error().hint.find("TLS") != std::string::npos);
  options.insecure = true;
  CHECK(Serving::start(options).has_value());
}

TEST_CASE("an advertised address is what is shown and a good Host") {
  TempDir dir;
  ServeOptions options = options_for(dir.path() / "home");
  options.advertise = "https://lab.example/yard";
  const auto serving = Serving::start(options).value();
  CHECK(serving->facts().url == options.advertise);
  http::Request request;
  request.headers["host"] = "lab.example";
  CHECK(check_host(serving->facts(), request).has_value());
}

TEST_CASE("serve tells its starter that it failed and why") {
  TempDir dir;
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const Fd read_end(ends[0]);
  ServeOptions options = options_for(dir.path() / "home");
  options.listen = "nonsense:x";
  options.ready_fd = ends[1];
  CHECK_FALSE(serve(options).has_value());
  char text[512];
  const ssize_t size = ::read(read_end.get(), text, sizeof text);
  REQUIRE(size > 0);
  const Json json = wire::parse({text, static_cast<size_t>(size)}).value();
  CHECK(json["error"]["kind"] == "invalid");
}

TEST_CASE("addresses to listen on") {
  struct Row {
    const char* text;
    const char* host;
    int port;  // -1: refused
    bool loopback;
  };
  const Row rows[] = {
      {"127.0.0.1:0", "127.0.0.1", 0, true},
      {"localhost:80", "localhost", 80, true},
      {"[::1]:9", "::1", 9, true},
      {":8470", "127.0.0.1", 8470, true},
      {"0.0.0.0:1", "0.0.0.0", 1, false},
      {"host", "host", 0, false},
      {"host:70000", "", -1, false},
      {"host:", "", -1, false},
      {"[::1", "", -1, false},
      {"host:x", "", -1, false},
      {"[::1]9", "", -1, false},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    const Result<Listen> listen = parse_listen(row.text);
    REQUIRE(listen.has_value() == (row.port >= 0));
    if (!listen) continue;
    CHECK(listen->host == row.host);
    CHECK(listen->port == row.port);
    CHECK(listen->loopback() == row.loopback);
  }
}

}  // namespace
}  // namespace trainyard::api
