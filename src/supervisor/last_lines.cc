#include "supervisor/last_lines.h"

#include <cctype>
#include <vector>

#include "base/text.h"

namespace trainyard::supervisor {
namespace {

constexpr size_t kLinesMax = 10;
constexpr size_t kBytesMax = 2048;
constexpr size_t kExceptionMax = 300;
// An older traceback was caught: it is not why the rank ended.
constexpr size_t kExceptionDistanceMax = 4096;

// What a terminal would show of it in the end.
std::string_view overwritten(std::string_view line) {
  while (line.ends_with('\r')) line.remove_suffix(1);
  const size_t last = line.rfind('\r');
  return last == std::string_view::npos ? line : line.substr(last + 1);
}

// Its end, no more than `size` bytes, beginning with a whole character.
std::string_view end_of(std::string_view text, size_t size) {
  if (text.size() <= size) return text;
  text.remove_prefix(text.size() - size);
  while (!text.empty() && (static_cast<unsigned char>(text.front()) & 0xC0) == 0x80) {
    text.remove_prefix(1);
  }
  return text;
}

}  // namespace

std::string last_lines(std::string_view tail, bool whole) {
  while (tail.ends_with('\n') || tail.ends_with('\r')) tail.remove_suffix(1);
  std::string text;
  for (size_t lines = 0; lines < kLinesMax && !tail.empty(); ++lines) {
    const size_t end = tail.rfind('\n');
    const bool first = end == std::string_view::npos;
    // Half a line says little, unless there is no other.
    if (first && !whole && lines > 0) break;
    const std::string line = to_utf8(overwritten(first ? tail : tail.substr(end + 1)));
    const size_t room = kBytesMax - text.size();
    if (line.size() + 1 > room && lines > 0) break;
    text = std::string(end_of(line, room)) + (lines > 0 ? "\n" : "") + text;
    tail = first ? std::string_view() : tail.substr(0, end);
  }
  return text;
}

std::string python_exception(std::string_view tail) {
  constexpr std::string_view kFrame = "  File \"";
  size_t at = tail.rfind(kFrame);
  while (at != std::string_view::npos && at > 0 && tail[at - 1] != '\n') {
    at = tail.rfind(kFrame, at - 1);
  }
  // Frames, source lines and marks are indented; the exception follows them.
  while (at != std::string_view::npos && at < tail.size() && tail[at] == ' ') {
    at = tail.find('\n', at);
    if (at != std::string_view::npos) at += 1;
  }
  if (at == std::string_view::npos || at >= tail.size()) return {};
  if (tail.size() - at > kExceptionDistanceMax) return {};
  const std::string_view line = overwritten(tail.substr(at, tail.find('\n', at) - at));
  if (line.empty() || (std::isalpha(static_cast<unsigned char>(line[0])) == 0 && line[0] != '_')) {
    return {};
  }
  return to_utf8(line.substr(0, kExceptionMax));
}

}  // namespace trainyard::supervisor
