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

// For localhost and 127.0.0.1, signed by itself, for a hundred years.
constexpr const char* kCertificate = R"(-----BEGIN CERTIFICATE-----
MIIBpDCCAUugAwIBAgIUFDSJuJEUvhjnN0wab5mb6Lt4Y8owCgYIKoZIzj0EAwIw
GTEXMBUGA1UEAwwOVHJhaW55YXJkIHRlc3QwIBcNMjYxMTE1MTIxNzE2WhgPMjEy
NjEwMjIxMjE3MTZaMBkxFzAVBgNVBAMMDlRyYWlueWFyZCB0ZXN0MFkwEwYHKoZI
zj0CAQYIKoZIzj0DAQcDQgAEMPpuoctsM1B89NDugdNOhrdfZPFTMNBaiL00z0JY
8vqUDpVNtUzL6E2iwtOcyTWALk9JFvG88bym/FnEVpGHYaNvMG0wHQYDVR0OBBYE
FCycdS7WddkWOrQW8fac9jcZL2//MB8GA1UdIwQYMBaAFCycdS7WddkWOrQW8fac
9jcZL2//MA8GA1UdEwEB/wQFMAMBAf8wGgYDVR0RBBMwEYIJbG9jYWxob3N0hwR/
AAABMAoGCCqGSM49BAMCA0cAMEQCIEgVs2SCzgcUZQGjPLnwH+fWntFbdP5BbShV
nlr0uTIJAiBc6nQcxe8ITjTYGkbEQiFtOqhd7DJO1MhoJCYyHf/k+A==
-----END CERTIFICATE-----
)";
constexpr const char* kKey = R"(-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgpz6LqHAcnmzWmvPo
x92AQGSMYAawbol23bXevAfA0kKhRANCAAQw+m6hy2wzUHz00O6B006Gt19k8VMw
0FqIvTTPQljy+pQOlU21TMvoTaLC05zJNYAuT0kW8bzxvKb8WcRWkYdh
-----END PRIVATE KEY-----
)";

http::TlsFiles tls_files(const fs::path& folder) {
  const http::TlsFiles files{folder / "lab.crt", folder / "lab.key"};
  REQUIRE(write_file(files.certificate, kCertificate).has_value());
  REQUIRE(write_file(files.key, kKey, 0600).has_value());
  return files;
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

TEST_CASE("listening beyond loopback needs TLS or --insecure") {
  TempDir dir;
  ServeOptions options = options_for(dir.path() / "home");
  options.listen = "0.0.0.0:0";
  const auto refused = Serving::start(options);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().kind == ErrorKind::denied);
  CHECK(refused.error().hint.find("--tls-cert") != std::string::npos);
  options.insecure = true;
  CHECK(Serving::start(options).has_value());
  options.insecure = false;
  options.tls = tls_files(dir.path());
  options.advertise = "https://localhost:1";
  CHECK(Serving::start(options).has_value());
}

TEST_CASE("with TLS the address says https, and the socket needs no certificate") {
  TempDir dir;
  ServeOptions options = options_for(dir.path() / "home");
  options.tls = tls_files(dir.path());
  std::vector<std::string> warnings;
  options.warn = [&](const std::string& words) { warnings.push_back(words); };
  ::setenv("TRAINYARD_CA_FILE", options.tls.certificate.c_str(), 1);
  {
    const auto serving = Serving::start(options).value();
    CHECK(serving->facts().url.starts_with("https://127.0.0.1:"));
    http::Client tls(http::Address::parse_url(serving->facts().url).value(), "");
    CHECK(fetch(tls, "/health").status == 200);
    CHECK(fetch(tls, "/api/v1/runs").status == 401);
    http::Client plain({.host = "127.0.0.1", .port = port_of(*serving)}, "");
    CHECK(json_of(fetch(plain, "/health"))["error"]["hint"] == "Use https:// in place of http://.");
    http::Client socket = socket_of(*serving);
    CHECK(fetch(socket, "/api/v1/runs").status == 200);
    CHECK(warnings.empty());
  }
  ::unsetenv("TRAINYARD_CA_FILE");
  options.advertise = "https://lab.example:1";
  CHECK(Serving::start(options).has_value());
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].find("not for lab.example") != std::string::npos);
}

TEST_CASE("a certificate that cannot be used is refused before anything is opened") {
  TempDir dir;
  ServeOptions options = options_for(dir.path() / "home");
  options.tls = tls_files(dir.path());
  options.tls.key = dir.path() / "none.key";
  const auto refused = Serving::start(options);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().kind == ErrorKind::invalid);
  CHECK(refused.error().message.find("none.key") != std::string::npos);
  CHECK_FALSE(fs::exists(options.home.root()));
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

TEST_CASE("a server takes as many connections as its files allow, and keeps some for its work") {
  struct Row {
    uint64_t files_max;
    size_t connections;
  };
  const Row rows[] = {
      {0, 0},           {256, 192},        {1024, 768},          {20'000, 15'904},
      {65'536, 61'440}, {524'288, 65'536}, {UINT64_MAX, 65'536},  // RLIM_INFINITY
  };
  for (const Row& row : rows) {
    CAPTURE(row.files_max);
    CHECK(connections_for(row.files_max) == row.connections);
  }
}

}  // namespace
}  // namespace trainyard::api
