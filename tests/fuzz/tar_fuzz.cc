// Any bytes as a tar, as the layers of images are.
#include <algorithm>

#include "container/unpack_tar.h"
#include "tests/fuzz/input.h"

using namespace trainyard;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  std::string_view rest = fuzz::text_of(bytes, size);
  container::TarReader reader([&](char* into, size_t room) -> Result<size_t> {
    const size_t n = std::min(room, rest.size());
    std::copy_n(rest.data(), n, into);
    rest.remove_prefix(n);
    return n;
  });
  size_t read = 0;
  for (size_t entries = 0;; ++entries) {
    ENSURE(entries <= size);
    container::TarEntry entry;
    const auto more = reader.next(entry);
    if (!more) {
      ENSURE(more.error().kind == ErrorKind::invalid);
      return 0;
    }
    if (!*more) return 0;
    ENSURE(entry.path.find('\0') == std::string::npos);
    if (entries % 2 == 1) continue;  // Passed over unread.
    while (true) {
      const auto piece = reader.piece();
      if (!piece) return 0;
      if (piece->empty()) break;
      read += piece->size();
      ENSURE(read <= size);
    }
  }
}
