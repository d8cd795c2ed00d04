#include "cli/progress.h"

#include <doctest/doctest.h>

using namespace trainyard::cli;

TEST_CASE("a bar is as full as what is done, and never fuller") {
  const std::string half = format_bar("upload", 512 * 1024, 1024 * 1024);
  CHECK(half.find("[###############---------------]  50%") != std::string::npos);
  CHECK(format_bar("upload", 10, 5).find("100%") != std::string::npos);
  CHECK(format_bar("upload", 0, 5).find("  0%") != std::string::npos);
  CHECK(format_bar("download", 100, 0).find('[') == std::string::npos);
}
