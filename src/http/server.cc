#include "http/server.h"

#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/check.h"
#include "base/guarded.h"
#include "http/connection.h"
#include "http/loop.h"
#include "http/socket.h"

namespace trainyard::http {

namespace {

constexpr milliseconds kTick{100};         // How exact deadlines are.
constexpr milliseconds kAcceptPause{100};  // When descriptors or memory have run out.
constexpr int kAcceptBatch = 64;           // Then those who are connected have their turn.
constexpr seconds kStopMax{5};
constexpr size_t kReservedMax = 1024;  // Connections kept for the Unix socket.
constexpr size_t kHealthMax = 64;      // Of these: over TCP, for reserved routes alone.

// A loop, its thread and the connections that live on it.
struct Floor {
  Loop loop;
  std::unordered_set<std::shared_ptr<Connection>> connections;
  bool ticking = false;
  std::jthread thread;
};

struct Listener {
  Listener(Loop& loop, Fd fd, bool on_unix) : watch(loop, std::move(fd)), unix_socket(on_unix) {}

  Watch watch;
  const bool unix_socket;
};

// A new connection on the way to its loop.
struct Arrival {
  Accepted accepted;
  std::unique_ptr<TlsSession> tls;
  Slot slot = Slot::usual;
};

// Who holds how many connections. Thread-safe.
class Slots {
 public:
  explicit Slots(const ServerOptions& options)
      : max_(options.connections_max),
        reserved_(std::min(kReservedMax, max_ / 4)),
        health_(std::min(kHealthMax, reserved_ / 4)),
        per_network_max_(options.connections_per_address_max > 0
                             ? options.connections_per_address_max
                             : std::max<size_t>(1, max_ / 2)) {}

  // Nothing: there is no room for it.
  std::optional<Slot> take(const Accepted& accepted) {
    return held_.with([&](Held& held) -> std::optional<Slot> {
      if (held.all >= max_) return std::nullopt;
      if (accepted.peer.unix_socket) {
        ++held.all;
        return Slot::usual;
      }
      if (held.tcp >= max_ - reserved_ + health_) return std::nullopt;
      size_t& of_network = held.networks[accepted.network];
      if (of_network >= per_network_max_) return std::nullopt;
      ++of_network;
      ++held.all;
      return held.tcp++ < max_ - reserved_ ? Slot::usual : Slot::reserved;
    });
  }
  void give_back(bool unix_socket, const std::string& network) {
    held_.with([&](Held& held) {
      --held.all;
      if (unix_socket) return;
      --held.tcp;
      const auto found = held.networks.find(network);
      if (--found->second == 0) held.networks.erase(found);
    });
  }

 private:
  struct Held {
    size_t all = 0;
    size_t tcp = 0;
    std::unordered_map<std::string, size_t> networks;
  };

  const size_t max_;
  const size_t reserved_;
  const size_t health_;
  const size_t per_network_max_;
  Guarded<Held> held_;
};

class LoopServer final : public Server {
 public:
  LoopServer(ServerOptions options, const Router& router, Clock& clock, Log& log,
             ErrorAnswer answer_error, std::unique_ptr<Certificate> certificate)
      : service_(std::move(options), router, clock, log, std::move(answer_error)),
        slots_(service_.options),
        certificate_(std::move(certificate)) {
    for (int i = 0; i < std::max(1, service_.options.io_threads); ++i) {
      floors_.push_back(std::make_unique<Floor>());
    }
  }
  ~LoopServer() override { LoopServer::stop(); }

  void add_listener(Fd fd, bool unix_socket);
  void run(uint16_t port);

  uint16_t port() const override { return port_; }
  void notify(std::string_view key) override { service_.workers.wake(service_.lot.take(key)); }
  void stop() override {
    std::call_once(stopped_, [this] { stop_once(); });
  }
  Counts counts() const override {
    return {.requests = service_.requests.load(),
            .connections_open = service_.connections_open.load(),
            .parked = service_.lot.size(),
            .refused = service_.refused.load()};
  }

 private:
  void accept_from(Listener& listener);
  void welcome(Accepted accepted);
  void adopt(Floor& floor, Arrival arrival);
  void give_up(bool unix_socket, const std::string& network);
  void tick(Floor& floor);
  void stop_once();
  void end_all(void (Connection::*how)());

