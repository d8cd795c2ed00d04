#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "http/loop.h"
#include "http/parking.h"
#include "http/parser.h"
#include "http/server.h"
#include "http/tls.h"
#include "http/workers.h"

namespace trainyard::http {

// What a connection was accepted for.
enum class Slot {
  usual,
  reserved,  // All usual ones are taken: it may use reserved routes, and everything else is 503.
};

// A share of the memory for request bodies; given back with it.
class BodyMemory {
 public:
  BodyMemory() = default;
  BodyMemory(const BodyMemory&) = delete;
  BodyMemory& operator=(const BodyMemory&) = delete;
  ~BodyMemory() { release(); }

  // Makes the share `size` bytes, if it is smaller; false when `all` would exceed `max` by that.
  [[nodiscard]] bool grow(std::atomic<size_t>& all, size_t max, size_t size) {
    if (size <= size_) return true;
    const size_t more = size - size_;
    if (all.fetch_add(more) + more > max) {
      all.fetch_sub(more);
      return false;
    }
    all_ = &all;
    size_ = size;
    return true;
  }
  size_t size() const { return size_; }
  void release() {
    if (all_ != nullptr) all_->fetch_sub(size_);
    all_ = nullptr;
    size_ = 0;
  }

 private:
  std::atomic<size_t>* all_ = nullptr;
  size_t size_ = 0;
};

// What the connections of a server have in common.
struct Service {
  Service(ServerOptions o, Router r, Clock& c, Log& l, Server::ErrorAnswer answer)
      : options(std::move(o)),
        router(std::move(r)),
        clock(c),
        log(l),
        answer_error(std::move(answer)),
        workers(options.workers, options.queue_max) {}

  const ServerOptions options;
  const Router router;
  Clock& clock;
  Log& log;
  const Server::ErrorAnswer answer_error;
  std::atomic<bool> stopping{false};
  std::atomic<uint64_t> requests{0};
  std::atomic<uint64_t> refused{0};
  std::atomic<uint64_t> connections_open{0};
  std::atomic<size_t> body_bytes{0};  // Of all BodyMemory.
  ParkingLot lot;
  Workers workers;
};

// One client's connection, request after request. It is owned by one side at a time: by its loop
// while it waits for bytes (connection.cc), by a worker while a handler runs and while a file or an
// upload moves (working.cc), and by nobody while it is parked; who takes it from the lot owns it.
// The state is the loop's; `working` means that the loop keeps its hands off the rest. Shared,
// because callbacks, queue and lot hold it, and whichever lets go last ends it.
class Connection final : public Job, public std::enable_shared_from_this<Connection> {
 public:
  // `tls`: null on a plain connection. It is used by whoever owns the connection.
  Connection(Service& service, Loop& loop, Fd fd, Peer peer, Slot slot,
             std::unique_ptr<TlsSession> tls, std::function<void(Connection&)> closed);

  // All on the loop's thread.
  void start();
  bool is_due(SteadyTime now) const { return now >= deadline_; }
  void expire();
  void stop();  // Ends it unless a request is under way; that one is answered first.
  void cut();   // Ends it now.

  void work(std::span<char> scratch) override;

 private:
  enum class State { handshake, idle, header, body, upload, working, writing, lingering, closed };
  // What a worker is to do.
  enum class Step { shake_hands, admit, handle, open_upload, take_upload, send };
  enum class Read { some, nothing, gone };
  enum class Sent { all, blocked, turn_over, gone };

  // The loop's side: connection.cc.
  void await_readable();
  void on_readable();
  void on_writable();
  Read read_some();
  void continue_handshake();
  void after_handshake(TlsSession::Handshake result);
  void become_idle();
  void read_header();
  void take_header();
  void begin_request();
  void begin_body();
  bool add_to_body(std::string_view piece);
  SteadyTime body_deadline() const;
  void read_body();
  void take_body();
  void check_gone();
  void check_gone_tls();
  void discard_some();
  Workers::Queue queue() const;
  void give_to_worker(Step step);
  void refuse(int status, std::string message, std::string hint = {});
  void after_send(Sent sent);
  void finish_exchange();
  void close();

  // Either side's: sending.cc. The first two are recv(2) and sendmsg(2), without waiting.
  ssize_t receive(std::span<char> into);
  ssize_t transmit(std::string_view first, std::string_view second, bool more_follows);
  void begin_answer(Response response);
  Response own_answer(int status, const Error& error);
  void send_continue();
  Sent send_memory(bool more_follows);
  Sent send_some(std::span<char> scratch);
  bool body_wanted() const;

  // A worker's side: working.cc.
  void shake_hands();
  void admit(std::span<char> scratch);
  bool client_left() const;
  void handle(std::span<char> scratch);
  void park_or_retry(Wait wait, uint64_t epoch, std::span<char> scratch);
  void open_upload(std::span<char> scratch);
  void take_upload(std::span<char> scratch);
  bool feed_upload(std::span<char> scratch, std::string_view bytes);
  void answer(Response response, std::span<char> scratch);
  void report(Sent sent);
  void small_file_to_body();
  template <class F>
  auto call(F&& handler) -> decltype(handler());

  Service& service_;
  Loop& loop_;
  Watch watch_;
  const Peer peer_;
  const Slot slot_;
  std::unique_ptr<TlsSession> tls_;
  const std::function<void(Connection&)> closed_;

  State state_ = State::idle;
  SteadyTime deadline_ = SteadyTime::max();
  size_t discarded_ = 0;
  // A callback for readability is under way. Written by the loop, read by a worker that parks.
  std::atomic<bool> watching_{false};

  Step step_ = Step::handle;
  SteadyTime queued_{};  // When a worker was asked for the request.
  std::string in_;       // Bytes read and not yet understood.
  std::unique_ptr<Parser> parser_;
  Request request_;
  const Route* route_ = nullptr;
  std::optional<Upload> upload_;
  Status upload_status_;
  BodyMemory body_memory_;  // Of request_.body.
  bool body_too_big_ = false;
  bool body_memory_full_ = false;
  bool http11_ = true;
  bool close_ = false;        // After this answer.
  bool body_unread_ = false;  // The client may still be sending: see lingering.

  Response response_;
  std::string head_;
  uint64_t sent_ = 0;  // Of head and body.
};

}  // namespace trainyard::http
