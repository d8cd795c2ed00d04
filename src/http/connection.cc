// The loop's side of a connection: waiting, headers and small bodies, deadlines, the end.
#include "http/connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace trainyard::http {

namespace {

// An answer given while the client still sends would be lost in the reset that closing a socket
// with unread bytes causes. So we say that we are done, and let it talk on for a little.
constexpr seconds kLinger{2};
constexpr size_t kLingerBytesMax = 8 * 1024 * 1024;
constexpr int kBodyTurnsMax = 64;        // Then other connections have their turn.
constexpr size_t kIdleBufferMax = 1024;  // A larger buffer is given back between two requests.
constexpr size_t kAheadMax = 64 * 1024;  // What is read ahead of a request that waits.
constexpr char kTlsHandshake = 0x16;     // The first byte of all that is TLS.
// Read at once while headers come, a record of TLS: a body that follows is not to fill memory
// before its sender was admitted.
constexpr size_t kHeaderPiece = 16 * 1024;
constexpr size_t kBodyStep = 64 * 1024;  // What a body of unknown length grows by at first.

}  // namespace

Connection::Connection(Service& service, Loop& loop, Fd fd, Peer peer, Slot slot,
                       std::unique_ptr<TlsSession> tls, std::function<void(Connection&)> closed)
    : service_(service),
      loop_(loop),
      watch_(loop, std::move(fd)),
      peer_(std::move(peer)),
      slot_(slot),
      tls_(std::move(tls)),
      closed_(std::move(closed)) {}

void Connection::start() {
  if (!tls_) return become_idle();
  if (service_.stopping.load()) return close();
  request_.arrived = service_.clock.steady();
  after_handshake(TlsSession::Handshake::wants_read);
}

void Connection::expire() {
  switch (state_) {
    case State::handshake:
      ++service_.refused;
      return close();
    case State::header:
      return refuse(408, "the request's headers took too long");
    case State::body:
    case State::upload:
      return refuse(408, "the request's body took too long");
    case State::idle:
    case State::lingering:
      return close();
    case State::writing:
      ++service_.refused;
      return close();
    case State::working:
    case State::closed:
      deadline_ = SteadyTime::max();
      return;
  }
}

void Connection::stop() {
  switch (state_) {
    case State::handshake:
    case State::idle:
    case State::header:
    case State::lingering:
      return close();
    case State::body:
    case State::upload:
    case State::working:
    case State::writing:
    case State::closed:
      return;
  }
}

void Connection::cut() {
  // Never closed under a worker's hands: the number could be another file's by then.
  if (state_ == State::working) {
    ::shutdown(watch_.fd(), SHUT_RDWR);
  } else {
    close();
  }
}

void Connection::await_readable() {
  if (watching_.load()) return;
  // Enough was read ahead of the request at work: whether its client is still there, its answer
  // will tell.
  if (tls_ && state_ == State::working && in_.size() > kAheadMax) return;
  watching_.store(true);
  watch_.when_readable([self = shared_from_this()] { self->on_readable(); });
}

void Connection::on_readable() {
  watching_.store(false);
  switch (state_) {
    case State::handshake:
      return continue_handshake();
    case State::idle:
    case State::header:
      return read_header();
    case State::body:
      return read_body();
    case State::upload:
      state_ = State::working;
      deadline_ = SteadyTime::max();
      step_ = Step::take_upload;
      return service_.workers.go_on(shared_from_this(), queue());
    case State::lingering:
      return discard_some();
    case State::working:
      return check_gone();
    case State::writing:
    case State::closed:
      return;
  }
}

void Connection::on_writable() {
  if (state_ == State::handshake) return continue_handshake();
  if (state_ != State::writing) return;
  if (response_.file && body_wanted()) {
    state_ = State::working;
    deadline_ = SteadyTime::max();
    step_ = Step::send;
    return service_.workers.go_on(shared_from_this(), queue());
  }
  after_send(send_memory(false));
}

Connection::Read Connection::read_some() {
  const std::span<char> scratch = loop_.scratch().first(kHeaderPiece);
  const ssize_t n = receive(scratch);
  if (n > 0) {
    in_.append(scratch.data(), static_cast<size_t>(n));
    return Read::some;
  }
  return n < 0 && (errno == EAGAIN || errno == EINTR) ? Read::nothing : Read::gone;
}

// By a worker: a signature takes a millisecond, which other connections need not wait for.
void Connection::continue_handshake() {
  char first = 0;
  const ssize_t n = ::recv(watch_.fd(), &first, 1, MSG_PEEK | MSG_DONTWAIT);
  if (n == 0) return close();
  if (n == 1 && !tls_->begun() && first != kTlsHandshake) {
    if (first < 'A' || first > 'Z') return close();
    // A method: somebody took us for a plain server, and may be told so in plain words.
    tls_.reset();
    body_unread_ = true;
    return refuse(400, "this port speaks TLS", "Use https:// in place of http://.");
  }
  state_ = State::working;
  deadline_ = SteadyTime::max();
  step_ = Step::shake_hands;
  if (service_.workers.admit(shared_from_this(), Workers::Queue::usual)) return;
  ++service_.refused;
  close();
}

