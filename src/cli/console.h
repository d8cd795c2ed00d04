#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace trainyard::cli {

// Puts "[rank] " before each line. A line is held until it is whole, so that ranks do not write
// into each other's.
class LinePrefixer {
 public:
  explicit LinePrefixer(std::string prefix) : prefix_(std::move(prefix)) {}
  void add(std::string_view bytes, std::string& out);
  void finish(std::string& out);  // What is left, ended like a line.

 private:
  void put_line(std::string_view line, std::string& out) const;

  std::string prefix_;
  std::string held_;
};

enum class Prefix { no, ranks };

// What the ranks wrote, on our own two outputs: as it is for one rank, line by line for several.
class Console {
 public:
  explicit Console(Prefix prefix) : prefix_(prefix) {}

  // An error when our stdout was closed or failed; out_closed() tells which. A closed stderr is
  // nobody's loss.
  Status write(char stream, uint32_t rank, std::string_view bytes);
  // Writes the ranks' last lines where they have no end.
  Status finish();
  bool out_closed() const { return out_closed_; }

 private:
  Status put(char stream, std::string_view bytes);

  Prefix prefix_;
  std::map<std::pair<uint32_t, char>, LinePrefixer> lines_;
  bool out_closed_ = false;
};

// All of it to one of our outputs, in one piece where it is short. EPIPE is `cancelled` with
// kOutputClosed: `trainyard run list | head -1` is nobody's mistake.
inline constexpr std::string_view kOutputClosed = "our output was closed";
Status write_output(int fd, std::string_view bytes);

}  // namespace trainyard::cli
