#include "http/trust.h"

#include <doctest/doctest.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <cstdlib>

#include "base/fd.h"
#include "base/file.h"
#include "http/test_authority.h"

namespace trainyard::http {

namespace {

// Two ends of TLS over a pair of sockets, each taking its turn.
struct Pair {
  Fd fds[2];
  std::unique_ptr<TlsSession> server;
  std::unique_ptr<TlsSession> client;

  Pair() {
    int made[2] = {};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, made) == 0);
    fds[0] = Fd(made[0]);
    fds[1] = Fd(made[1]);
  }

  // How it ended for the client, and for the server.
  std::pair<TlsSession::Handshake, TlsSession::Handshake> shake() const {
    auto ours = TlsSession::Handshake::wants_read;
    auto theirs = ours;
    for (int turn = 0; turn < 8; ++turn) {
      if (ours == TlsSession::Handshake::wants_read) ours = client->handshake();
      if (theirs == TlsSession::Handshake::wants_read) theirs = server->handshake();
    }
    return {ours, theirs};
  }
};

// Takes any certificate, also an expired one, that Certificate would not.
SslPtr server_with(const Pem& pem, const std::filesystem::path& folder) {
  const TlsFiles files = write_pem(pem, folder, "any");
  const SslContextPtr context = make_tls_context(TlsEnd::server).value();
  REQUIRE(SSL_CTX_use_certificate_chain_file(context.get(), files.certificate.c_str()) == 1);
  REQUIRE(SSL_CTX_use_PrivateKey_file(context.get(), files.key.c_str(), SSL_FILETYPE_PEM) == 1);
  SslPtr ssl(SSL_new(context.get()));
  SSL_set_accept_state(ssl.get());
  return ssl;
}

struct Variable {
  Variable(const char* n, const std::string& value) : name(n) { ::setenv(n, value.c_str(), 1); }
  ~Variable() { ::unsetenv(name); }
  const char* name;
};

// What a client that trusts what is in `trusted` says of the server.
Status meet(const Pem& pem, const std::string& host, const std::string& trusted) {
  const TempDir dir;
  const std::filesystem::path file = dir.path() / "ca.pem";
  REQUIRE(write_file(file, trusted).has_value());
  const Variable variable("TRAINYARD_CA_FILE", file.string());
  TRY_SET(const std::unique_ptr<Trust> trust, Trust::load());
  Pair pair;
  pair.server = std::make_unique<TlsSession>(server_with(pem, dir.path()), pair.fds[0].get());
  TRY_SET(pair.client, trust->session(pair.fds[1].get(), host));
  const auto [ours, theirs] = pair.shake();
  if (ours == TlsSession::Handshake::done) {
    CHECK(theirs == TlsSession::Handshake::done);
    return {};
  }
  CHECK(ours == TlsSession::Handshake::failed);
  CHECK(theirs == TlsSession::Handshake::failed);
  return std::unexpected(pair.client->failure());
}

}  // namespace

TEST_CASE(
    "a server is trusted when its authority, host and dates are right, and refused in words") {
  const TestAuthority ours("Ours");
  const TestAuthority other("Other");
  using std::chrono::hours;
  struct Row {
    const char* host;
    TestAuthority::Wish wish;
    const TestAuthority* trusted;
    const char* refusal;  // A part of message and hint; "": trusted.
  };
  const std::string hosts = "DNS:lab.example,DNS:*.wild.example,IP:127.0.0.1,IP:::1";
  const Row rows[] = {
      {"lab.example", {.hosts = hosts}, &ours, ""},
      {"LAB.example", {.hosts = hosts}, &ours, ""},
      {"a.wild.example", {.hosts = hosts}, &ours, ""},
      {"127.0.0.1", {.hosts = hosts}, &ours, ""},
      {"::1", {.hosts = hosts}, &ours, ""},
      {"evil.example", {.hosts = hosts}, &ours, "for lab.example, *.wild.example, 127.0.0.1, "},
      {"evil.example", {.hosts = hosts}, &ours, "not for evil.example"},
      {"a.b.wild.example", {.hosts = hosts}, &ours, "not for a.b.wild.example"},
      {"127.0.0.2", {.hosts = hosts}, &ours, "not for 127.0.0.2"},
      {"lab.example", {.hosts = hosts}, &other, "unknown authority"},
      {"lab.example", {.hosts = hosts}, &other, "Set TRAINYARD_CA_FILE"},
      {"lab.example", {hosts, hours(-48), hours(-1)}, &ours, "has expired: 20"},
      {"lab.example", {hosts, hours(24), hours(48)}, &ours, "not valid before 20"},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.host));
    CAPTURE(std::string(row.refusal));
    const Status met = meet(ours.issue(row.wish), row.host, row.trusted->certificate());
    REQUIRE(met.has_value() == std::string_view(row.refusal).empty());
    if (met) continue;
    CHECK(met.error().kind == ErrorKind::denied);
    const std::string words = met.error().message + " " + met.error().hint;
    CAPTURE(words);
    CHECK(words.find(row.refusal) != std::string::npos);
  }
}

