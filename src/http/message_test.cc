#include "http/message.h"

#include <doctest/doctest.h>

namespace trainyard::http {

TEST_CASE("a name survives the way through a URL, whatever is in it") {
  std::string every;
  for (int c = 1; c < 256; ++c) every += static_cast<char>(c);
  CHECK(decode_url(encode_url(every)).value() == every);
  CHECK(encode_url("a b/c+d%") == "a%20b%2Fc%2Bd%25");
  CHECK(encode_url("A-z_0.9~") == "A-z_0.9~");
  CHECK(decode_url("%2f%2F").value() == "//");
}

TEST_CASE("a broken escape and a NUL are refused") {
  for (const char* bad : {"%", "%2", "a%2", "%zz", "%0g", "a%00b"}) {
    CAPTURE(bad);
    CHECK_FALSE(decode_url(bad).has_value());
  }
}

TEST_CASE("a target is split into an encoded path and a decoded query") {
  const Target target = parse_target("/a%2Fb/c?x=1&y=%20z+w&empty=&bare&x=2&&k=a=b").value();
  CHECK(target.path == "/a%2Fb/c");
  CHECK(target.query.at("x") == "2");
  CHECK(target.query.at("y") == " z w");
  CHECK(target.query.at("empty").empty());
  CHECK(target.query.at("bare").empty());
  CHECK(target.query.at("k") == "a=b");
  CHECK(target.query.size() == 5);
}

TEST_CASE("a target may name its origin, and needs a path from the root") {
  CHECK(parse_target("http://host:1/a?b=c").value().path == "/a");
  CHECK(parse_target("http://host").value().path == "/");
  CHECK(parse_target("http://host?x=1").value().query.at("x") == "1");
  CHECK(parse_target("?x=1").value().path == "/");
  CHECK_FALSE(parse_target("*").has_value());
  CHECK_FALSE(parse_target("a/b").has_value());
  CHECK_FALSE(parse_target("/a?x=%00").has_value());
}

TEST_CASE("a request's fields are found by name") {
  Request request;
  request.headers["host"] = "here";
  request.query["from"] = "8";
  request.params["id"] = "r";
  CHECK(request.header("host") == "here");
  CHECK(request.header("cookie").empty());
  CHECK(request.query_or("from", "0") == "8");
  CHECK(request.query_or("wait", "0") == "0");
  CHECK(request.param("id") == "r");
}

}  // namespace trainyard::http
