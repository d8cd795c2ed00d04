#include "wire/parse.h"

#include <doctest/doctest.h>

#include <chrono>
#include <string>

using namespace trainyard;
using wire::Json;

namespace {

std::string nested(size_t levels, const std::string& open, const std::string& close) {
  std::string text;
  for (size_t i = 0; i < levels; ++i) text += open;
  text += "1";
  for (size_t i = 0; i < levels; ++i) text += close;
  return text;
}

std::string wide(size_t members) {
  std::string text = "{";
  for (size_t i = 0; i < members; ++i) text += "\"key-" + std::to_string(i) + "\":1,";
  text.back() = '}';
  return text;
}

}  // namespace

TEST_CASE("JSON that nests too deep is refused, so that nothing recurses through it") {
  for (const auto& [open, close] : {std::pair{"[", "]"}, std::pair{R"({"a":)", "}"}}) {
    CHECK(wire::parse(nested(256, open, close)));
    for (const size_t levels : {size_t{257}, size_t{200'000}}) {
      const Result<Json> json = wire::parse(nested(levels, open, close));
      REQUIRE(!json);
      CHECK(json.error().kind == ErrorKind::invalid);
      CHECK(json.error().message == "this JSON nests deeper than 256 levels");
    }
  }
  CHECK(wire::parse("[[1]]", {.depth_max = 2}));
  CHECK(!wire::parse("[[[]]]", {.depth_max = 2}));
}

TEST_CASE("an object with very many members is read in linear time") {
  const std::string text = wide(300'000);
  const auto began = std::chrono::steady_clock::now();
  const Result<Json> json = wire::parse(text);
  // A search for each key takes minutes under the sanitizers, this a second.
  CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(15));
  REQUIRE(json);
  CHECK(json->size() == 300'000);
  CHECK(json->items().begin().key() == "key-0");
  CHECK(wire::parse(wide(10), {.members_max = 10}));
  const Result<Json> more = wire::parse(wide(11), {.members_max = 10});
  REQUIRE(!more);
  CHECK(more.error().message == "an object of this JSON has more than 10 members");
}

TEST_CASE("a key that is given twice keeps its place and its last value, however many there are") {
  for (const size_t members : {size_t{2}, size_t{31}, size_t{32}, size_t{33}, size_t{100}}) {
    std::string text = wide(members);
    text.back() = ',';
    text += R"("key-1":2,"key-0":{"x":3}})";
    const Result<Json> json = wire::parse(text);
    REQUIRE(json);
    CHECK(json->size() == members);
    CHECK(json->items().begin().key() == "key-0");
    CHECK((*json)["key-0"]["x"] == 3);
    CHECK((*json)["key-1"] == 2);
  }
}

TEST_CASE("every kind of value is read as it was written") {
  const std::string text =
      R"({"a":[null,true,false,-1,18446744073709551615,1.5,"t"],"b":{},"c":[],"d":{"e":[[]]}})";
  const Result<Json> json = wire::parse(text);
  REQUIRE(json);
  CHECK(wire::dump(*json) == text);
  CHECK((*json)["a"][4].is_number_unsigned());
  for (const char* bad : {"", "{", "[1,]", "{\"a\"}", "1 2", "\"\xff\"", "1e999"}) {
    INFO(bad);
    CHECK(!wire::parse(bad));
  }
  const Result<Json> placed = wire::parse("{\n  \"a\": ?\n}");
  REQUIRE(!placed);
  CHECK(placed.error().message == "line 2, column 8: this is not JSON");
}

TEST_CASE("a number that is too large is not repeated whole") {
  const Result<Json> json = wire::parse("{\"a\": " + std::string(100'000, '9') + "}");
  REQUIRE(!json);
  CHECK(json.error().message.size() < 300);
  CHECK(json.error().message.ends_with("999…"));
}

TEST_CASE("a parse that nobody waits for ends early") {
  const Result<Json> json = wire::parse(wide(10'000), {.stop = [] { return true; }});
  REQUIRE(!json);
  CHECK(json.error().kind == ErrorKind::cancelled);
}