void Connection::after_handshake(TlsSession::Handshake result) {
  if (result == TlsSession::Handshake::failed) return close();
  if (result == TlsSession::Handshake::done) return become_idle();
  if (service_.stopping.load()) return close();
  state_ = State::handshake;
  deadline_ = request_.arrived + service_.options.header_deadline;
  if (result == TlsSession::Handshake::wants_read) return await_readable();
  watch_.when_writable([self = shared_from_this()] { self->on_writable(); });
}

void Connection::become_idle() {
  if (service_.stopping.load()) return close();
  state_ = State::idle;
  deadline_ = service_.clock.steady() + service_.options.idle_deadline;
  if (in_.empty()) {
    if (in_.capacity() > kIdleBufferMax) in_ = std::string();
    return await_readable();
  }
  // The client sent its next request without waiting. Posted, so that a thousand of them do not
  // stand on the stack above each other.
  loop_.post([self = shared_from_this()] {
    if (self->state_ == State::idle && !self->in_.empty()) self->take_header();
  });
}

void Connection::read_header() {
  switch (read_some()) {
    case Read::some:
      return take_header();
    case Read::nothing:
      return await_readable();
    case Read::gone:
      return close();
  }
}

void Connection::take_header() {
  if (state_ == State::idle) {
    state_ = State::header;
    request_.arrived = service_.clock.steady();
    deadline_ = request_.arrived + service_.options.header_deadline;
  }
  if (!parser_) {
    // Empty lines before a request are forgiven, as the standard asks.
    in_.erase(0, std::min(in_.find_first_not_of("\r\n"), in_.size()));
    if (in_.empty()) return await_readable();
    parser_ = make_request_parser(service_.options.header_bytes_max);
  }
  in_.erase(0, parser_->put(in_));
  if (parser_->refused() == 431) return refuse(431, "the request's headers are too long");
  if (parser_->refused() != 0) return refuse(400, "this is not an HTTP/1.1 request");
  if (!parser_->header_done()) return await_readable();
  begin_request();
}

void Connection::begin_request() {
  ++service_.requests;
  http11_ = parser_->http11;
  close_ = !parser_->keep_alive();
  body_unread_ = parser_->has_body();
  request_.peer = peer_;
  request_.headers = std::move(parser_->headers);
  if (!parser_->method) return refuse(405, "the request's method is not one that is used here");
  request_.method = *parser_->method;

  Result<Target> target = parse_target(parser_->target);
  if (!target) return refuse(400, std::move(target.error().message));
  Result<std::string> path = decode_url(target->path);
  if (!path) return refuse(400, std::move(path.error().message));
  request_.path = *std::move(path);
  request_.query = std::move(target->query);

  Router::Match match = service_.router.find(request_.method, target->path);
  if (match.route == nullptr && match.path_known) {
    return refuse(
        405, request_.path + " cannot be used with " + std::string(to_string(request_.method)));
  }
  if (match.route == nullptr) return refuse(404, "nothing is at " + request_.path);
  route_ = match.route;
  request_.params = std::move(match.params);

  if (slot_ == Slot::reserved && !route_->reserved) {
    close_ = true;
    return refuse(503, "the server has too many connections", "Try again in a moment.");
  }
  if (route_->upload) return give_to_worker(Step::open_upload);
  if (!body_unread_) return give_to_worker(Step::handle);
  const std::optional<uint64_t> length = parser_->content_length();
  if (length.value_or(0) > route_->body_max) body_too_big_ = true;
  // What came with the headers is in memory already, and its handler admits it or not.
  const bool here = length && *length <= in_.size();
  if (body_too_big_ || here || !route_->admit) return begin_body();
  give_to_worker(Step::admit);
}

void Connection::begin_body() {
  if (!body_too_big_) {
    state_ = State::body;
    const size_t length = parser_->content_length().value_or(0);
    const ServerOptions& options = service_.options;
    body_memory_full_ = !body_memory_.grow(service_.body_bytes, options.body_memory_max, length);
    if (!body_memory_full_) request_.body.reserve(length);
    deadline_ = body_deadline();
    parser_->on_body = [this](std::string_view piece) { return add_to_body(piece); };
    if (!body_memory_full_) send_continue();
  }
  take_body();
}

// False: the body is not to be read on.
bool Connection::add_to_body(std::string_view piece) {
  const size_t size = request_.body.size() + piece.size();
  body_too_big_ = size > route_->body_max;
  if (body_too_big_ || body_memory_full_) return false;
  if (size > body_memory_.size()) {
    const size_t step = std::max({size, kBodyStep, 2 * body_memory_.size()});
    body_memory_full_ =
        !body_memory_.grow(service_.body_bytes, service_.options.body_memory_max, step);
    if (body_memory_full_) return false;
    request_.body.reserve(step);
  }
  request_.body += piece;
  return true;
}

SteadyTime Connection::body_deadline() const {
  return std::min(service_.clock.steady() + service_.options.silence_deadline,
                  request_.arrived + service_.options.request_deadline);
}

