// A worker's side of a connection: handlers, uploads, parking.
#include <poll.h>

#include <cerrno>

#include "base/file.h"
#include "http/connection.h"
#include "http/head.h"

namespace trainyard::http {

namespace {

constexpr uint64_t kWorkTurnBytesMax =
    4 * 1024 * 1024;                        // Then the next one in the queue has its turn.
constexpr uint64_t kSmallFile = 64 * 1024;  // Sent together with its head.
constexpr seconds kLongWait{1};  // A request that waited longer may be nobody's any more.

}  // namespace

void Connection::work(std::span<char> scratch) {
  switch (step_) {
    case Step::shake_hands:
      return shake_hands();
    case Step::admit:
      return admit(scratch);
    case Step::handle:
      return handle(scratch);
    case Step::open_upload:
      return open_upload(scratch);
    case Step::take_upload:
      return take_upload(scratch);
    case Step::send:
      return report(send_some(scratch));
  }
}

void Connection::shake_hands() {
  const TlsSession::Handshake result = tls_->handshake();
  loop_.post([self = shared_from_this(), result] { self->after_handshake(result); });
}

// What a handler throws ends here, as the answer 500.
template <class F>
auto Connection::call(F&& handler) -> decltype(handler()) {
  try {
    return handler();
  } catch (const std::exception& error) {
    service_.log.error("handler failed", {{"path", request_.path}, {"error", error.what()}});
  } catch (...) {
    service_.log.error("handler failed", {{"path", request_.path}});
  }
  return own_answer(500, {ErrorKind::internal, "the server failed at this request", ""});
}

// By the headers alone: the body of a sender who is refused is never held in memory.
void Connection::admit(std::span<char> scratch) {
  const uint64_t epoch = service_.lot.epoch();
  std::optional<Response> refusal =
      call([this]() -> std::optional<Response> { return route_->admit(request_); });
  if (!refusal) {
    return loop_.post([self = shared_from_this()] {
      if (self->state_ == State::working) self->begin_body();
    });
  }
  if (!refusal->wait) return answer(*std::move(refusal), scratch);
  park_or_retry(*std::move(refusal->wait), epoch, scratch);
}

bool Connection::client_left() const {
  pollfd one{.fd = watch_.fd(), .events = POLLRDHUP, .revents = 0};
  return ::poll(&one, 1, 0) > 0 && (one.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

void Connection::handle(std::span<char> scratch) {
  // A client gives up on a queue that is long; its request is not worth a worker's time then. What
  // was taken at once is answered even where the client has closed its own direction already.
  if (!upload_ && service_.clock.steady() - queued_ > kLongWait && client_left()) {
    return report(Sent::gone);
  }
  request_.client_left = [this] { return client_left(); };
  // Before the handler looks: what is notified from here on refuses the parking below.
  const uint64_t epoch = service_.lot.epoch();
  Response response = call([this]() -> Response {
    return upload_ ? upload_->finish(request_) : route_->handler(request_);
  });
  if (!response.wait) return answer(std::move(response), scratch);
  park_or_retry(*std::move(response.wait), epoch, scratch);
}

void Connection::park_or_retry(Wait wait, uint64_t epoch, std::span<char> scratch) {
  if (service_.stopping.load()) {
    return answer(own_answer(503, {ErrorKind::unavailable, "the server is stopping",
                                   "Try again when it is back."}),
                  scratch);
  }
  const std::shared_ptr<Connection> self = shared_from_this();
  if (!service_.lot.park(self, std::move(wait.key), wait.until, epoch)) {
    return service_.workers.wake({self});
  }
  // From here on it may be another thread's. The lot was entered before this look, and the loop
  // looks into the lot after it has cleared the flag: so a client's leaving is seen by one of us.
  if (!watching_.load()) {
    loop_.post([self] {
      if (self->state_ != State::closed) self->await_readable();
    });
  }
}

void Connection::open_upload(std::span<char> scratch) {
  std::variant<Upload, Response> opened =
      call([this]() -> std::variant<Upload, Response> { return route_->upload(request_); });
  if (auto* refusal = std::get_if<Response>(&opened)) {
    if (refusal->wait) {
      *refusal = own_answer(500, {ErrorKind::internal, "an upload cannot wait to begin", ""});
    }
    return answer(std::move(*refusal), scratch);
  }
  upload_ = std::get<Upload>(std::move(opened));
  parser_->on_body = [this](std::string_view piece) {
    try {
      upload_status_ = upload_->sink->write(piece);
    } catch (const std::exception& error) {
      upload_status_ = fail(ErrorKind::internal, error.what());
    }
    return upload_status_.has_value();
  };
  if (body_unread_) send_continue();
  take_upload(scratch);
}

// Reads and writes by turns until the client has nothing more for now: the memory a body costs is
// the worker's own buffer, whatever its size.
void Connection::take_upload(std::span<char> scratch) {
  if (!in_.empty() || parser_->done()) {
    const std::string waiting = std::exchange(in_, std::string());
    if (feed_upload(scratch, waiting)) return;
  }
  for (uint64_t turn = 0; turn < kWorkTurnBytesMax;) {
    const ssize_t n = receive(scratch);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) {
      return loop_.post([self = shared_from_this()] {
        if (self->state_ != State::working) return;
        self->state_ = State::upload;
        self->deadline_ = self->service_.clock.steady() + self->service_.options.silence_deadline;
        self->await_readable();
      });
    }
    if (n <= 0) return report(Sent::gone);
    turn += static_cast<uint64_t>(n);
    const std::string_view fresh(scratch.data(), static_cast<size_t>(n));
    // A chunk's head may be cut in two by the network.
    if (in_.empty() ? feed_upload(scratch, fresh)
                    : feed_upload(scratch, std::exchange(in_, std::string()).append(fresh))) {
      return;
    }
  }
  step_ = Step::take_upload;
  service_.workers.go_on(shared_from_this(), queue());
}

// True when the upload has come to its end, and was answered.
bool Connection::feed_upload(std::span<char> scratch, std::string_view bytes) {
  const size_t taken = parser_->put(bytes);
  in_.assign(bytes.substr(taken));
  if (!upload_status_) {
    const Error error = std::move(upload_status_).error();
    const int status = status_of(error.kind);
    upload_.reset();
    answer(own_answer(status, error), scratch);
    return true;
  }
  if (parser_->refused() != 0) {
    upload_.reset();
    answer(own_answer(400, {ErrorKind::invalid, "the request's body is not as it should be", ""}),
           scratch);
    return true;
  }
  if (!parser_->done()) return false;
  body_unread_ = false;
  step_ = Step::handle;
  handle(scratch);
  return true;
}

void Connection::answer(Response response, std::span<char> scratch) {
  begin_answer(std::move(response));
  small_file_to_body();
  report(send_some(scratch));
}

void Connection::small_file_to_body() {
  if (!response_.file || response_.file->size > kSmallFile || !body_wanted()) return;
  const FileBody file = *std::move(response_.file);
  response_.file.reset();
  Result<std::string> bytes = read_at(file.fd.get(), file.offset, file.size, request_.path);
  if (bytes && bytes->size() == file.size) {
    response_.body = *std::move(bytes);
    return;
  }
  service_.log.warn("file ended before its answer", {{"path", request_.path}});
  begin_answer(own_answer(500, {ErrorKind::internal, "the file could not be read", ""}));
}

// Hands the connection back to its loop.
void Connection::report(Sent sent) {
  if (sent == Sent::turn_over) {
    step_ = Step::send;
    return service_.workers.go_on(shared_from_this(), queue());
  }
  loop_.post([self = shared_from_this(), sent] { self->after_send(sent); });
}

}  // namespace trainyard::http
