#include "dialects/scalar.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace trainyard::dialects;

namespace {

Node plain(std::string text) {
  Node node;
  node.kind = Node::Kind::scalar;
  node.text = std::move(text);
  return node;
}

Node quoted(std::string text) {
  Node node = plain(std::move(text));
  node.quoted = true;
  return node;
}

}  // namespace

TEST_CASE("yes, on and true are one, in three cases") {
  for (const char* word : {"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"}) {
    CHECK(as_bool(plain(word)) == true);
  }
  for (const char* word : {"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"}) {
    CHECK(as_bool(plain(word)) == false);
  }
  for (const char* word : {"y", "n", "yEs", "1", "0", "", "true,"}) {
    CHECK(as_bool(plain(word)) == std::nullopt);
  }
  CHECK(as_bool(quoted("true")) == std::nullopt);
  CHECK(as_bool(Node()) == std::nullopt);
}

TEST_CASE("a whole number may be written in six ways") {
  CHECK(as_int(plain("12")) == 12);
  CHECK(as_int(plain("-3")) == -3);
  CHECK(as_int(plain("+3")) == 3);
  CHECK(as_int(plain("0")) == 0);
  CHECK(as_int(plain("1_000")) == 1000);
  CHECK(as_int(plain("0x1F")) == 31);
  CHECK(as_int(plain("0b101")) == 5);
  CHECK(as_int(plain("017")) == 15);
  CHECK(as_int(plain("0o17")) == 15);
  CHECK(as_int(plain("1:30:00")) == 5400);
  CHECK(as_int(plain("9223372036854775807")) == std::numeric_limits<int64_t>::max());
}

TEST_CASE("what is no whole number is none") {
  for (const char* text :
       {"", "x", "1.0", "1e3", "--1", "+-1", "0x", "0xg", "09", "1:75", "1:", ":1", "_1",
        "9223372036854775808", "999999999999999999:00", "1 2", "."}) {
    CHECK_MESSAGE(as_int(plain(text)) == std::nullopt, std::string(text));
  }
  CHECK(as_int(quoted("1")) == std::nullopt);
}

TEST_CASE("a number has a point, an exponent, or none of them") {
  CHECK(as_number(plain("0.5")) == 0.5);
  CHECK(as_number(plain("1e-3")) == 0.001);
  CHECK(as_number(plain(".5")) == 0.5);
  CHECK(as_number(plain("+1.5")) == 1.5);
  CHECK(as_number(plain("-1_0.5")) == -10.5);
  CHECK(as_number(plain("3")) == 3.0);
  CHECK(as_number(plain(".inf")) == std::numeric_limits<double>::infinity());
  CHECK(as_number(plain("-.INF")) == -std::numeric_limits<double>::infinity());
  CHECK(std::isnan(as_number(plain(".NaN")).value_or(0)));
  for (const char* text : {"", ".", "e3", "1.2.3", "nan", "inf", "1e", "0.1x"}) {
    CHECK_MESSAGE(as_number(plain(text)) == std::nullopt, std::string(text));
  }
}
