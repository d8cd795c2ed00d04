#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>

#include "http/certificate.h"

// Certificates for tests, made when they are needed.
namespace trainyard::http {

// A certificate and its key, as PEM.
struct Pem {
  std::string certificate;
  std::string key;
};

// Writes both into `folder`, as NAME.crt and NAME.key (0600).
TlsFiles write_pem(const Pem& pem, const std::filesystem::path& folder, const std::string& name);

class TestAuthority {
 public:
  explicit TestAuthority(const std::string& name = "Test Authority");
  ~TestAuthority();

  // Its own certificate: what those who trust it are given.
  const std::string& certificate() const { return certificate_; }

  // As in "DNS:localhost,IP:127.0.0.1"; valid from `begins` to `ends`, as seen from now.
  struct Wish {
    std::string hosts = "DNS:localhost,IP:127.0.0.1";
    std::chrono::hours begins{-48};
    std::chrono::hours ends{48};
  };
  Pem issue(const Wish& wish) const;
  Pem issue() const { return issue(Wish{}); }

 private:
  struct Key;
  std::unique_ptr<Key> key_;
  std::string certificate_;
};

}  // namespace trainyard::http
