#include "query/read.h"

#include <doctest/doctest.h>

#include <random>
#include <string>

namespace trainyard::query {
namespace {

// Both the value, with the kinds of its numbers, and the error.
void check_same(std::string_view text) {
  CAPTURE(text);
  const Result<wire::Json> ours = read(text);
  const Result<wire::Json> theirs = wire::parse(text);
  REQUIRE(ours.has_value() == theirs.has_value());
  if (!ours) {
    CHECK(ours.error().message == theirs.error().message);
    return;
  }
  CHECK(wire::dump(*ours) == wire::dump(*theirs));
  CHECK(ours->type() == theirs->type());
  CHECK(*ours == *theirs);
}

constexpr std::string_view kDocument =
    R"({"items": [{"id": "run_1", "gpus": 8, "load": 0.25, "neg": -3, "big": 1e300, "on": true,)"
    R"( "off": false, "none": null, "tags": ["a", "é", "\u2713\n", ""], "empty": {}, "list": []},)"
    "\n\t"
    R"({"id": "日本", "n": [[1], [[2, -0, 0.0]]], "x": 18446744073709551615}], "next": null})";

TEST_CASE("reading gives what parsing gives") {
  for (const std::string_view text :
       {kDocument, std::string_view("1"), std::string_view("[{\"a\":1,\"b\":2,\"a\":3}]")}) {
    check_same(text);
  }
  for (const char* text : {"",
                           " ",
                           "0",
                           "-0",
                           "-1",
                           "01",
                           "-",
                           "+1",
                           "1.",
                           ".5",
                           "1.5",
                           "1e5",
                           "1E+5",
                           "1e",
                           "1e+",
                           "-1.5e-3",
                           "1e999",
                           "1e-999",
                           "999999999999999999",
                           "9999999999999999999",
                           "0.1",
                           "-9223372036854775808",
                           "-9223372036854775809",
                           "18446744073709551616",
                           "true",
                           "tru",
                           "truex",
                           "false",
                           "null",
                           "nul",
                           "\"\"",
                           "\"a\"",
                           "\"a",
                           "\"\\\"",
                           "\"\\\"\"",
                           "\"\\x\"",
                           "\"\\ud83d\\ude00\"",
                           "\"\\ud83d\"",
                           "\"\xff\"",
                           "\"\x7f\"",
                           "\"a\nb\"",
                           "[",
                           "[]",
                           "[ ]",
                           "[1",
                           "[1,",
                           "[1,]",
                           "[,1]",
                           "[1 2]",
                           "[1]]",
                           "{",
                           "{}",
                           "{ }",
                           "{\"a\"",
                           "{\"a\":",
                           "{\"a\":1",
                           "{\"a\":1,",
                           "{\"a\":1,}",
                           "{a:1}",
                           "{\"a\" 1}",
                           "{\"a\":1 \"b\":2}",
                           "{\"\":1}",
                           "{\"a\":{\"a\":{}}}",
                           " \r\n[ 1 , 2 ]\t",
                           "\xef\xbb\xbf[1]",
                           "nan",
                           "[1]x",
                           "{\"k\\n\": \"v\"}",
                           "[\"é\", \"ok\"]",
                           "// c\n1"}) {
    check_same(text);
  }
}

TEST_CASE(
    "what is very wide is read all the same, and what is too deep is refused as parsing does") {
  for (const size_t levels : {255, 256, 257, 300}) {
    check_same(std::string(levels, '[') + std::string(levels, ']'));
    check_same(std::string(levels, '[') + "1" + std::string(levels, ']'));
  }
  CHECK(!read(std::string(100'000, '[') + std::string(100'000, ']')));
  CHECK(!read(std::string(100'000, '[')));
  std::string wide = "{\"k\":0";
  for (int i = 0; i < 300; ++i) wide += ",\"k" + std::to_string(i) + "\":" + std::to_string(i);
  check_same(wide + "}");
  check_same(wide + ",\"k7\":\"again\"}");
}

TEST_CASE("a document with bytes changed at random is read or refused as parsing does") {
  const unsigned seed = std::random_device()();
  MESSAGE("seed ", seed);
  std::mt19937 random(seed);
  constexpr std::string_view kBytes = "{}[]\",:\\ 019-+.eEtfnu\n\xc3\xa9";
  for (int round = 0; round < 5'000; ++round) {
    std::string text(kDocument);
    for (auto left = 1 + random() % 3; left > 0; --left) {
      const size_t at = random() % text.size();
      if (random() % 3 == 0) {
        text.erase(at, 1 + random() % 8);
      } else {
        text[at] = kBytes[random() % kBytes.size()];
      }
    }
    check_same(text);
  }
}

}  // namespace
}  // namespace trainyard::query
