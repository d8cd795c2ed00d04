#include "runtime/handover.h"

#include <doctest/doctest.h>

using namespace trainyard;
using namespace trainyard::runtime;

TEST_CASE("commands and variables of any size and any bytes come over as they were") {
  const std::vector<RankCommand> ranks = {
      {{"sh", "-c", "", "a\nb"}, {{"EMPTY", ""}, {"BIG", std::string(3 << 20, 'x')}}},
      {{"true"}, {}},
      {{}, {{"BYTES", std::string("\xff\x01=\n", 4)}}}};
  const Fd fd = open_handover().value();
  REQUIRE(hand_over(fd.get(), ranks));
  CHECK(take_handover(fd.get()).value() == ranks);
}

TEST_CASE("what is cut off or has something behind it is not taken") {
  const std::string text = encode({{{"python3", "train.py"}, {{"A", "1"}, {"B", "2"}}}});
  for (size_t size = 0; size < text.size(); ++size) {
    CHECK_FALSE(decode(std::string_view(text).substr(0, size)));
  }
  CHECK(decode(text));
  CHECK_FALSE(decode(text + "x"));
  CHECK_FALSE(decode(std::string(8, '\xff')));
}

TEST_CASE("nothing handed over is no command") {
  const Fd fd = open_handover().value();
  CHECK_FALSE(take_handover(fd.get()));
}
