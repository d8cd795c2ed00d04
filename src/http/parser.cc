#include "http/parser.h"

#include <algorithm>
#include <boost/beast/http/basic_parser.hpp>

namespace trainyard::http {

namespace {

namespace beast = boost::beast;
using boost::system::error_code;

constexpr std::string_view kOnce[] = {"authorization",    "content-length", "content-type",
                                      "expect",           "host",           "range",
                                      "transfer-encoding"};
constexpr size_t kChunkHeadMax = 16 * 1024;  // A chunk's size line, and the trailer.

std::optional<Method> method_of(beast::http::verb verb) {
  switch (verb) {
    case beast::http::verb::get:
      return Method::get;
    case beast::http::verb::head:
      return Method::head;
    case beast::http::verb::put:
      return Method::put;
    case beast::http::verb::post:
      return Method::post;
    case beast::http::verb::patch:
      return Method::patch;
    case beast::http::verb::delete_:
      return Method::del;
    default:
      return std::nullopt;
  }
}

// The one exception to "no default in a switch" above: the enum is not ours.

template <bool is_request>
class BeastParser final : public Parser, private beast::http::basic_parser<is_request> {
  using Beast = beast::http::basic_parser<is_request>;
  using Text = beast::string_view;

 public:
  BeastParser(size_t header_bytes_max, Body body) : header_bytes_max_(header_bytes_max) {
    // Beast forgets what it has consumed, so its limit alone does not hold for headers that come
    // line by line: put() counts too.
    Beast::header_limit(static_cast<uint32_t>(header_bytes_max));
    Beast::body_limit(boost::none);
    Beast::skip(body == Body::none);
  }

  size_t put(std::string_view bytes) override {
    size_t taken = 0;
    while (refused_ == 0 && !stopped_ && !Beast::is_done() && taken < bytes.size()) {
      const bool in_header = !Beast::is_header_done();
      error_code error;
      const std::string_view rest = bytes.substr(taken);
      const size_t n = Beast::put(boost::asio::const_buffer(rest.data(), rest.size()), error);
      taken += n;
      if (in_header) header_bytes_ += n;
      judge(error, in_header, bytes.size() - taken);
      if (in_header && Beast::is_header_done()) break;
      if (error) break;
    }
    return taken;
  }

  bool put_end() override {
    if (!Beast::got_some() || refused_ != 0) return false;
    error_code error;
    Beast::put_eof(error);
    return !error;
  }

  bool header_done() const override { return Beast::is_header_done(); }
  bool done() const override { return refused_ == 0 && !stopped_ && Beast::is_done(); }
  int refused() const override { return refused_; }
  bool keep_alive() const override { return Beast::keep_alive(); }
  bool has_body() const override { return !Beast::is_done() || body_seen_; }
  std::optional<uint64_t> content_length() const override {
    const auto length = Beast::content_length();
    return length ? std::optional<uint64_t>(*length) : std::nullopt;
  }

 private:
  void judge(error_code error, bool in_header, size_t left) {
    if (stopped_) return;
    const bool over_limit = error == beast::http::error::header_limit;
    const bool broken = error && !over_limit && error != beast::http::error::need_more;
    const bool done = Beast::is_header_done();
    const bool header_long =
        over_limit || (in_header && header_bytes_ + (done ? 0 : left) > header_bytes_max_);
    const bool chunk_head_long = !in_header && error && left > kChunkHeadMax;
    // Of an encoding we do not know, nobody can tell where the body ends.
    const bool endless =
        in_header && done && !Beast::chunked() && headers.contains("transfer-encoding");
    if (header_long && !broken) {
      refused_ = 431;
    } else if (broken || chunk_head_long || endless || repeated_) {
      refused_ = 400;
    }
  }

  void on_request_impl(beast::http::verb verb, Text, Text where, int version,
                       error_code&) override {
    method = method_of(verb);
    target.assign(where.data(), where.size());
    http11 = version == 11;
  }
  void on_response_impl(int code, Text, int version, error_code&) override {
    status = code;
    http11 = version == 11;
  }
  void on_field_impl(beast::http::field, Text name, Text value, error_code&) override {
    if (Beast::is_header_done()) return;  // A trailer: nobody asked for it.
    std::string key(name.data(), name.size());
    for (char& c : key) {
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    }
    const auto [place, fresh] = headers.try_emplace(std::move(key), value.data(), value.size());
    // Given twice, two programs on the way could each believe another one.
    const bool twice = !fresh || (place->first == "content-length" && value.contains(','));
    repeated_ = repeated_ || (twice && std::ranges::find(kOnce, place->first) != std::end(kOnce));
    if (fresh) return;
    place->second += place->first == "cookie" ? "; " : ", ";
    place->second.append(value.data(), value.size());
  }
  void on_header_impl(error_code&) override {}
  void on_body_init_impl(const boost::optional<uint64_t>&, error_code&) override {
    body_seen_ = true;
  }
  size_t on_body_impl(Text piece, error_code& error) override { return take(piece, error); }
  void on_chunk_header_impl(uint64_t, Text, error_code&) override {}
  size_t on_chunk_body_impl(uint64_t, Text piece, error_code& error) override {
    return take(piece, error);
  }
  void on_finish_impl(error_code&) override {}

  size_t take(Text piece, error_code& error) {
    if (on_body && !on_body(std::string_view(piece.data(), piece.size()))) {
      stopped_ = true;
      error = beast::http::error::end_of_stream;
    }
    return piece.size();
  }

  size_t header_bytes_max_;
  size_t header_bytes_ = 0;
  int refused_ = 0;
  bool stopped_ = false;
  bool repeated_ = false;  // A header that may be given once came again.
  bool body_seen_ = false;
};

}  // namespace

std::unique_ptr<Parser> make_request_parser(size_t header_bytes_max) {
  return std::make_unique<BeastParser<true>>(header_bytes_max, Body::expected);
}

std::unique_ptr<Parser> make_response_parser(size_t header_bytes_max, Body body) {
  return std::make_unique<BeastParser<false>>(header_bytes_max, body);
}

}  // namespace trainyard::http
