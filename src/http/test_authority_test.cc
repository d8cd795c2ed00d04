#include "http/test_authority.h"

#include <doctest/doctest.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "base/file.h"

namespace trainyard::http {

namespace {

using KeyPtr = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using CertificatePtr = std::unique_ptr<X509, decltype(&X509_free)>;
using BioPtr = std::unique_ptr<BIO, decltype(&BIO_free)>;

KeyPtr make_key() { return {EVP_EC_gen("P-256"), &EVP_PKEY_free}; }

std::string text_of(const BioPtr& bio) {
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &bytes);
  return {bytes, static_cast<size_t>(size)};
}

std::string pem_of(X509* certificate) {
  const BioPtr bio(BIO_new(BIO_s_mem()), &BIO_free);
  REQUIRE(PEM_write_bio_X509(bio.get(), certificate) == 1);
  return text_of(bio);
}

std::string pem_of(EVP_PKEY* key) {
  const BioPtr bio(BIO_new(BIO_s_mem()), &BIO_free);
  REQUIRE(PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) == 1);
  return text_of(bio);
}

void set_name(X509_NAME* name, const std::string& common) {
  REQUIRE(X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8,
                                     reinterpret_cast<const unsigned char*>(common.c_str()), -1, -1,
                                     0) == 1);
}

void add_extension(X509* certificate, int kind, const std::string& value) {
  const std::unique_ptr<X509_EXTENSION, decltype(&X509_EXTENSION_free)> extension(
      X509V3_EXT_conf_nid(nullptr, nullptr, kind, value.c_str()), &X509_EXTENSION_free);
  REQUIRE(extension != nullptr);
  REQUIRE(X509_add_ext(certificate, extension.get(), -1) == 1);
}

CertificatePtr make_certificate(EVP_PKEY* key, const std::string& common,
                                const TestAuthority::Wish& wish) {
  static long serial = 1;
  CertificatePtr made(X509_new(), &X509_free);
  X509_set_version(made.get(), X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(made.get()), ++serial);
  X509_gmtime_adj(X509_getm_notBefore(made.get()), std::chrono::seconds(wish.begins).count());
  X509_gmtime_adj(X509_getm_notAfter(made.get()), std::chrono::seconds(wish.ends).count());
  set_name(X509_get_subject_name(made.get()), common);
  X509_set_pubkey(made.get(), key);
  return made;
}

}  // namespace

struct TestAuthority::Key {
  KeyPtr key = make_key();
  std::string name;
};

TestAuthority::TestAuthority(const std::string& name) : key_(std::make_unique<Key>()) {
  key_->name = name;
  const CertificatePtr own = make_certificate(key_->key.get(), name, {});
  X509_set_issuer_name(own.get(), X509_get_subject_name(own.get()));
  add_extension(own.get(), NID_basic_constraints, "critical,CA:TRUE");
  REQUIRE(X509_sign(own.get(), key_->key.get(), EVP_sha256()) > 0);
  certificate_ = pem_of(own.get());
}

TestAuthority::~TestAuthority() = default;

Pem TestAuthority::issue(const Wish& wish) const {
  const KeyPtr key = make_key();
  const CertificatePtr made = make_certificate(key.get(), "a server", wish);
  set_name(X509_get_issuer_name(made.get()), key_->name);
  add_extension(made.get(), NID_subject_alt_name, wish.hosts);
  REQUIRE(X509_sign(made.get(), key_->key.get(), EVP_sha256()) > 0);
  return {pem_of(made.get()), pem_of(key.get())};
}

TlsFiles write_pem(const Pem& pem, const std::filesystem::path& folder, const std::string& name) {
  const TlsFiles files{folder / (name + ".crt"), folder / (name + ".key")};
  REQUIRE(write_file(files.certificate, pem.certificate).has_value());
  REQUIRE(write_file(files.key, pem.key, 0600).has_value());
  return files;
}

}  // namespace trainyard::http
