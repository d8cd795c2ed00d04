#include "http/certificate.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "base/file.h"
#include "http/test_authority.h"

namespace trainyard::http {

namespace {

using std::chrono::hours;

Error refused(const TlsFiles& files) {
  const auto checked = check_tls_files(files, "localhost");
  REQUIRE_FALSE(checked.has_value());
  CHECK(checked.error().kind == ErrorKind::invalid);
  const auto loaded = Certificate::load(files);
  REQUIRE_FALSE(loaded.has_value());
  CHECK(loaded.error().message == checked.error().message);
  return checked.error();
}

bool says(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("certificate and key that cannot be used are refused with the file's name") {
  const TempDir dir;
  const TestAuthority authority;
  const TlsFiles good = write_pem(authority.issue(), dir.path(), "good");
  const TlsFiles other = write_pem(authority.issue(), dir.path(), "other");
  const TlsFiles old =
      write_pem(authority.issue({"DNS:x", hours(-48), hours(-2)}), dir.path(), "old");
  const TlsFiles early =
      write_pem(authority.issue({"DNS:x", hours(2), hours(48)}), dir.path(), "early");
  const fs::path text = dir.path() / "text";
  REQUIRE(write_file(text, "hello").has_value());
  const fs::path cut = dir.path() / "cut";
  const std::string whole = read_file(good.certificate).value();
  REQUIRE(write_file(cut, whole.substr(0, whole.size() / 2)).has_value());
  const fs::path locked = dir.path() / "locked";
  REQUIRE(write_file(locked,
                     "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIH0\n"
                     "-----END ENCRYPTED PRIVATE KEY-----\n")
              .has_value());
  const fs::path gone = dir.path() / "gone";

  struct Row {
    TlsFiles files;
    fs::path named;
    const char* why;
  };
  const Row rows[] = {
      {{gone, good.key}, gone, "No such file"},
      {{good.certificate, gone}, gone, "No such file"},
      {{dir.path(), good.key}, dir.path(), ""},
      {{text, good.key}, text, "no certificate in PEM"},
      {{good.certificate, text}, text, "no key in PEM"},
      {{cut, good.key}, cut, "cannot be used"},
      {{good.certificate, good.certificate}, good.certificate, "the key cannot be used"},
      {{good.certificate, locked}, locked, "locked with a password"},
      {{good.certificate, other.key}, other.key, "not the key of "},
      {old, old.certificate, "has expired: 20"},
      {early, early.certificate, "not valid before 20"},
  };
  for (const Row& row : rows) {
    const Error error = refused(row.files);
    CAPTURE(error.message);
    CHECK(says(error.message, row.named.string()));
    CHECK(says(error.message, row.why));
  }
  CHECK(says(refused({good.certificate, {}}).message, "no key"));
  CHECK(says(refused({{}, good.key}).message, "no certificate"));
  CHECK(says(refused({good.certificate, {}}).hint, "--tls-key"));
}

TEST_CASE("a key for all to read and a certificate for another host are warned of") {
  const TempDir dir;
  const TlsFiles files =
      write_pem(TestAuthority().issue({.hosts = "DNS:lab.example,IP:10.0.0.7"}), dir.path(), "a");
  CHECK(check_tls_files(files, "lab.example").value().empty());
  CHECK(check_tls_files(files, "10.0.0.7").value().empty());
  const auto other = check_tls_files(files, "10.0.0.8").value();
  REQUIRE(other.size() == 1);
  CHECK(says(other[0], "for lab.example, 10.0.0.7 and not for 10.0.0.8"));
  REQUIRE(::chmod(files.key.c_str(), 0640) == 0);
  const auto open = check_tls_files(files, "lab.example").value();
  REQUIRE(open.size() == 1);
  CHECK(says(open[0], files.key.string()));
}

}  // namespace trainyard::http
