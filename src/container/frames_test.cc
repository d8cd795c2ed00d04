#include "container/frames.h"

#include <doctest/doctest.h>

#include <string>

namespace trainyard::container {
namespace {

std::string frame(char stream, const std::string& text) {
  std::string head(8, '\0');
  head[0] = stream;
  head[6] = static_cast<char>(text.size() >> 8);
  head[7] = static_cast<char>(text.size());
  return head + text;
}

}  // namespace

TEST_CASE("two outputs are told apart, however the bytes are cut") {
  const std::string long_one(1000, 'x');
  const std::string all = frame(1, "out") + frame(2, "err\n") + frame(1, "") + frame(1, long_one);
  for (const size_t step : {size_t{1}, size_t{3}, size_t{9}, all.size()}) {
    std::string got[3];
    Frames frames([&](int stream, std::string_view bytes) -> Status {
      got[stream] += bytes;
      return {};
    });
    for (size_t i = 0; i < all.size(); i += step) {
      REQUIRE(frames.put(std::string_view(all).substr(i, step)));
    }
    CHECK(got[1] == "out" + long_one);
    CHECK(got[2] == "err\n");
  }
}

TEST_CASE("a piece is handed on before all of it has come") {
  std::string got;
  Frames frames([&](int, std::string_view bytes) -> Status {
    got += bytes;
    return {};
  });
  REQUIRE(frames.put(frame(1, "abcdef").substr(0, 10)));
  CHECK(got == "ab");
}

TEST_CASE("what is no frame is refused, and so is what its taker refuses") {
  const auto take = [](int, std::string_view) -> Status {
    return fail(ErrorKind::no_space, "full");
  };
  CHECK(Frames(take).put("plain text").error().kind == ErrorKind::unavailable);
  CHECK(Frames(take).put(frame(2, "x")).error().message == "full");
}

}  // namespace trainyard::container
