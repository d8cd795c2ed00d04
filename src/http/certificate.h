#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "http/tls.h"

namespace trainyard::http {

// A server's proof of who it is, as PEM.
struct TlsFiles {
  std::filesystem::path certificate;  // Its own first, then those between it and an authority's.
  std::filesystem::path key;

  bool given() const { return !certificate.empty() || !key.empty(); }
};

// Whether they are there, belong together and are valid now: else `invalid`, with the file's name.
// What can be used and should not be so is in the answer: a key that others may read, a certificate
// that is not for `host`.
Result<std::vector<std::string>> check_tls_files(const TlsFiles& files, const std::string& host);

// The files as they are now: looked at whenever somebody connects, so that a renewed certificate
// needs no restart. One thread.
class Certificate {
 public:
  static Result<std::unique_ptr<Certificate>> load(TlsFiles files);
  ~Certificate();

  // For a connection just accepted. Files that changed and cannot be used leave the old certificate
  // in place, and a line in the log.
  std::unique_ptr<TlsSession> session(int fd, Log& log);

 private:
  explicit Certificate(TlsFiles files);
  void renew(Log& log);

  const TlsFiles files_;
  std::string stamp_;  // Of the files when last looked at.
  SslContextPtr context_;
};

}  // namespace trainyard::http
