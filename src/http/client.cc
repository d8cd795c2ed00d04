#include "http/client.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>

#include "http/line.h"
#include "http/parser.h"

namespace trainyard::http {

namespace {

constexpr size_t kPiece = 256 * 1024;
constexpr size_t kHeadBytesMax = 64 * 1024;
constexpr uint64_t kBodyBytesMax = uint64_t{1} << 30;  // Of an answer kept in memory.

Status check_request(const ClientRequest& request);
std::string format_request(const ClientRequest& request, const Address& address,
                           const std::string& token);

// One request and its answer over an open line.
class Exchange {
 public:
  Exchange(Line& line, const ClientRequest& request, std::span<char> buffer)
      : line_(line), request_(request), buffer_(buffer) {
    next_answer();
  }

  Result<Response> run(const std::string& head);

  // The line was closed before a byte of the answer came, and the request can be sent again.
  bool can_repeat() const { return lost_ && !answer_begun_ && !source_begun_; }
  bool keep_alive() const { return written_ && in_.empty() && parser_->keep_alive(); }

 private:
  Status write(std::string_view head);
  Status write_parts(std::string_view first, std::string_view second);
  Status write_source(std::string_view head);
  Status read();
  Status read_once();
  Status feed(std::string_view bytes);
  void next_answer();
  bool take_body(std::string_view piece);
  // Of the answer proper; one that is written still gets no more.
  bool has_head() const { return parser_->header_done() && parser_->status >= 200; }
  std::unexpected<Error> lost(std::string_view doing, int number);

  Line& line_;
  const ClientRequest& request_;
  std::span<char> buffer_;
  std::unique_ptr<Parser> parser_;
  std::string in_;  // Read and not yet understood.
  Response response_;
  Status sink_status_;
  bool written_ = false;
  bool answer_begun_ = false;
  bool source_begun_ = false;
  bool lost_ = false;
  bool closed_for_writing_ = false;
};

}  // namespace

struct Client::Connection {
  Connection(Address address, std::string t) : line(std::move(address)), token(std::move(t)) {}
  Connection(const Connection& sibling) : line(sibling.line), token(sibling.token) {}

  Line line;
  const std::string token;
  bool reused = false;  // It has carried an exchange before.
  std::unique_ptr<char[]> buffer = std::make_unique_for_overwrite<char[]>(kPiece);
};

Client::Client(Address address, std::string token)
    : connection_(std::make_unique<Connection>(std::move(address), std::move(token))) {}
Client::Client(std::unique_ptr<Connection> connection) : connection_(std::move(connection)) {}
Client::~Client() = default;
Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&&) noexcept = default;

Client Client::sibling() const { return Client(std::make_unique<Connection>(*connection_)); }

const Address& Client::address() const { return connection_->line.address(); }

void Client::interrupt() { connection_->line.interrupt(); }

Status Client::connect() {
  Line& line = connection_->line;
  if (line.is_open() && !line.looks_closed()) return {};
  line.close();
  connection_->reused = false;
  return line.open(ClientRequest().timeout);
}

Result<Response> Client::send(const ClientRequest& request) {
  TRY(check_request(request));
  Line& line = connection_->line;
  if (line.is_open() && line.looks_closed()) line.close();
  const std::string head = format_request(request, line.address(), connection_->token);
  for (;;) {
    if (!line.is_open()) {
      connection_->reused = false;
      TRY(line.open(request.timeout));
    }
    Exchange exchange(line, request, {connection_->buffer.get(), kPiece});
    Result<Response> response = exchange.run(head);
    if (!response || !exchange.keep_alive()) line.close();
    const bool again = !response && connection_->reused && exchange.can_repeat();
    connection_->reused = true;
    if (!again) return response;
  }
}