// Reads on while there is something to read: a megabyte of console comes in dozens of pieces, and
// to go back to the loop for each costs more than the bytes.
void Connection::read_body() {
  const std::span<char> scratch = loop_.scratch();
  for (int turn = 0; turn < kBodyTurnsMax; ++turn) {
    const ssize_t n = receive(scratch);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return await_readable();
    if (n <= 0) return close();
    deadline_ = body_deadline();
    const std::string_view fresh(scratch.data(), static_cast<size_t>(n));
    if (in_.empty()) {
      in_ = fresh.substr(parser_->put(fresh));
    } else {
      in_.append(fresh);
      in_.erase(0, parser_->put(in_));
    }
    if (body_too_big_ || body_memory_full_ || parser_->refused() != 0 || parser_->done()) {
      return take_body();
    }
  }
  await_readable();
}

void Connection::take_body() {
  if (!body_too_big_ && !body_memory_full_) in_.erase(0, parser_->put(in_));
  if (body_memory_full_) {
    return refuse(503, "the server's memory for requests is in use", "Try again in a moment.");
  }
  if (body_too_big_) {
    return refuse(413, "the request's body is larger than the " + std::to_string(route_->body_max) +
                           " bytes taken here");
  }
  if (parser_->refused() != 0) return refuse(400, "the request's body is not as it should be");
  if (!parser_->done()) return await_readable();
  body_unread_ = false;
  give_to_worker(Step::handle);
}

void Connection::check_gone() {
  if (tls_) return check_gone_tls();
  char byte = 0;
  const ssize_t n = ::recv(watch_.fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  const bool gone = n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
  // Only a parked one is ours to end; a worker notices by itself when it answers.
  if (gone && service_.lot.take_one(this)) close();
}

// A goodbye cannot be told from other bytes without reading them; so a parked one is taken out,
// read and put back, by letting its handler look again.
void Connection::check_gone_tls() {
  ParkingLot::Waiter self = service_.lot.take_one(this);
  if (!self) return;
  if (read_some() == Read::gone) return close();
  service_.workers.wake({std::move(self)});
}

void Connection::discard_some() {
  const std::span<char> scratch = loop_.scratch();
  const ssize_t n = ::recv(watch_.fd(), scratch.data(), scratch.size(), 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return await_readable();
  if (n <= 0) return close();
  discarded_ += static_cast<size_t>(n);
  if (discarded_ > kLingerBytesMax) return close();
  await_readable();
}

Workers::Queue Connection::queue() const {
  const bool reserved = peer_.unix_socket || (route_ != nullptr && route_->reserved);
  return reserved ? Workers::Queue::reserved : Workers::Queue::usual;
}

void Connection::give_to_worker(Step step) {
  state_ = State::working;
  deadline_ = SteadyTime::max();
  step_ = step;
  queued_ = service_.clock.steady();
  if (step == Step::handle) parser_.reset();
  if (service_.workers.admit(shared_from_this(), queue())) return;
  refuse(503, "the server has too many requests waiting", "Try again in a moment.");
}

void Connection::refuse(int status, std::string message, std::string hint) {
  if (status == 408 || status == 413 || status == 431 || status == 503) ++service_.refused;
  // Where a message that was not understood ends, nobody knows.
  if (parser_ && (!parser_->header_done() || parser_->refused() != 0)) body_unread_ = true;
  upload_.reset();
  ErrorKind kind = ErrorKind::invalid;
  if (status == 404) kind = ErrorKind::not_found;
  if (status == 408 || status == 503) kind = ErrorKind::unavailable;
  state_ = State::writing;
  begin_answer(own_answer(status, {kind, std::move(message), std::move(hint)}));
  after_send(send_memory(false));
}

void Connection::after_send(Sent sent) {
  switch (sent) {
    case Sent::all:
      return finish_exchange();
    case Sent::turn_over:
    case Sent::blocked:
      state_ = State::writing;
      deadline_ = service_.clock.steady() + service_.options.silence_deadline;
      watch_.when_writable([self = shared_from_this()] { self->on_writable(); });
      return;
    case Sent::gone:
      return close();
  }
}

void Connection::finish_exchange() {
  const bool linger = body_unread_;
  const bool end = close_ || linger || service_.stopping.load();
  request_ = Request();
  response_ = Response();
  head_ = std::string();
  parser_.reset();
  upload_.reset();
  upload_status_ = {};
  route_ = nullptr;
  body_memory_.release();
  body_too_big_ = body_memory_full_ = body_unread_ = false;
  if (!end) return become_idle();
  if (!linger) return close();
  in_ = std::string();
  if (tls_) tls_->say_goodbye();
  ::shutdown(watch_.fd(), SHUT_WR);
  state_ = State::lingering;
  deadline_ = service_.clock.steady() + kLinger;
  await_readable();
}

void Connection::close() {
  if (state_ == State::closed) return;
  state_ = State::closed;
  deadline_ = SteadyTime::max();
  if (tls_) tls_->say_goodbye();
  watch_.close();
  upload_.reset();
  closed_(*this);
}

}  // namespace trainyard::http
