#pragma once

#include <cstdio>
#include <string>

#include "container/unpack_tar.h"

namespace trainyard::container {

// Writes a tar entry by entry, wrong ones too, which the program tar would not.
class TestTar {
 public:
  TestTar& add(char flag, const std::string& path, const std::string& content = {},
               const std::string& link = {}, unsigned mode = 0644) {
    std::string block(512, '\0');
    const auto put = [&](size_t at, const std::string& text) {
      block.replace(at, text.size(), text);
    };
    const auto octal = [](uint64_t number, int digits) {
      char text[32];
      std::snprintf(text, sizeof text, "%0*llo", digits, static_cast<unsigned long long>(number));
      return std::string(text);
    };
    put(0, path.substr(0, 100));
    put(100, octal(mode, 7));
    put(108, octal(0, 7));
    put(116, octal(0, 7));
    put(124, octal(content.size(), 11));
    put(136, octal(1'600'000'000, 11));
    put(148, "        ");
    block[156] = flag;
    put(157, link.substr(0, 100));
    put(257, std::string("ustar\0"
                         "00",
                         8));
    unsigned sum = 0;
    for (const char byte : block) sum += static_cast<unsigned char>(byte);
    put(148, octal(sum, 6) + std::string("\0 ", 2));
    text_ += block + content + std::string((512 - content.size() % 512) % 512, '\0');
    return *this;
  }
  TestTar& file(const std::string& path, const std::string& content, unsigned mode = 0644) {
    return add('0', path, content, {}, mode);
  }
  TestTar& folder(const std::string& path, unsigned mode = 0755) {
    return add('5', path, {}, {}, mode);
  }
  TestTar& symlink(const std::string& path, const std::string& to) {
    return add('2', path, {}, to);
  }
  std::string text() const { return text_ + std::string(1024, '\0'); }
  std::string open_end() const { return text_; }

 private:
  std::string text_;
};

// Reads from a string, a few bytes at a time.
inline TarReader read_tar(std::string text) {
  return TarReader(
      [text = std::move(text), at = size_t{0}](char* bytes, size_t size) mutable -> Result<size_t> {
        const size_t got = std::min({size, size_t{333}, text.size() - at});
        text.copy(bytes, got, at);
        at += got;
        return got;
      });
}

}  // namespace trainyard::container
