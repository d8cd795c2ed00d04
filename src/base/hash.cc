#include "base/hash.h"

// Its plain functions: the newer ones build a table of all algorithms first, which takes a
// supervisor longer (0.5 ms) than all that it hashes.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/crypto.h>
#include <openssl/sha.h>

#include "base/check.h"

namespace trainyard {
namespace {

int nibble(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

struct Hasher::Context {
  SHA256_CTX sha;
};

std::string Digest::hex() const {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(64);
  for (const uint8_t byte : bytes) {
    text.push_back(kDigits[byte >> 4]);
    text.push_back(kDigits[byte & 15]);
  }
  return text;
}

Result<Digest> Digest::from_hex(std::string_view hex) {
  Digest digest;
  const auto bad = [&] {
    return fail(ErrorKind::invalid, "'" + std::string(hex.substr(0, 80)) + "' is not a SHA-256");
  };
  if (hex.size() != 64) return bad();
  for (size_t i = 0; i < 32; ++i) {
    const int high = nibble(hex[2 * i]);
    const int low = nibble(hex[2 * i + 1]);
    if (high < 0 || low < 0) return bad();
    digest.bytes[i] = static_cast<uint8_t>(high * 16 + low);
  }
  return digest;
}

Hasher::Hasher() : context_(std::make_unique<Context>()) {
  ENSURE(SHA256_Init(&context_->sha) == 1);
}
Hasher::~Hasher() = default;
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;

void Hasher::add(std::string_view bytes) {
  ENSURE(SHA256_Update(&context_->sha, bytes.data(), bytes.size()) == 1);
}

Digest Hasher::finish() {
  Digest digest;
  ENSURE(SHA256_Final(digest.bytes.data(), &context_->sha) == 1);
  ENSURE(SHA256_Init(&context_->sha) == 1);
  return digest;
}

Digest sha256(std::string_view bytes) {
  Hasher hasher;
  hasher.add(bytes);
  return hasher.finish();
}

bool equal_secrets(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace trainyard
