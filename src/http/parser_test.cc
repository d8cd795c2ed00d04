#include "http/parser.h"

#include <doctest/doctest.h>

#include <random>

namespace trainyard::http {

namespace {

// Feeds `text` in pieces of `step` bytes as a connection would; what was left at the end.
std::string feed(Parser& parser, std::string_view text, size_t step) {
  std::string waiting;
  for (size_t at = 0; at < text.size(); at += step) {
    waiting += text.substr(at, step);
    while (parser.refused() == 0 && !parser.done()) {
      const size_t taken = parser.put(waiting);
      waiting.erase(0, taken);
      if (taken == 0) break;
    }
  }
  return waiting;
}

constexpr size_t kSteps[] = {1, 2, 3, 7, 100'000};

}  // namespace

TEST_CASE("a request is understood in pieces of any size") {
  for (const size_t step : kSteps) {
    CAPTURE(step);
    const auto parser = make_request_parser(4096);
    std::string body;
    parser->on_body = [&](std::string_view piece) {
      body += piece;
      return true;
    };
    const std::string left = feed(*parser,
                                  "POST /a?b HTTP/1.1\r\nHost: x\r\nX-Two: 1\r\nx-two: 2\r\n"
                                  "Content-Length: 5\r\n\r\nhelloGET /next",
                                  step);
    CHECK(parser->done());
    CHECK(parser->method == Method::post);
    CHECK(parser->target == "/a?b");
    CHECK(parser->headers.at("host") == "x");
    CHECK(parser->headers.at("x-two") == "1, 2");
    CHECK(parser->content_length() == 5);
    CHECK(parser->keep_alive());
    CHECK(body == "hello");
    CHECK(left == "GET /next");
  }
}

TEST_CASE("a chunked body is understood in pieces of any size, with its trailer") {
  for (const size_t step : kSteps) {
    for (const char* chunks : {"5\r\nhello\r\n6;x=y\r\n world\r\n0\r\n\r\n",
                               "b\r\nhello world\r\n0\r\nX-Late: 1\r\n\r\n"}) {
      CAPTURE(step);
      CAPTURE(chunks);
      const auto parser = make_request_parser(4096);
      std::string body;
      parser->on_body = [&](std::string_view piece) {
        body += piece;
        return true;
      };
      feed(*parser, "PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + std::string(chunks),
           step);
      CHECK(parser->done());
      CHECK(body == "hello world");
      CHECK_FALSE(parser->headers.contains("x-late"));
    }
    const auto empty = make_request_parser(4096);
    feed(*empty, "PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", step);
    CHECK(empty->done());
  }
}

TEST_CASE("what is not HTTP is refused with 400") {
  for (const char* bad :
       {"hello\r\n\r\n", "GET  / HTTP/1.1\r\n\r\n", "GET / HTTP/2.0\r\n\r\n",
        "\x16\x03\x01\r\n\r\n", "GET / HTTP/1.1\r\nNo colon\r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n"}) {
    for (const size_t step : kSteps) {
      CAPTURE(bad);
      CAPTURE(step);
      const auto parser = make_request_parser(4096);
      feed(*parser, bad, step);
      CHECK(parser->refused() == 400);
      CHECK_FALSE(parser->done());
    }
  }
}

TEST_CASE("headers longer than the limit are refused with 431, however they come") {
  std::string lines = "GET / HTTP/1.1\r\n";
  for (int i = 0; i < 100; ++i)
    lines += "X-" + std::to_string(i) + ": " + std::string(90, 'v') + "\r\n";
  const std::string line = "GET / HTTP/1.1\r\nX: " + std::string(9000, 'v');
  for (const size_t step : kSteps) {
    CAPTURE(step);
    const auto one = make_request_parser(4096);
    feed(*one, line, step);
    CHECK(one->refused() == 431);
    const auto many = make_request_parser(4096);
    feed(*many, lines + "\r\n", step);
    CHECK(many->refused() == 431);
  }
  // Line by line, where Beast's own limit does not hold.
  const auto parser = make_request_parser(4096);
  std::string waiting = "GET / HTTP/1.1\r\n";
  for (int i = 0; i < 100 && parser->refused() == 0; ++i) {
    waiting.erase(0, parser->put(waiting));
    waiting += "X: " + std::string(60, 'v') + "\r\n";
  }
  CHECK(parser->refused() == 431);
}

TEST_CASE("no bytes break the parser") {
  const std::string seeds[] = {
      "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nT: "
      "1\r\n\r\n",
      "PUT /b HTTP/1.0\r\nContent-Length: 4\r\nX:\r\n folded\r\n\r\nabcd",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;a=\"b\"\r\nx\r\n0\r\n\r\n"};
  std::minstd_rand random(20261115);
  for (int i = 0; i < 20'000; ++i) {
    std::string text = seeds[random() % 3];
    for (unsigned n = random() % 4; n > 0; --n) {
      const size_t at = random() % text.size();
      constexpr char kNasty[] = "\r\n\0 :;0f,=\"\x80";
      if (random() % 2 == 0) {
        text[at] = kNasty[random() % (sizeof(kNasty) - 1)];
      } else {
        text.erase(at, random() % 5);
      }
      if (text.empty()) text = "x";
    }
    const size_t step = 1 + random() % 9;
    const auto request = make_request_parser(512);
    const auto response = make_response_parser(512, Body::expected);
    for (Parser* parser : {request.get(), response.get()}) {
      const std::string left = feed(*parser, text, step);
      if (parser->refused() == 0 && !parser->done()) parser->put_end();
      CHECK(left.size() <= text.size());
    }
  }
}

TEST_CASE("an endless chunk head is refused") {
  const auto parser = make_request_parser(4096);
  feed(*parser, "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 1000);
  feed(*parser, "5;" + std::string(50'000, 'x'), 5000);
  CHECK(parser->refused() == 400);
}

TEST_CASE("a body that is wanted no more stops the parser") {
  const auto parser = make_request_parser(4096);
  int calls = 0;
  parser->on_body = [&](std::string_view) {
    ++calls;
    return false;
  };
  feed(*parser, "POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nabcdefghi", 1);
  CHECK(calls == 1);
  CHECK_FALSE(parser->done());
}

TEST_CASE("an answer's body ends by its length, its chunks, its status or the connection") {
  const auto answer = [](std::string_view text, Body body, size_t step) {
    auto parser = make_response_parser(4096, body);
    feed(*parser, text, step);
    return parser;
  };
  for (const size_t step : kSteps) {
    CHECK(answer("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", Body::expected, step)->done());
    CHECK(answer("HTTP/1.1 204 No\r\n\r\n", Body::expected, step)->done());
    CHECK(answer("HTTP/1.1 100 Go on\r\n\r\n", Body::expected, step)->done());
    CHECK(answer("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", Body::none, step)->done());
    const auto open = answer("HTTP/1.1 200 OK\r\n\r\nhi", Body::expected, step);
    CHECK_FALSE(open->done());
    CHECK_FALSE(open->keep_alive());
    CHECK(open->put_end());
    CHECK_FALSE(
        answer("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi", Body::expected, step)->put_end());
  }
}

TEST_CASE("a header that may be given once is refused when it comes again") {
  for (const char* twice :
       {"Host: a\r\nHost: b\r\n", "Host: a\r\nhOST: a\r\n", "Host: a\r\nX: 1\r\nHost:\r\n",
        "Content-Length: 1\r\nContent-Length: 2\r\n", "Content-Length: 1\r\nContent-Length: 1\r\n",
        "Content-Length: 1, 1\r\n", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n",
        "Authorization: Bearer a\r\nAuthorization: Bearer b\r\n"}) {
    for (const size_t step : kSteps) {
      CAPTURE(twice);
      CAPTURE(step);
      const auto parser = make_request_parser(4096);
      feed(*parser, std::string("POST / HTTP/1.1\r\n") + twice + "\r\n", step);
      CHECK(parser->refused() == 400);
    }
  }
}

}  // namespace trainyard::http
