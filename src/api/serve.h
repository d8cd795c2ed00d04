#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "api/build_runs.h"
#include "api/collector.h"
#include "api/environments.h"
#include "api/gate.h"
#include "api/house.h"
#include "api/listen.h"
#include "api/lock.h"
#include "api/machines.h"
#include "api/targets.h"
#include "base/home.h"
#include "container/image_digest.h"
#include "container/image_tags.h"
#include "engine/engine.h"
#include "http/certificate.h"
#include "http/router.h"

namespace trainyard::api {

struct ServeOptions {
  Home home;
  std::string listen = "127.0.0.1:0";  // Port 0: the one of the last time, else any.
  http::TlsFiles tls;                  // For TCP; none: plain.
  bool insecure = false;               // Listen beyond loopback without TLS.
  bool allow_server_target = false;    // This machine is a target even then.
  std::string advertise;               // The URL others see, where it is not the one we listen on.
  int ready_fd = -1;                   // Gets "ok\n", or an error as a line of JSON; then closed.
  uint64_t environments_bytes_max = 50'000'000'000;  // Of realised ones; 0: no limit.
  std::vector<std::string> interpreters;  // Paths of Pythons that recipes of any role may name.
  CollectorOptions collection;
  size_t connections_per_address_max = 0;  // http::ServerOptions has what 0 means.
  fs::path binary;                         // What supervisors are started from; empty: ourselves.
  // Gets what is worth a word to who starts it, before it is ready; empty: nobody.
  std::function<void(const std::string&)> warn;
  // Another engine, for tests; empty: the local one.
  std::function<Result<std::unique_ptr<engine::Engine>>(Clock&, Log&)> make_engine;
};

// A server at work: its home locked, its parts alive. Its end leaves runs running.
class Serving {
 public:
  static Result<std::unique_ptr<Serving>> start(const ServeOptions& options);
  ~Serving();

  const Facts& facts() const { return house_->facts; }
  // Readable once somebody asked for the end over the API.
  int stop_fd() const { return stop_fd_.get(); }
  // Takes no more requests, answers those under way; then all threads end and the lock is free.
  void stop();

 private:
  explicit Serving(const ServeOptions& options);
  Status prepare();
  Status open_parts();
  Status start_http(const Listen& listen);
  void open_environments();
  static bool is_admin(store::Store& store, const std::string& user);
  Status start_control();
  Status settle_environment(std::string_view workspace, Environment& environment, SteadyTime asked);

  const ServeOptions options_;
  Fd stop_fd_;
  std::unique_ptr<HomeLock> lock_;
  std::unique_ptr<Clock> clock_;
  std::unique_ptr<Log> log_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<blob::Store> blobs_;
  std::unique_ptr<logs::LogStore> logs_;
  std::unique_ptr<House> house_;
  http::Router router_;
  std::unique_ptr<http::Server> server_;
  std::unique_ptr<Environments> environments_;
  std::unique_ptr<container::ImageDigests> image_digests_;
  std::unique_ptr<container::ImageTags> image_tags_;
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<control::Control> control_;
  std::unique_ptr<Targets> targets_;
  std::unique_ptr<Machines> machines_;
  std::unique_ptr<BuildRuns> build_runs_;
  std::unique_ptr<Gate> gate_;
  std::unique_ptr<Collector> collector_;
  std::jthread control_thread_;
};

// Serves until SIGTERM, SIGINT, SIGHUP or POST server/stop. An error means that it never began.
Status serve(const ServeOptions& options);

}  // namespace trainyard::api
