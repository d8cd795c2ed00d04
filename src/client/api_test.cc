#include "client/api.h"

#include <doctest/doctest.h>

#include "wire/urls.h"

using namespace trainyard;
using namespace trainyard::client;

namespace {

std::string frame(char kind, uint32_t rank, std::string_view bytes) {
  return wire::follow_head({kind, rank, static_cast<uint32_t>(bytes.size())}).append(bytes);
}

constexpr std::string_view kState =
    R"({"status":"Failed","reason":"r","version":7,"final":true,"exitCode":3,"error":"e",)"
    R"("next":[5,2],"attempt":1})";

}  // namespace

TEST_CASE("frames are read alike whatever pieces they come in") {
  const std::string answer =
      frame('o', 0, "hello") + frame('e', 1, "no") + frame('o', 1, "") + frame('s', 0, kState);
  for (size_t piece = 1; piece <= answer.size(); ++piece) {
    std::string seen;
    FollowReader reader([&](char stream, uint32_t rank, std::string_view bytes) -> Status {
      for (const char c : bytes) seen.append({stream, static_cast<char>('0' + rank), c, ' '});
      return {};
    });
    for (size_t at = 0; at < answer.size(); at += piece) {
      REQUIRE(reader.feed(std::string_view(answer).substr(at, piece)));
    }
    CHECK(seen == "o0h o0e o0l o0l o0o e1n e1o ");
    const auto state = reader.finish();
    REQUIRE(state);
    CHECK(state->status == "Failed");
    CHECK(state->final);
    CHECK(state->exit_code == 3);
    CHECK(state->version == 7);
    CHECK(state->next == std::vector<uint64_t>{5, 2});
    CHECK(state->bytes == 7);
  }
}

TEST_CASE("an answer that is cut short is no state") {
  const std::string answer = frame('o', 0, "hello") + frame('s', 0, kState);
  for (const size_t size : {size_t{0}, size_t{3}, size_t{14}, answer.size() - 1}) {
    FollowReader reader([](char, uint32_t, std::string_view) -> Status { return {}; });
    REQUIRE(reader.feed(std::string_view(answer).substr(0, size)));
    const auto state = reader.finish();
    REQUIRE_FALSE(state);
    CHECK(state.error().kind == ErrorKind::unavailable);
  }
}

TEST_CASE("a frame of unknown kind and a failing sink stop the reading") {
  FollowReader unknown([](char, uint32_t, std::string_view) -> Status { return {}; });
  CHECK_FALSE(unknown.feed(frame('x', 0, "y")));
  FollowReader failing([](char, uint32_t, std::string_view) -> Status {
    return fail(ErrorKind::cancelled, "closed");
  });
  const Status fed = failing.feed(frame('o', 0, "y"));
  REQUIRE_FALSE(fed);
  CHECK(fed.error().kind == ErrorKind::cancelled);
}

TEST_CASE("a run that is not over has no exit code") {
  FollowReader reader([](char, uint32_t, std::string_view) -> Status { return {}; });
  REQUIRE(reader.feed(frame('s', 0, R"({"status":"Running","exitCode":null,"error":null})")));
  const auto state = reader.finish();
  REQUIRE(state);
  CHECK_FALSE(state->exit_code);
  CHECK_FALSE(state->final);
}
