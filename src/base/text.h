#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace trainyard {

std::vector<std::string> split(std::string_view text, char separator);
std::string join(std::span<const std::string> parts, std::string_view separator);
std::string_view trim(std::string_view text);
std::string lower(std::string_view text);  // Of A to Z alone.
inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

// A whole decimal number and nothing else.
Result<int64_t> parse_int(std::string_view text, std::string_view what);
// "512", "64k", "4G", "1.5GiB", "100 MB": units are powers of 1024.
Result<int64_t> parse_size(std::string_view text, std::string_view what);
// "90", "90s", "15m", "2h", "1d", "1:30:00", "2-00:00:00".
Result<seconds> parse_duration(std::string_view text, std::string_view what);

// "41 kB", "1.2 GB"; powers of 1024.
std::string format_size(uint64_t bytes);
// "0.01 s", "6.4 s", "2:04", "1:02:03".
std::string format_duration(microseconds duration);

// The nearest of `known` to `word`, or empty when none is near: for "did you mean".
std::string nearest(std::string_view word, std::span<const std::string> known);

// Bytes that are not UTF-8 become U+FFFD; JSON cannot carry them.
std::string to_utf8(std::string_view bytes);

// A text from elsewhere as a terminal may be shown it: UTF-8 in which every control character (C0,
// DEL, C1) and every mark that turns the direction of writing is a space, except those in `keep`.
// So it moves no cursor, sets no title and stays one line.
std::string printable(std::string_view text, std::string_view keep = {});

}  // namespace trainyard