namespace {

Result<Response> Exchange::run(const std::string& head) {
  TRY(write(head));
  TRY(read());
  response_.status = parser_->status;
  response_.headers = std::move(parser_->headers);
  return std::move(response_);
}

Status Exchange::write(std::string_view head) {
  if (request_.source) {
    TRY(write_source(head));
  } else {
    TRY(write_parts(head, request_.body));
  }
  written_ = !has_head() && !closed_for_writing_;
  return {};
}

Status Exchange::write_source(std::string_view head) {
  const auto piece = std::make_unique_for_overwrite<char[]>(kPiece);
  uint64_t left = request_.source_size;
  // The head goes alone: while none of the source is used up, a stale line can be opened again.
  TRY(write_parts(head, {}));
  while (left > 0 && !has_head() && !closed_for_writing_) {
    source_begun_ = true;
    TRY_SET(const size_t n, request_.source(piece.get(), std::min<uint64_t>(left, kPiece)));
    if (n == 0 || n > left) {
      return fail(ErrorKind::invalid, "the body's source ended " + std::to_string(left) +
                                          " bytes before the size it was said to have");
    }
    left -= n;
    TRY(write_parts({piece.get(), n}, {}));
  }
  return {};
}

// Ends early, and well, when the server has answered already or takes no more: read() tells.
Status Exchange::write_parts(std::string_view first, std::string_view second) {
  while (!first.empty() || !second.empty()) {
    const ssize_t n = line_.send(first, second);
    if (n >= 0) {
      const auto sent = static_cast<size_t>(n);
      const size_t of_first = std::min(sent, first.size());
      first.remove_prefix(of_first);
      second.remove_prefix(sent - of_first);
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) {
      closed_for_writing_ = true;
      return {};
    }
    TRY_SET(const short ready, line_.wait(POLLIN | POLLOUT, request_.timeout));
    if ((ready & POLLIN) == 0) continue;
    TRY(read_once());
    if (has_head()) return {};
  }
  return {};
}

Status Exchange::read() {
  // An interrupt also stops a client that is never kept waiting.
  while (!parser_->done()) {
    TRY(line_.wait(POLLIN, request_.timeout));
    TRY(read_once());
  }
  return {};
}

Status Exchange::read_once() {
  const ssize_t n = line_.recv(buffer_);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return {};
  if (n < 0) return lost("read from", errno);
  if (n == 0) {
    if (parser_->header_done() && parser_->put_end()) return {};
    return lost("read from", 0);
  }
  answer_begun_ = true;
  const std::string_view fresh(buffer_.data(), static_cast<size_t>(n));
  if (in_.empty()) return feed(fresh);
  return feed(std::exchange(in_, std::string()).append(fresh));
}

Status Exchange::feed(std::string_view bytes) {
  while (!bytes.empty()) {
    const bool had_header = parser_->header_done();
    const size_t taken = parser_->put(bytes);
    bytes.remove_prefix(taken);
    if (!had_header && has_head() && request_.begun) request_.begun(parser_->status);
    if (!sink_status_) return std::unexpected(std::move(sink_status_).error());
    if (parser_->refused() != 0) {
      return fail(ErrorKind::unavailable, line_.address().str() + " does not answer in HTTP/1.1");
    }
    const bool interim = parser_->done() && parser_->status < 200;
    if (interim) next_answer();  // 100 Continue: the answer proper follows.
    if (taken == 0 && !interim) break;
    if (had_header && parser_->done()) break;
  }
  in_.assign(bytes);
  return {};
}

void Exchange::next_answer() {
  parser_ = make_response_parser(kHeadBytesMax,
                                 request_.method == Method::head ? Body::none : Body::expected);
  parser_->on_body = [this](std::string_view piece) { return take_body(piece); };
}

bool Exchange::take_body(std::string_view piece) {
  if (request_.sink && parser_->status / 100 == 2) {
    sink_status_ = request_.sink(piece);
  } else if (response_.body.size() + piece.size() > kBodyBytesMax) {
    sink_status_ = fail(ErrorKind::invalid, "the answer is too long to be kept in memory");
  } else {
    response_.body += piece;
  }
  return sink_status_.has_value();
}

std::unexpected<Error> Exchange::lost(std::string_view doing, int number) {
  lost_ = true;
  const std::string what = std::string(doing) + " " + line_.address().str();
  return fail(ErrorKind::unavailable, number == 0 ? what + ": the connection was closed"
                                                  : errno_error(number, what).message);
}

bool has_body(const ClientRequest& request) {
  return request.source || !request.body.empty() || request.method == Method::put ||
         request.method == Method::post || request.method == Method::patch;
}

// A line break in what a user gave would make a header, or a request, of the user's own.
Status check_request(const ClientRequest& request) {
  const auto broken = [](std::string_view text) {
    return text.find_first_of(std::string_view("\r\n\0", 3)) != std::string_view::npos;
  };
  bool bad = !request.target.starts_with('/') || broken(request.target) ||
             request.target.find(' ') != std::string::npos;
  for (const auto& [name, value] : request.headers) bad = bad || broken(name) || broken(value);
  if (bad) return fail(ErrorKind::invalid, "the request's URL or headers hold what they may not");
  return {};
}

std::string format_request(const ClientRequest& request, const Address& address,
                           const std::string& token) {
  std::string out;
  out += to_string(request.method);
  out += ' ';
  out += request.target;
  out += " HTTP/1.1\r\nhost: ";
  out += address.unix_socket.empty() ? address.host_and_port() : "localhost";
  out += "\r\n";
  if (!token.empty()) out += "authorization: Bearer " + token + "\r\n";
  for (const auto& [name, value] : request.headers) out += name + ": " + value + "\r\n";
  if (has_body(request)) {
    const uint64_t size = request.source ? request.source_size : request.body.size();
    out += "content-length: " + std::to_string(size) + "\r\n";
  }
  out += "\r\n";
  return out;
}

}  // namespace

}  // namespace trainyard::http
