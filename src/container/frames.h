#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string_view>

#include "base/result.h"

namespace trainyard::container {

// Takes apart what an engine sends of a container without a terminal: pieces of its two outputs,
// each after eight bytes that say which of them it is and how long the piece.
class Frames {
 public:
  using Take = std::function<Status(int stream, std::string_view bytes)>;  // 1: stdout, 2: stderr.
  explicit Frames(Take take) : take_(std::move(take)) {}

  // Bytes as they come; what is there of a piece is handed on before the rest of it has come.
  // `unavailable` when they are no frames.
  Status put(std::string_view bytes);

 private:
  Take take_;
  std::array<uint8_t, 8> head_{};
  size_t head_size_ = 0;
  uint32_t left_ = 0;  // Of the piece.
};

}  // namespace trainyard::container
