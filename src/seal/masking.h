#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::seal {

// Hides secret values in a whole text without changing its length: each byte of a value, or of one
// of its forms (forms.h), becomes '*'. `forms` as forms_of() gives them.
void cover(std::string& text, const std::vector<std::string>& forms);

// Hides secret values in a stream of bytes: every longest run of bytes that belong to a value, or
// to one of its forms (forms.h), becomes "***", however the stream is cut into chunks.
//
// Nothing is delayed but what may turn out to be secret: the end of a chunk that begins a value is
// held back until it does or does not go on as one. Without values, and where a chunk has none, a
// chunk comes back as it is, not copied.
//
// One for each stream, used by one thread at a time. A copy is one more stream with the same values
// and shares their table with the first.
class Mask {
 public:
  Mask() = default;  // Hides nothing.
  explicit Mask(const std::vector<std::string>& values);

  // What can be shown by now; lives as long as `chunk` and until the next call.
  std::string_view feed(std::string_view chunk);
  // At the stream's end: what was held back and has not become a secret.
  std::string_view flush();

  size_t held_bytes() const { return held_.size(); }

 private:
  class Table;
  // Offsets in the text, from `start`.
  struct Run {
    size_t from = 0;
    size_t to = 0;
  };
  void cover(size_t from, size_t to);
  std::string_view show(std::string_view chunk, size_t limit);
  void append(std::string_view chunk, size_t from, size_t to);

  std::shared_ptr<const Table> table_;  // Shared by the copies; null without values.
  uint32_t state_ = 0;                  // The longest end of the text that begins a value.
  std::string held_;                    // The end of the text that is not shown yet.
  std::vector<Run> covered_;            // In held_ and the chunk, in order, apart.
  bool in_run_ = false;                 // Whether the last byte shown was hidden.
  std::string shown_;
};

}  // namespace trainyard::seal
