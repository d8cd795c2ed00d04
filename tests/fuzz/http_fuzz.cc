// Any bytes as an HTTP request and as a response: in one piece or in many, they mean the same.
#include "http/parser.h"
#include "tests/fuzz/input.h"

using namespace trainyard;

namespace {

constexpr size_t kHeaderMax = 2048;

struct Reading {
  std::unique_ptr<http::Parser> parser;
  std::string body;
  size_t taken = 0;

  void feed(std::string_view text, size_t step) {
    parser->on_body = [this](std::string_view piece) {
      body += piece;
      return true;
    };
    std::string waiting;
    for (size_t at = 0; at < text.size(); at += step) {
      waiting += text.substr(at, step);
      while (parser->refused() == 0 && !parser->done()) {
        const size_t n = parser->put(waiting);
        waiting.erase(0, n);
        taken += n;
        if (n == 0) break;
      }
    }
  }
};

// A message that is cut off may be refused at once or waited for; a whole one means one thing.
void check_same(const Reading& whole, const Reading& pieces) {
  ENSURE(whole.parser->done() == pieces.parser->done());
  if (!whole.parser->done()) return;
  ENSURE(whole.body == pieces.body);
  ENSURE(whole.taken == pieces.taken);
  ENSURE(whole.parser->headers == pieces.parser->headers);
  ENSURE(whole.parser->target == pieces.parser->target);
}

void check_target(const std::string& text) {
  const auto target = http::parse_target(text);
  if (!target) {
    ENSURE(target.error().kind == ErrorKind::invalid);
    return;
  }
  const auto path = http::decode_url(target->path);
  if (path) ENSURE(http::decode_url(http::encode_url(*path)) == *path);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string_view text = fuzz::text_of(bytes, size);
  Reading whole{http::make_request_parser(kHeaderMax), {}, 0};
  Reading pieces{http::make_request_parser(kHeaderMax), {}, 0};
  whole.feed(text, std::max<size_t>(1, size));
  pieces.feed(text, 3);
  check_same(whole, pieces);
  if (whole.parser->refused() == 0 && whole.parser->header_done()) {
    check_target(whole.parser->target);
    const auto host = whole.parser->headers.find("host");
    if (host != whole.parser->headers.end()) ENSURE(host->second.find('\n') == std::string::npos);
  }
  for (const http::Body body : {http::Body::expected, http::Body::none}) {
    Reading answer{http::make_response_parser(kHeaderMax, body), {}, 0};
    answer.feed(text, 7);
    answer.parser->put_end();
  }
  return 0;
}
