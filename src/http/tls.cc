#include "http/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "base/check.h"

namespace trainyard::http {

namespace {

constexpr size_t kRecord = SSL3_RT_MAX_PLAIN_LENGTH;

// Of TLS 1.2; those of 1.3 are all good.
constexpr const char* kCiphers = "ECDHE+AESGCM:ECDHE+CHACHA20";
constexpr unsigned char kProtocols[] = "\x08http/1.1";
constexpr unsigned kProtocolsSize = sizeof(kProtocols) - 1;

// Who offers only protocols that we do not speak is told so; who offers none speaks HTTP/1.1.
int choose_protocol(SSL*, const unsigned char** chosen, unsigned char* size,
                    const unsigned char* offered, unsigned offered_size, void*) {
  unsigned char* found = nullptr;
  const int result =
      SSL_select_next_proto(&found, size, kProtocols, kProtocolsSize, offered, offered_size);
  if (result != OPENSSL_NPN_NEGOTIATED) return SSL_TLSEXT_ERR_ALERT_FATAL;
  *chosen = found;
  return SSL_TLSEXT_ERR_OK;
}

std::string text_of(const ASN1_TIME* time) {
  tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return "an unknown time";
  std::array<char, 32> text{};
  const size_t size = std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M UTC", &parts);
  return {text.data(), size};
}

std::string text_of(const GENERAL_NAME* name) {
  if (name->type == GEN_DNS) {
    const ASN1_IA5STRING* dns = name->d.dNSName;
    return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(dns)),
            static_cast<size_t>(ASN1_STRING_length(dns))};
  }
  if (name->type != GEN_IPADD) return {};
  const std::unique_ptr<BIO, decltype(&BIO_free)> out(BIO_new(BIO_s_mem()), &BIO_free);
  GENERAL_NAME_print(out.get(), const_cast<GENERAL_NAME*>(name));
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(out.get(), &bytes);
  std::string text(bytes, static_cast<size_t>(std::max(0L, size)));
  return text.substr(text.find(':') + 1);  // "IP Address:10.0.0.7"
}

}  // namespace

// OpenSSL's own socket BIO writes without MSG_NOSIGNAL, and a peer that left would kill us.
struct TlsSession::Socket {
  int fd = -1;
  bool more_follows = false;

  static Socket& of(BIO* bio) { return *static_cast<Socket*>(BIO_get_data(bio)); }

  static int finish(BIO* bio, ssize_t n, int again) {
    BIO_clear_retry_flags(bio);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_flags(bio, again);
    return static_cast<int>(n);
  }
  static int write(BIO* bio, const char* bytes, int size) {
    const Socket& socket = of(bio);
    const int flags = MSG_NOSIGNAL | MSG_DONTWAIT | (socket.more_follows ? MSG_MORE : 0);
    return finish(bio, ::send(socket.fd, bytes, static_cast<size_t>(size), flags),
                  BIO_FLAGS_WRITE | BIO_FLAGS_SHOULD_RETRY);
  }
  static int read(BIO* bio, char* bytes, int size) {
    const ssize_t n = ::recv(of(bio).fd, bytes, static_cast<size_t>(size), MSG_DONTWAIT);
    const int result = finish(bio, n, BIO_FLAGS_READ | BIO_FLAGS_SHOULD_RETRY);
    if (n == 0) BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
    return result;
  }
  static long control(BIO* bio, int command, long, void*) {
    if (command == BIO_CTRL_EOF) return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0 ? 1 : 0;
    return command == BIO_CTRL_FLUSH ? 1 : 0;
  }
  // Made once; constant from then on.
  static const BIO_METHOD* method() {
    static const BIO_METHOD* const made = [] {
      BIO_METHOD* method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket");
      ENSURE(method != nullptr);
      BIO_meth_set_write(method, write);
      BIO_meth_set_read(method, read);
      BIO_meth_set_ctrl(method, control);
      return method;
    }();
    return made;
  }
};

void FreeSsl::operator()(ssl_st* ssl) const { SSL_free(ssl); }
void FreeSsl::operator()(ssl_ctx_st* context) const { SSL_CTX_free(context); }

Result<SslContextPtr> make_tls_context(TlsEnd end) {
  // Without OpenSSL's configuration file, as base/hash.cc does: nothing in it is for us.
  OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr);
  ERR_clear_error();
  const bool server = end == TlsEnd::server;
  SslContextPtr context(SSL_CTX_new(server ? TLS_server_method() : TLS_client_method()));
  SSL_CTX* const tls = context.get();
  if (tls == nullptr || SSL_CTX_set_min_proto_version(tls, TLS1_2_VERSION) != 1 ||
      SSL_CTX_set_cipher_list(tls, kCiphers) != 1) {
    return fail(ErrorKind::internal, "start TLS: " + tls_words());
  }
  SSL_CTX_set_options(tls, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  // An idle connection gives its buffers back; a blocked write goes on from wherever its bytes are.
  SSL_CTX_set_mode(tls, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                            SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  // Sessions are taken up again by tickets, which cost us no memory.
  SSL_CTX_set_session_cache_mode(tls, SSL_SESS_CACHE_OFF);
  if (server) {
    SSL_CTX_set_num_tickets(tls, 1);
    SSL_CTX_set_alpn_select_cb(tls, choose_protocol, nullptr);
  } else if (SSL_CTX_set_alpn_protos(tls, kProtocols, kProtocolsSize) != 0) {
    return fail(ErrorKind::internal, "start TLS: " + tls_words());
  }
  return context;
}

std::string tls_words() {
  const unsigned long error = ERR_peek_last_error();
  const char* reason = error == 0 ? nullptr : ERR_reason_error_string(error);
  // An error of the system has its errno in place of a reason.
  if (reason == nullptr && ERR_SYSTEM_ERROR(error)) reason = std::strerror(ERR_GET_REASON(error));
  std::string words = reason == nullptr ? "no reason is known" : reason;
  ERR_clear_error();
  return words;
}

std::string names_of(const x509_st* certificate) {
  std::string all;
  const auto add = [&](std::string name) {
    if (!name.empty()) all += (all.empty() ? "" : ", ") + std::move(name);
  };
  const std::unique_ptr<GENERAL_NAMES, decltype(&GENERAL_NAMES_free)> names(
      static_cast<GENERAL_NAMES*>(
          X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)),
      &GENERAL_NAMES_free);
  for (int i = 0; names && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    add(text_of(sk_GENERAL_NAME_value(names.get(), i)));
  }
  if (!all.empty()) return all;
  std::array<char, 256> common{};
  X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, common.data(),
                            static_cast<int>(common.size()));
  add(common.data());
  return all.empty() ? "no host" : all;
}

