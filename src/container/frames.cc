#include "container/frames.h"

#include <algorithm>

namespace trainyard::container {

Status Frames::put(std::string_view bytes) {
  while (!bytes.empty()) {
    if (left_ > 0) {
      const size_t n = std::min<size_t>(left_, bytes.size());
      // Of 0, what was sent to its standard input, an engine sends nothing in truth.
      if (head_[0] != 0) TRY(take_(head_[0], bytes.substr(0, n)));
      left_ -= static_cast<uint32_t>(n);
      bytes.remove_prefix(n);
      continue;
    }
    head_[head_size_++] = static_cast<uint8_t>(bytes.front());
    bytes.remove_prefix(1);
    if (head_size_ < head_.size()) continue;
    head_size_ = 0;
    if (head_[0] > 2 || head_[1] != 0 || head_[2] != 0 || head_[3] != 0) {
      return fail(ErrorKind::unavailable, "the engine sends a container's output in no known form");
    }
    left_ =
        uint32_t{head_[4]} << 24 | uint32_t{head_[5]} << 16 | uint32_t{head_[6]} << 8 | head_[7];
  }
  return {};
}

}  // namespace trainyard::container
