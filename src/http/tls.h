#pragma once

#include <sys/types.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

// OpenSSL's, by name only: its headers stay in the .cc files.
struct ssl_st;
struct ssl_ctx_st;
struct x509_st;

namespace trainyard::http {

struct FreeSsl {
  void operator()(ssl_st* ssl) const;
  void operator()(ssl_ctx_st* context) const;
};
using SslPtr = std::unique_ptr<ssl_st, FreeSsl>;
using SslContextPtr = std::unique_ptr<ssl_ctx_st, FreeSsl>;

// What both ends have in common: TLS 1.2 or 1.3, forward secrecy, authenticated encryption, and
// HTTP/1.1 by ALPN.
enum class TlsEnd { server, client };
Result<SslContextPtr> make_tls_context(TlsEnd end);

// What OpenSSL has to say of its last failure in this thread, in a few words.
std::string tls_words();

// The hosts a certificate is for: "lab.example, 10.0.0.7".
std::string names_of(const x509_st* certificate);
// From when to when it is valid: "2026-11-15 08:39 UTC".
std::string begin_of(const x509_st* certificate);
std::string end_of(const x509_st* certificate);

// One end of a TLS connection over a non-blocking socket, which it does not own. recv() and send()
// are those of a socket: the same results and the same errno; EPROTO where the peer does not keep
// to TLS. What recv() leaves is in the socket, never here, if it is given 16 KiB at a time: so to
// wait for the socket is enough. One thread at a time.
class TlsSession {
 public:
  // `host`: whom we mean to talk to; a client's.
  TlsSession(SslPtr ssl, int fd, std::string host = {});
  ~TlsSession();

  enum class Handshake { done, wants_read, wants_write, failed };
  Handshake handshake();
  bool begun() const { return begun_; }
  // Why it failed.
  const Error& failure() const { return failure_; }

  ssize_t recv(std::span<char> into);
  // One after the other, and in one record where they fit. What was not sent must come again first.
  enum class Then { nothing, more };  // more: what follows may travel with it.
  ssize_t send(std::string_view first, std::string_view second = {}, Then then = Then::nothing);
  // Says that nothing more comes, if it can be said at once.
  void say_goodbye();

  const std::string& host() const { return host_; }
  // The handshake under way will fail with `why`.
  void refuse_certificate(Error why) { failure_ = std::move(why); }

 private:
  struct Socket;
  int errno_of(int result);

  std::unique_ptr<Socket> socket_;
  SslPtr ssl_;
  const std::string host_;
  bool begun_ = false;
  bool broken_ = false;  // Nothing more can be said.
  Error failure_;
};

}  // namespace trainyard::http
