#include "base/hash.h"

#include <doctest/doctest.h>

namespace trainyard {
namespace {

constexpr std::string_view kAbc =
    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

TEST_CASE("a digest is the SHA-256 of the standard's examples") {
  CHECK(sha256("abc").hex() == kAbc);
  CHECK(sha256("").hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST_CASE("bytes added in pieces have the digest of the whole, and the hasher is then as new") {
  Hasher hasher;
  hasher.add("a");
  hasher.add("");
  hasher.add("bc");
  CHECK(hasher.finish().hex() == kAbc);
  hasher.add("abc");
  Hasher moved = std::move(hasher);
  CHECK(moved.finish().hex() == kAbc);
}

TEST_CASE("a digest is read back from its hex, in lower case only: it names one file") {
  CHECK(Digest::from_hex(kAbc) == sha256("abc"));
  std::string upper(kAbc);
  upper[0] = 'B';
  std::string bad(kAbc);
  bad[63] = 'g';
  CHECK(!Digest::from_hex(upper));
  CHECK(!Digest::from_hex(bad));
  CHECK(!Digest::from_hex(kAbc.substr(1)));
  CHECK(!Digest::from_hex(std::string(kAbc) + "0"));
  CHECK(Digest::from_hex("../../etc/passwd").error().kind == ErrorKind::invalid);
}

TEST_CASE("secrets are equal only when all of them is") {
  CHECK(equal_secrets("abc", "abc"));
  CHECK(equal_secrets("", ""));
  CHECK_FALSE(equal_secrets("abc", "abd"));
  CHECK_FALSE(equal_secrets("abc", "ab"));
  CHECK_FALSE(equal_secrets("", "a"));
}

}  // namespace
}  // namespace trainyard
