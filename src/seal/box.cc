#include "seal/box.h"

#include <fcntl.h>
#include <sodium.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/check.h"

namespace trainyard::seal {
namespace {

constexpr size_t kKeySize = crypto_aead_xchacha20poly1305_ietf_KEYBYTES;
constexpr size_t kNonceSize = crypto_aead_xchacha20poly1305_ietf_NPUBBYTES;
constexpr size_t kTagSize = crypto_aead_xchacha20poly1305_ietf_ABYTES;

// The first byte of all that is sealed: version, nonce, ciphertext with its tag.
constexpr char kVersion = 1;
constexpr size_t kFrontSize = 1 + kNonceSize;

void start_sodium() {
  static const bool started = sodium_init() >= 0;
  ENSURE(started);
}

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

unsigned char* bytes_of(char* text) { return reinterpret_cast<unsigned char*>(text); }

// The version is sealed in too: a later one cannot be passed off as this one.
std::string associated(std::string_view bound_to) {
  std::string data(1, kVersion);
  return data.append(bound_to);
}

// Sets what is signed apart from whatever else a key is used for.
constexpr std::string_view kSignContext = "trainyard signature 1";

// Puts a whole new key in its place, unless another process was faster.
Status make_key(const fs::path& key_file) {
  const std::string doing = "make the key " + key_file.string();
  std::string temporary = key_file.string() + ".XXXXXX";
  const Fd fd(mkostemp(temporary.data(), O_CLOEXEC));  // Mode 0600.
  if (!fd) return fail_errno(errno, doing);
  const auto make = [&]() -> Status {
    std::string key(kKeySize, '\0');
    randombytes_buf(key.data(), key.size());
    const Status written = write_all(fd.get(), key, doing);
    wipe(key);
    TRY(written);
    if (fsync(fd.get()) != 0) return fail_errno(errno, doing);
    // Both refuse to replace; a file system has at least one of them.
    if (link(temporary.c_str(), key_file.c_str()) != 0 && errno != EEXIST &&
        renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, key_file.c_str(), RENAME_NOREPLACE) != 0 &&
        errno != EEXIST) {
      return fail_errno(errno, doing);
    }
    return sync_dir(key_file.parent_path());
  };
  Status made = make();
  unlink(temporary.c_str());
  return made;
}

Result<Fd> open_key(const fs::path& key_file) {
  constexpr int kHow = O_RDONLY | O_NONBLOCK;  // A pipe in its place must not stop us.
  auto fd = open_file(key_file, kHow);
  if (fd || fd.error().kind != ErrorKind::not_found) return fd;
  TRY(make_key(key_file));
  return open_file(key_file, kHow);
}

Status check_key(int fd, const fs::path& key_file) {
  struct stat status{};
  if (fstat(fd, &status) != 0) return fail_errno(errno, "read " + key_file.string());
  const std::string what = "the key " + key_file.string();
  if (!S_ISREG(status.st_mode)) return fail(ErrorKind::invalid, what + " is not a file");
  if ((status.st_mode & 077) != 0) {
    return fail(ErrorKind::denied, what + " can be read or written by others",
                "If nobody has done so: chmod 600 " + key_file.string());
  }
  if (status.st_size != static_cast<off_t>(kKeySize)) {
    return fail(ErrorKind::invalid,
                what + " has " + std::to_string(status.st_size) + " bytes instead of " +
                    std::to_string(kKeySize),
                "Put it back from a backup: without it no secret of this home can be read.");
  }
  return {};
}

}  // namespace

SecretText::SecretText(std::string_view bytes) : SecretText(of_size(bytes.size())) {
  if (!bytes.empty()) std::memcpy(bytes_, bytes.data(), bytes.size());
}

SecretText::~SecretText() {
  if (bytes_ != nullptr) sodium_free(bytes_);  // Zeroes it first.
}

SecretText SecretText::of_size(size_t size) {
  start_sodium();
  SecretText text;
  if (size == 0) return text;
  text.bytes_ = static_cast<char*>(sodium_malloc(size));
  if (text.bytes_ == nullptr) throw std::bad_alloc();
  text.size_ = size;
  return text;
}

Result<Box> Box::open(const fs::path& key_file) {
  start_sodium();
  TRY_SET(const Fd fd, open_key(key_file));
  TRY(check_key(fd.get(), key_file));
  SecretText key = SecretText::of_size(kKeySize);
  const ssize_t got = pread(fd.get(), key.bytes_, kKeySize, 0);
  if (got < 0) return fail_errno(errno, "read " + key_file.string());
  if (static_cast<size_t>(got) != kKeySize) {
    return fail(ErrorKind::unavailable, "read " + key_file.string() + ": it is being changed");
  }
  return Box(std::move(key));
}

std::string Box::seal(std::string_view plain, std::string_view bound_to) const {
  std::string sealed(kFrontSize + plain.size() + kTagSize, kVersion);
  unsigned char* const nonce = bytes_of(sealed.data() + 1);
  randombytes_buf(nonce, kNonceSize);  // 192 bits: random ones never meet.
  const std::string data = associated(bound_to);
  crypto_aead_xchacha20poly1305_ietf_encrypt(bytes_of(sealed.data() + kFrontSize), nullptr,
                                             bytes_of(plain), plain.size(), bytes_of(data),
                                             data.size(), nullptr, nonce, bytes_of(key_.view()));
  return sealed;
}

std::string Box::sign(std::string_view text) const {
  unsigned char hash[crypto_generichash_BYTES];
  crypto_generichash_state state;
  crypto_generichash_init(&state, bytes_of(key_.view()), kKeySize, sizeof hash);
  for (const std::string_view part : {kSignContext, text}) {
    crypto_generichash_update(&state, bytes_of(part), part.size());
  }
  crypto_generichash_final(&state, hash, sizeof hash);
  std::string hex(2 * sizeof hash + 1, '\0');
  sodium_bin2hex(hex.data(), hex.size(), hash, sizeof hash);
  hex.pop_back();
  return hex;
}

bool Box::is_signed(std::string_view text, std::string_view signature) const {
  const std::string right = sign(text);
  return right.size() == signature.size() &&
         sodium_memcmp(right.data(), signature.data(), right.size()) == 0;
}

Result<SecretText> Box::open(std::string_view sealed, std::string_view bound_to) const {
  constexpr std::string_view kHint = "Set it again with: trainyard secret set";
  if (sealed.empty() || sealed.front() != kVersion || sealed.size() < kFrontSize + kTagSize) {
    return fail(ErrorKind::invalid, "a sealed value is not of a form that we know",
                std::string(kHint));
  }
  SecretText plain = SecretText::of_size(sealed.size() - kFrontSize - kTagSize);
  const std::string_view body = sealed.substr(kFrontSize);
  const std::string data = associated(bound_to);
  const int code = crypto_aead_xchacha20poly1305_ietf_decrypt(
      bytes_of(plain.bytes_), nullptr, nullptr, bytes_of(body), body.size(), bytes_of(data),
      data.size(), bytes_of(sealed.substr(1)), bytes_of(key_.view()));
  if (code != 0) {
    return fail(ErrorKind::invalid,
                "a sealed value does not open: it was changed, or the key is another one",
                std::string(kHint));
  }
  return plain;
}

void wipe(std::string& text) {
  sodium_memzero(text.data(), text.size());
  text.clear();
}

void hide_from_core_dumps() { prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); }

}  // namespace trainyard::seal
