#pragma once

#include <bitset>
#include <cstdint>
#include <string_view>
#include <vector>

namespace trainyard::snapshot {

// A pattern of a .gitignore, with git's meaning: ? and sets match one byte but not '/', a star any
// bytes but '/', and a double star that stands alone between slashes any bytes. A pattern that git
// holds for broken matches nothing. Time grows with pattern times text, whatever the pattern.
class Glob {
 public:
  Glob() = default;
  explicit Glob(std::string_view pattern);
  bool matches(std::string_view text) const;

 private:
  enum class Kind : uint8_t {
    byte,
    set,         // One byte of sets_[set].
    star,        // Any bytes but '/'.
    any,         // Any bytes.
    any_folders  // Nothing, or any bytes and a '/'.
  };
  struct Token {
    Kind kind = Kind::byte;
    char byte = 0;
    uint32_t set = 0;
  };
  using Set = std::bitset<256>;

  bool add_set(std::string_view pattern, size_t& at);
  void add_stars(std::string_view pattern, size_t& at);
  bool takes(const Token& token, char c) const;
  bool follow(std::string_view text) const;

  std::vector<Token> tokens_;
  std::vector<Set> sets_;
  bool broken_ = false;
};

}  // namespace trainyard::snapshot
