// The sending of a connection's answers, by its loop or by a worker.
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>

#include "http/connection.h"
#include "http/head.h"

namespace trainyard::http {

namespace {

constexpr uint64_t kTurnBytesMax = 4 * 1024 * 1024;  // Then the next one in the queue has its turn.

bool equal_ignoring_case(std::string_view a, std::string_view lower) {
  return std::ranges::equal(a, lower, [](char x, char y) {
    return (x >= 'A' && x <= 'Z' ? static_cast<char>(x - 'A' + 'a') : x) == y;
  });
}

}  // namespace

ssize_t Connection::receive(std::span<char> into) {
  if (tls_) return tls_->recv(into);
  return ::recv(watch_.fd(), into.data(), into.size(), MSG_DONTWAIT);
}

ssize_t Connection::transmit(std::string_view first, std::string_view second, bool more_follows) {
  if (tls_) {
    return tls_->send(first, second,
                      more_follows ? TlsSession::Then::more : TlsSession::Then::nothing);
  }
  iovec parts[2] = {{const_cast<char*>(first.data()), first.size()},
                    {const_cast<char*>(second.data()), second.size()}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  return ::sendmsg(watch_.fd(), &message,
                   MSG_NOSIGNAL | MSG_DONTWAIT | (more_follows ? MSG_MORE : 0));
}

void Connection::begin_answer(Response response) {
  response_ = std::move(response);
  sent_ = 0;
  close_ = close_ || body_unread_ || service_.stopping.load();
  head_ = format_head(
      response_,
      {.head_only = request_.method == Method::head, .http11 = http11_, .close = close_});
}

Response Connection::own_answer(int status, const Error& error) {
  Response response = service_.answer_error(status, error);
  response.status = status;
  response.wait.reset();
  if (status == 503) response.headers["retry-after"] = "1";
  return response;
}

// curl waits for this before it sends a large body.
void Connection::send_continue() {
  if (!http11_ || !in_.empty()) return;
  if (!equal_ignoring_case(request_.header("expect"), "100-continue")) return;
  constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  // Its 25 bytes fit; and if they do not, the client goes on by itself after a second.
  [[maybe_unused]] const ssize_t n = transmit(kContinue, {}, false);
}

bool Connection::body_wanted() const {
  return request_.method != Method::head && may_have_body(response_.status);
}

// Head and body go in one write: a small answer is one segment, and its reader wakes once.
Connection::Sent Connection::send_memory(bool more_follows) {
  const std::string_view body = body_wanted() ? std::string_view(response_.body) : "";
  while (sent_ < head_.size() + body.size()) {
    const std::string_view head_left =
        std::string_view(head_).substr(std::min<uint64_t>(sent_, head_.size()));
    const std::string_view body_left = body.substr(sent_ > head_.size() ? sent_ - head_.size() : 0);
    const ssize_t n = transmit(head_left, body_left, more_follows);
    if (n >= 0) {
      sent_ += static_cast<uint64_t>(n);
    } else if (errno == EAGAIN) {
      return Sent::blocked;
    } else if (errno != EINTR) {
      return Sent::gone;
    }
  }
  return Sent::all;
}

// Also the file, on a worker: reading it may wait for the disk.
Connection::Sent Connection::send_some(std::span<char> scratch) {
  const bool with_file = response_.file && body_wanted();
  const Sent memory = send_memory(with_file);
  if (memory != Sent::all || !with_file) return memory;
  FileBody& file = *response_.file;
  for (uint64_t turn = 0; file.size > 0;) {
    if (turn >= kTurnBytesMax) return Sent::turn_over;
    const size_t wanted = static_cast<size_t>(std::min<uint64_t>(file.size, scratch.size()));
    const ssize_t got =
        ::pread(file.fd.get(), scratch.data(), wanted, static_cast<off_t>(file.offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      // The length is told already: all we can do is to let the client see that it is not whole.
      service_.log.warn("file ended before its answer", {{"path", request_.path}});
      return Sent::gone;
    }
    const ssize_t n = transmit({scratch.data(), static_cast<size_t>(got)}, {}, false);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno == EAGAIN ? Sent::blocked : Sent::gone;
    const auto moved = static_cast<uint64_t>(n);
    file.offset += moved;
    file.size -= moved;
    sent_ += moved;
    turn += moved;
  }
  return Sent::all;
}

}  // namespace trainyard::http