TEST_CASE("a server's own certificate may be the trusted one") {
  const Pem pem = TestAuthority().issue();
  CHECK(meet(pem, "localhost", pem.certificate).has_value());
  CHECK_FALSE(meet(TestAuthority().issue(), "localhost", pem.certificate).has_value());
}

TEST_CASE("a file of authorities that cannot be read is named") {
  const TempDir dir;
  const std::filesystem::path file = dir.path() / "ca.pem";
  for (const bool there : {false, true}) {
    CAPTURE(there);
    if (there) REQUIRE(write_file(file, "no certificate").has_value());
    const Variable variable("TRAINYARD_CA_FILE", file.string());
    const auto trust = Trust::load();
    REQUIRE_FALSE(trust.has_value());
    CHECK(trust.error().kind == ErrorKind::invalid);
    CHECK(trust.error().message.find(file.string()) != std::string::npos);
    CHECK(trust.error().message.starts_with("TRAINYARD_CA_FILE: "));
  }
}

TEST_CASE("SSL_CERT_FILE is trusted where TRAINYARD_CA_FILE is not set, and only there") {
  const TempDir dir;
  const TestAuthority ours;
  const Pem pem = ours.issue();
  const std::filesystem::path file = dir.path() / "ca.pem";
  REQUIRE(write_file(file, ours.certificate()).has_value());
  const Variable variable("SSL_CERT_FILE", file.string());
  const auto trust = Trust::load().value();
  Pair pair;
  pair.server = std::make_unique<TlsSession>(server_with(pem, dir.path()), pair.fds[0].get());
  pair.client = trust->session(pair.fds[1].get(), "localhost").value();
  CHECK(pair.shake().first == TlsSession::Handshake::done);
  CHECK_FALSE(meet(pem, "localhost", TestAuthority().certificate()).has_value());
}

TEST_CASE("only TLS 1.2 and later, and only HTTP/1.1, are spoken") {
  const TempDir dir;
  const TestAuthority ours;
  struct Row {
    int version;
    std::string protocols;  // As ALPN has them.
    bool good;
  };
  const Row rows[] = {{TLS1_3_VERSION, "", true},
                      {TLS1_2_VERSION, "", true},
                      {TLS1_1_VERSION, "", false},
                      {TLS1_3_VERSION, "\x02h2\x08http/1.1", true},
                      {TLS1_3_VERSION, "\x02h2", false}};
  for (const Row& row : rows) {
    CAPTURE(row.version);
    CAPTURE(row.protocols);
    const SslContextPtr context(SSL_CTX_new(TLS_client_method()));
    SSL_CTX_set_security_level(context.get(), 0);
    SSL_CTX_set_max_proto_version(context.get(), row.version);
    SslPtr ssl(SSL_new(context.get()));
    SSL* const raw = ssl.get();
    SSL_set_alpn_protos(raw, reinterpret_cast<const unsigned char*>(row.protocols.data()),
                        static_cast<unsigned>(row.protocols.size()));
    SSL_set_connect_state(raw);
    Pair pair;
    pair.server =
        std::make_unique<TlsSession>(server_with(ours.issue(), dir.path()), pair.fds[0].get());
    pair.client = std::make_unique<TlsSession>(std::move(ssl), pair.fds[1].get());
    const auto [client, server] = pair.shake();
    CHECK((server == TlsSession::Handshake::done) == row.good);
    CHECK((client == TlsSession::Handshake::done) == row.good);
    const unsigned char* chosen = nullptr;
    unsigned size = 0;
    SSL_get0_alpn_selected(raw, &chosen, &size);
    if (row.good && !row.protocols.empty()) {
      CHECK(std::string_view(reinterpret_cast<const char*>(chosen), size) == "http/1.1");
    }
  }
}

}  // namespace trainyard::http
