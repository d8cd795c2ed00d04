#include "http/certificate.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <cerrno>

#include "base/file.h"

namespace trainyard::http {

namespace {

namespace fs = std::filesystem;

// A password would be asked for on the terminal, of a server in the background.
int no_password(char*, int, int, void*) { return -1; }

std::unexpected<Error> unusable(const fs::path& file, std::string why, std::string hint = {}) {
  return fail(ErrorKind::invalid, file.string() + ": " + std::move(why), std::move(hint));
}

// That it can be opened, said by the system: OpenSSL would say less.
Status check_readable(const fs::path& file, std::string_view what) {
  if (file.empty()) {
    return fail(ErrorKind::invalid, "TLS needs a certificate and its key: no " + std::string(what),
                "Give both: --tls-cert FILE --tls-key FILE.");
  }
  const Result<std::string> text = read_file(file);
  if (!text) return fail(ErrorKind::invalid, std::string(what) + ": " + text.error().message);
  if (text->find("-----BEGIN ") != std::string::npos) return {};
  return unusable(
      file, "no " + std::string(what) + " in PEM is in it",
      "A PEM file has lines like -----BEGIN …-----. From DER: openssl x509 -inform DER");
}

Status check_dates(const fs::path& file, const X509* certificate) {
  if (X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0) {
    return unusable(file, "the certificate has expired: " + end_of(certificate),
                    "Put a renewed one there.");
  }
  if (X509_cmp_current_time(X509_get0_notBefore(certificate)) > 0) {
    return unusable(file, "the certificate is not valid before " + begin_of(certificate),
                    "Is this machine's clock right?");
  }
  return {};
}

Result<SslContextPtr> load_context(const TlsFiles& files) {
  TRY(check_readable(files.certificate, "certificate"));
  TRY(check_readable(files.key, "key"));
  TRY_SET(SslContextPtr context, make_tls_context(TlsEnd::server));
  SSL_CTX* const tls = context.get();
  SSL_CTX_set_default_passwd_cb(tls, no_password);
  if (SSL_CTX_use_certificate_chain_file(tls, files.certificate.c_str()) != 1) {
    return unusable(files.certificate, "the certificate cannot be used: " + tls_words());
  }
  if (SSL_CTX_use_PrivateKey_file(tls, files.key.c_str(), SSL_FILETYPE_PEM) != 1) {
    const int reason = ERR_GET_REASON(ERR_peek_last_error());
    const bool other = ERR_GET_LIB(ERR_peek_last_error()) == ERR_LIB_X509 &&
                       (reason == X509_R_KEY_VALUES_MISMATCH || reason == X509_R_KEY_TYPE_MISMATCH);
    if (other) {
      return unusable(files.key, "this is not the key of " + files.certificate.string());
    }
    const std::string text = read_file(files.key).value_or("");
    if (text.find("ENCRYPTED") != std::string::npos) {
      return unusable(files.key, "the key is locked with a password",
                      "Unlock it into a file of mode 0600: openssl pkey -in KEY -out FILE");
    }
    return unusable(files.key, "the key cannot be used: " + tls_words());
  }
  TRY(check_dates(files.certificate, SSL_CTX_get0_certificate(tls)));
  return context;
}

// Changes with the files: a renewal writes into them, replaces them, or turns a link.
std::string stamp_of(const TlsFiles& files) {
  std::string stamp;
  for (const fs::path& file : {files.certificate, files.key}) {
    struct stat info{};
    if (::stat(file.c_str(), &info) != 0) info = {};
    for (const int64_t part :
         {static_cast<int64_t>(info.st_ino), static_cast<int64_t>(info.st_size),
          static_cast<int64_t>(info.st_mtim.tv_sec), static_cast<int64_t>(info.st_mtim.tv_nsec),
          static_cast<int64_t>(info.st_ctim.tv_sec), static_cast<int64_t>(info.st_ctim.tv_nsec)}) {
      stamp.append(reinterpret_cast<const char*>(&part), sizeof(part));
    }
  }
  return stamp;
}

bool is_for(const X509* certificate, const std::string& host) {
  X509* const asked = const_cast<X509*>(certificate);
  return X509_check_host(asked, host.data(), host.size(), 0, nullptr) == 1 ||
         X509_check_ip_asc(asked, host.c_str(), 0) == 1;
}

}  // namespace

Result<std::vector<std::string>> check_tls_files(const TlsFiles& files, const std::string& host) {
  TRY_SET(const SslContextPtr context, load_context(files));
  std::vector<std::string> warnings;
  struct stat info{};
  if (::stat(files.key.c_str(), &info) == 0 && (info.st_mode & 0077) != 0) {
    warnings.push_back(files.key.string() + ": others may read this key; make it 0600");
  }
  const X509* const certificate = SSL_CTX_get0_certificate(context.get());
  if (!is_for(certificate, host)) {
    warnings.push_back(files.certificate.string() + ": the certificate is for " +
                       names_of(certificate) + " and not for " + host +
                       "; name the server as clients should with --advertise https://HOST:PORT");
  }
  return warnings;
}

Certificate::Certificate(TlsFiles files) : files_(std::move(files)) {}
Certificate::~Certificate() = default;

Result<std::unique_ptr<Certificate>> Certificate::load(TlsFiles files) {
  std::unique_ptr<Certificate> made(new Certificate(std::move(files)));
  // The stamp first: what changes while we read is read again.
  made->stamp_ = stamp_of(made->files_);
  TRY_SET(made->context_, load_context(made->files_));
  return made;
}

void Certificate::renew(Log& log) {
  std::string stamp = stamp_of(files_);
  if (stamp == stamp_) return;
  // Between the two files of a renewal they do not match: then the next change is waited for.
  stamp_ = std::move(stamp);
  Result<SslContextPtr> fresh = load_context(files_);
  if (!fresh) {
    return log.warn("certificate not renewed", {{"error", fresh.error().message}});
  }
  context_ = *std::move(fresh);
  log.info("certificate renewed", {{"file", files_.certificate.string()},
                                   {"until", end_of(SSL_CTX_get0_certificate(context_.get()))}});
}

std::unique_ptr<TlsSession> Certificate::session(int fd, Log& log) {
  renew(log);
  SslPtr ssl(SSL_new(context_.get()));
  if (!ssl) return nullptr;
  SSL_set_accept_state(ssl.get());
  return std::make_unique<TlsSession>(std::move(ssl), fd);
}

}  // namespace trainyard::http