std::string begin_of(const x509_st* certificate) {
  return text_of(X509_get0_notBefore(certificate));
}

std::string end_of(const x509_st* certificate) { return text_of(X509_get0_notAfter(certificate)); }

TlsSession::TlsSession(SslPtr ssl, int fd, std::string host)
    : socket_(std::make_unique<Socket>(Socket{.fd = fd})),
      ssl_(std::move(ssl)),
      host_(std::move(host)) {
  BIO* bio = BIO_new(Socket::method());
  ENSURE(bio != nullptr);  // As std::bad_alloc would.
  BIO_set_data(bio, socket_.get());
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_.get(), bio, bio);
  SSL_set_app_data(ssl_.get(), this);
}

TlsSession::~TlsSession() = default;

TlsSession::Handshake TlsSession::handshake() {
  begun_ = true;
  ERR_clear_error();
  errno = 0;
  const int result = SSL_do_handshake(ssl_.get());
  if (result == 1) return Handshake::done;
  const int error = SSL_get_error(ssl_.get(), result);
  if (error == SSL_ERROR_WANT_READ) return Handshake::wants_read;
  if (error == SSL_ERROR_WANT_WRITE) return Handshake::wants_write;
  const int number = errno;
  broken_ = true;
  if (!failure_.message.empty()) return Handshake::failed;  // The certificate was refused.
  const int reason = ERR_GET_REASON(ERR_peek_last_error());
  failure_ = {ErrorKind::unavailable, "TLS handshake: ", ""};
  if (reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST) {
    failure_ = {ErrorKind::unavailable, "it does not speak TLS", "Try it with http://."};
  } else if (reason == SSL_R_UNEXPECTED_EOF_WHILE_READING ||
             (error == SSL_ERROR_SYSCALL && number == 0)) {
    failure_.message += "the connection was closed";
  } else if (error == SSL_ERROR_SYSCALL) {
    failure_.message += std::strerror(number);
  } else {
    failure_.message += tls_words();
  }
  ERR_clear_error();
  return Handshake::failed;
}

// What a socket's call would have left in errno; 0: the peer has said goodbye.
int TlsSession::errno_of(int result) {
  const int number = errno;
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
      return EAGAIN;
    case SSL_ERROR_ZERO_RETURN:
      return 0;
    case SSL_ERROR_SYSCALL:
      broken_ = true;
      return number == 0 ? ECONNRESET : number;
    default:
      broken_ = true;
      // An end without a goodbye: somebody may have cut what was said.
      return ERR_GET_REASON(ERR_peek_last_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING
                 ? ECONNRESET
                 : EPROTO;
  }
}

ssize_t TlsSession::recv(std::span<char> into) {
  ERR_clear_error();
  errno = 0;
  size_t n = 0;
  const int result = SSL_read_ex(ssl_.get(), into.data(), into.size(), &n);
  if (result == 1) return static_cast<ssize_t>(n);
  errno = errno_of(result);
  return errno == 0 ? 0 : -1;
}

// A write that was blocked is taken up by the same bytes: which ones go into a record together
// depends on nothing but what is left to send.
ssize_t TlsSession::send(std::string_view first, std::string_view second, Then then) {
  std::array<char, kRecord> joined;
  size_t total = 0;
  socket_->more_follows = then == Then::more;
  while (!first.empty() || !second.empty()) {
    std::string_view piece = first.empty() ? second : first;
    if (!first.empty() && !second.empty() && first.size() < kRecord) {
      const size_t of_second = std::min(kRecord - first.size(), second.size());
      std::memcpy(joined.data(), first.data(), first.size());
      std::memcpy(joined.data() + first.size(), second.data(), of_second);
      piece = {joined.data(), first.size() + of_second};
    }
    ERR_clear_error();
    errno = 0;
    size_t n = 0;
    const int result = SSL_write_ex(ssl_.get(), piece.data(), piece.size(), &n);
    if (result != 1) {
      const int number = errno_of(result);
      if (total > 0) break;  // The next call finds the same.
      errno = number == 0 ? EPIPE : number;
      return -1;
    }
    total += n;
    const size_t of_first = std::min(n, first.size());
    first.remove_prefix(of_first);
    second.remove_prefix(n - of_first);
  }
  return static_cast<ssize_t>(total);
}

void TlsSession::say_goodbye() {
  if (broken_ || SSL_is_init_finished(ssl_.get()) == 0) return;
  ERR_clear_error();
  socket_->more_follows = false;
  SSL_shutdown(ssl_.get());
  ERR_clear_error();
  broken_ = true;
}

}  // namespace trainyard::http
