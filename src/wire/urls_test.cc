#include "wire/urls.h"

#include <doctest/doctest.h>

using namespace trainyard;

TEST_CASE("a URL keeps odd characters of a path out of its syntax") {
  CHECK(wire::file_url(RunId{"r-1"}, "outputs/a b?.txt", 5, 0) ==
        "/api/v1/runs/r-1/files/outputs/a%20b%3F.txt?from=5");
  CHECK(wire::attempt_url({RunId{"r-1"}, 2}, "/reports") == "/api/v1/runs/r-1/attempts/2/reports");
}

TEST_CASE("a frame's head survives the way there and back") {
  const auto console = wire::parse_console_head(wire::console_head('e', 0xfedcba98u).data());
  CHECK(console.stream == 'e');
  CHECK(console.size == 0xfedcba98u);
  const std::string text = wire::follow_head({'s', 7, 0x80000001u});
  CHECK(text.size() == wire::kFollowHeadSize);
  const auto follow = wire::parse_follow_head(text.data());
  CHECK(follow.kind == 's');
  CHECK(follow.rank == 7);
  CHECK(follow.size == 0x80000001u);
}
