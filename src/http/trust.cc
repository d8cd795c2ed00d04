#include "http/trust.h"

#include <arpa/inet.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <cstdlib>
#include <filesystem>

#include "base/file.h"

namespace trainyard::http {

namespace {

namespace fs = std::filesystem;

// Where the authorities are on systems other than the one OpenSSL was built for.
constexpr const char* kBundles[] = {"/etc/ssl/certs/ca-certificates.crt",
                                    "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
                                    "/etc/ssl/cert.pem"};

const char* variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? nullptr : value;
}

bool is_address(const std::string& host) {
  in6_addr ignored{};
  return ::inet_pton(AF_INET, host.c_str(), &ignored) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), &ignored) == 1;
}

// A folder of certificates by their hash, of which OpenSSL reads those it needs.
bool has_default_folder() {
  std::error_code error;
  return !fs::is_empty(X509_get_default_cert_dir(), error) && !error;
}

Status trust_file(SSL_CTX* tls, const char* file) {
  constexpr const char* kHint = "It must hold the authority's certificate as PEM.";
  const Result<std::string> text = read_file(file);
  if (!text) return fail(ErrorKind::invalid, "TRAINYARD_CA_FILE: " + text.error().message, kHint);
  if (SSL_CTX_load_verify_file(tls, file) == 1) return {};
  return fail(ErrorKind::invalid,
              "TRAINYARD_CA_FILE: no certificate can be read from " + std::string(file) + ": " +
                  tls_words(),
              kHint);
}

void trust_system(SSL_CTX* tls) {
  SSL_CTX_set_default_verify_paths(tls);
  if (variable("SSL_CERT_FILE") != nullptr || variable("SSL_CERT_DIR") != nullptr) return;
  if (has_default_folder()) return;
  for (const char* bundle : kBundles) {
    if (SSL_CTX_load_verify_file(tls, bundle) == 1) return;
  }
}

std::string trusted() {
  if (const char* file = variable("TRAINYARD_CA_FILE")) {
    return "TRAINYARD_CA_FILE is " + std::string(file);
  }
  if (const char* file = variable("SSL_CERT_FILE")) return "SSL_CERT_FILE is " + std::string(file);
  return "the system's authorities are trusted";
}

Error refusal(int problem, const X509* certificate, const std::string& host) {
  switch (problem) {
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return {ErrorKind::denied,
              "the server's certificate is for " + names_of(certificate) + ", not for " + host,
              "Use a name that it is for, or let its admin get one for this name."};
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return {ErrorKind::denied, "the server's certificate has expired: " + end_of(certificate),
              "Its admin must renew it; or is this machine's clock wrong?"};
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return {ErrorKind::denied,
              "the server's certificate is not valid before " + begin_of(certificate),
              "Is this machine's clock right?"};
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
      return {ErrorKind::denied, "the server's certificate is of an unknown authority",
              "Set TRAINYARD_CA_FILE to a file with that authority's certificate; now " +
                  trusted() + "."};
    default:
      return {ErrorKind::denied,
              std::string("the server's certificate: ") + X509_verify_cert_error_string(problem),
              ""};
  }
}

// What is wrong is told best here, where the certificate is at hand.
int on_verify(int good, X509_STORE_CTX* chain) {
  if (good == 1) return 1;
  const auto* ssl =
      static_cast<SSL*>(X509_STORE_CTX_get_ex_data(chain, SSL_get_ex_data_X509_STORE_CTX_idx()));
  auto* session = static_cast<TlsSession*>(SSL_get_app_data(ssl));
  const X509* certificate = X509_STORE_CTX_get_current_cert(chain);
  if (certificate == nullptr) certificate = X509_STORE_CTX_get0_cert(chain);
  session->refuse_certificate(
      refusal(X509_STORE_CTX_get_error(chain), certificate, session->host()));
  return 0;
}

}  // namespace

Trust::Trust(SslContextPtr context) : context_(std::move(context)) {}

Result<std::unique_ptr<Trust>> Trust::load() {
  TRY_SET(SslContextPtr context, make_tls_context(TlsEnd::client));
  SSL_CTX* const tls = context.get();
  SSL_CTX_set_verify(tls, SSL_VERIFY_PEER, on_verify);
  // A server's own certificate may be named as the trusted one, whoever has signed it.
  X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(tls), X509_V_FLAG_PARTIAL_CHAIN);
  if (const char* file = variable("TRAINYARD_CA_FILE")) {
    TRY(trust_file(tls, file));
  } else {
    trust_system(tls);
  }
  return std::unique_ptr<Trust>(new Trust(std::move(context)));
}

Result<std::unique_ptr<TlsSession>> Trust::session(int fd, const std::string& host) const {
  SslPtr ssl(SSL_new(context_.get()));
  bool named = ssl != nullptr;
  if (named && is_address(host)) {
    named = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl.get()), host.c_str()) == 1;
  } else if (named) {
    named = SSL_set1_host(ssl.get(), host.c_str()) == 1 &&
            // The macro for this has a cast of C's in it.
            SSL_ctrl(ssl.get(), SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                     const_cast<char*>(host.c_str())) == 1;
  }
  if (!named) return fail(ErrorKind::invalid, "start TLS with " + host + ": " + tls_words());
  SSL_set_connect_state(ssl.get());
  return std::make_unique<TlsSession>(std::move(ssl), fd, host);
}

}  // namespace trainyard::http
