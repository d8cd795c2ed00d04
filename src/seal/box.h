#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/file.h"
#include "base/result.h"

namespace trainyard::seal {

// Bytes that are nobody's business: in memory of their own that is locked where the system lets us
// (not swapped), not in core dumps, between guard pages, and zeroed at the end. Not copied.
// Costs some pages each: for values, not for bulk.
class SecretText {
 public:
  SecretText() = default;
  explicit SecretText(std::string_view bytes);
  SecretText(SecretText&& other) noexcept
      : bytes_(std::exchange(other.bytes_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  SecretText& operator=(SecretText&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~SecretText();

  std::string_view view() const { return {bytes_, size_}; }

 private:
  friend class Box;
  static SecretText of_size(size_t size);

  char* bytes_ = nullptr;
  size_t size_ = 0;
};

// Seals values for the disk with the key of a home. A sealed value is bound to a name and opens
// under no other, so that nobody who can write the database can move one. Thread-safe.
class Box {
 public:
  // Makes the key when there is none; of any number of processes that do, all get the same.
  // `denied` for a key that others can read.
  static Result<Box> open(const fs::path& key_file);

  // Bytes, not text; longer than the value by a constant, and different every time.
  std::string seal(std::string_view plain, std::string_view bound_to) const;
  // `invalid` when it was changed, sealed with another key or bound to another name: which of these
  // cannot be told.
  Result<SecretText> open(std::string_view sealed, std::string_view bound_to) const;

  // A signature of `text`, in hex, that only who has the key can make.
  std::string sign(std::string_view text) const;
  bool is_signed(std::string_view text, std::string_view signature) const;

 private:
  explicit Box(SecretText key) : key_(std::move(key)) {}
  SecretText key_;
};

// Zeroes what an ordinary string holds, and empties it; the compiler does not leave it out.
void wipe(std::string& text);

// From now on this process leaves no core dump and cannot be looked into by processes of its own
// user: for one that has secrets in ordinary memory too (buffers, JSON).
//
// Its price: /proc/self belongs to root, so that without privilege the process, and what it forks
// until that does exec, can write neither its uid_map (no user namespace can be set up) nor its
// oom_score_adj, and no debugger attaches. Not for the process that makes a rank's namespaces.
// No limit is set for this (RLIMIT_CORE): the users' programs would inherit it.
void hide_from_core_dumps();

}  // namespace trainyard::seal