  Service service_;
  Slots slots_;
  const std::unique_ptr<Certificate> certificate_;  // The first floor's; null: TCP is plain.
  uint16_t port_ = 0;
  std::vector<std::unique_ptr<Floor>> floors_;
  std::vector<std::unique_ptr<Listener>> listeners_;  // On the first floor.
  size_t next_floor_ = 0;
  std::once_flag stopped_;
  std::mutex empty_mutex_;
  std::condition_variable empty_;
};

void LoopServer::add_listener(Fd fd, bool unix_socket) {
  listeners_.push_back(
      std::make_unique<Listener>(floors_.front()->loop, std::move(fd), unix_socket));
}

void LoopServer::run(uint16_t port) {
  port_ = port;
  for (const auto& listener : listeners_) {
    floors_.front()->loop.post([this, one = listener.get()] { accept_from(*one); });
  }
  for (const auto& floor : floors_) {
    floor->thread = std::jthread([this, one = floor.get()] {
      for (;;) {
        try {
          return one->loop.run();
        } catch (const std::exception& error) {
          service_.log.error("connection failed", {{"error", error.what()}});
        }
      }
    });
  }
}

void LoopServer::accept_from(Listener& listener) {
  if (listener.watch.fd() < 0) return;
  const auto again = [this, &listener] { accept_from(listener); };
  for (int i = 0; i < kAcceptBatch; ++i) {
    Result<Accepted> accepted = accept_peer(listener.watch.fd(), listener.unix_socket);
    if (!accepted) {
      service_.log.warn("cannot accept", {{"error", accepted.error().message}});
      return floors_.front()->loop.after(kAcceptPause, again);
    }
    if (!accepted->fd) break;
    welcome(*std::move(accepted));
  }
  listener.watch.when_readable(again);
}

void LoopServer::welcome(Accepted accepted) {
  const std::optional<Slot> slot = slots_.take(accepted);
  if (!slot) {
    ++service_.refused;
    return;
  }
  ++service_.connections_open;
  Arrival arrival{.accepted = std::move(accepted), .tls = {}, .slot = *slot};
  Floor& floor = *floors_[next_floor_++ % floors_.size()];
  if (certificate_ && !arrival.accepted.peer.unix_socket) {
    arrival.tls = certificate_->session(arrival.accepted.fd.get(), service_.log);
    if (!arrival.tls) return give_up(false, arrival.accepted.network);
  }
  // Shared, because a std::function must be copyable; nobody copies it.
  floor.loop.post([this, &floor, one = std::make_shared<Arrival>(std::move(arrival))] {
    adopt(floor, std::move(*one));
  });
}

void LoopServer::give_up(bool unix_socket, const std::string& network) {
  slots_.give_back(unix_socket, network);
  if (--service_.connections_open > 0) return;
  const std::lock_guard lock(empty_mutex_);
  empty_.notify_all();
}

void LoopServer::adopt(Floor& floor, Arrival arrival) {
  std::shared_ptr<Connection> connection;
  const bool unix_socket = arrival.accepted.peer.unix_socket;
  try {
    connection = std::make_shared<Connection>(
        service_, floor.loop, std::move(arrival.accepted.fd), std::move(arrival.accepted.peer),
        arrival.slot, std::move(arrival.tls),
        [this, &floor, unix_socket, network = arrival.accepted.network](Connection& closed) {
          floor.connections.erase(closed.shared_from_this());
          give_up(unix_socket, network);
        });
  } catch (const std::exception& error) {
    service_.log.warn("cannot serve", {{"error", error.what()}});
    return give_up(unix_socket, arrival.accepted.network);
  }
  floor.connections.insert(connection);
  connection->start();
  if (std::exchange(floor.ticking, true)) return;
  floor.loop.after(kTick, [this, &floor] { tick(floor); });
}

void LoopServer::tick(Floor& floor) {
  const SteadyTime now = service_.clock.steady();
  std::vector<std::shared_ptr<Connection>> due;
  for (const auto& connection : floor.connections) {
    if (connection->is_due(now)) due.push_back(connection);
  }
  for (const auto& connection : due) connection->expire();
  service_.workers.wake(service_.lot.take_due(now));
  floor.ticking = !floor.connections.empty();
  if (floor.ticking) floor.loop.after(kTick, [this, &floor] { tick(floor); });
}

void LoopServer::stop_once() {
  service_.stopping = true;
  // While we still listen nobody else takes the name, so it is ours to remove.
  if (!service_.options.unix_socket.empty()) ::unlink(service_.options.unix_socket.c_str());
  floors_.front()->loop.post([this] {
    for (const auto& listener : listeners_) listener->watch.close();
  });
  service_.workers.wake(service_.lot.close());
  end_all(&Connection::stop);
  {
    std::unique_lock lock(empty_mutex_);
    empty_.wait_for(lock, kStopMax, [this] { return service_.connections_open.load() == 0; });
  }
  end_all(&Connection::cut);
  service_.workers.stop();
  for (const auto& floor : floors_) floor->loop.stop();
  for (const auto& floor : floors_) {
    if (floor->thread.joinable()) floor->thread.join();
  }
  listeners_.clear();
  floors_.clear();
}

void LoopServer::end_all(void (Connection::*how)()) {
  for (const auto& floor : floors_) {
    floor->loop.post([one = floor.get(), how] {
      const std::vector<std::shared_ptr<Connection>> all(one->connections.begin(),
                                                         one->connections.end());
      for (const auto& connection : all) (connection.get()->*how)();
    });
  }
}

}  // namespace

Result<std::unique_ptr<Server>> Server::start(ServerOptions options, const Router& router,
                                              Clock& clock, Log& log, ErrorAnswer answer_error) {
  ENSURE(answer_error != nullptr);
  const std::filesystem::path unix_socket = options.unix_socket;
  Fd on_unix;
  Fd on_tcp;
  uint16_t port = 0;
  std::unique_ptr<Certificate> certificate;
  if (options.tls.given()) {
    TRY_SET(certificate, Certificate::load(options.tls));
  }
  // TCP first: where its port is taken, the socket's file is not touched.
  if (options.tcp) {
    TRY_SET(on_tcp, listen_tcp(options.host, options.port));
    TRY_SET(port, port_of(on_tcp.get()));
  }
  if (!unix_socket.empty()) {
    TRY_SET(on_unix, listen_unix(unix_socket));
  }
  try {
    auto server = std::make_unique<LoopServer>(std::move(options), router, clock, log,
                                               std::move(answer_error), std::move(certificate));
    if (on_unix) server->add_listener(std::move(on_unix), true);
    if (on_tcp) server->add_listener(std::move(on_tcp), false);
    server->run(port);
    return server;
  } catch (const std::exception& error) {
    return fail(ErrorKind::unavailable, std::string("start the server: ") + error.what());
  }
}

}  // namespace trainyard::http
