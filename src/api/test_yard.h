#pragma once

#include <doctest/doctest.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "api/errors.h"
#include "api/policy.h"
#include "api/route.h"
#include "base/fake_clock.h"
#include "http/client.h"
#include "snapshot/tree.h"
#include "wire/urls.h"

// For the tests of this room: a server with everything real but the engine.
namespace trainyard::api {

// Places whatever it is given, and then does nothing.
class StillEngine : public engine::Engine {
 public:
  explicit StillEngine(int cpus = 2) : cpus_(cpus) {}
  engine::Capacity capacity() const override { return {.cpus = cpus_, .memory_bytes = 8LL << 30}; }
  Status place(const Assignment& assignment) override {
    placed_.with([&](auto& placed) { placed[assignment.run] = assignment; });
    return {};
  }
  Status recover(const AttemptId&) override { return {}; }
  engine::Placement inspect(const AttemptId&) override { return engine::Placement::live; }
  Status kill(const AttemptId&) override { return {}; }
  Status release(const AttemptId&) override { return {}; }
  void on_gone(Gone) override {}

  Assignment assignment(const RunId& run) {
    return placed_.with([&](auto& placed) { return placed[run.value]; });
  }

 private:
  const int cpus_;
  Guarded<std::map<std::string, Assignment>> placed_;
};

class Yard {
 public:
  explicit Yard(Facts facts = {}, int cpus = 2) : home(dir.path() / "home"), engine(cpus) {
    REQUIRE(prepare_home(home).has_value());
    store = store::Store::open(home.database(), clock, {.sync = false}).value();
    blobs = blob::open_folder(home.blobs(), home.tmp()).value();
    logs = std::make_unique<logs::LogStore>(home);
    house = std::make_unique<House>(House::Parts{
        .clock = clock, .log = log, .home = home, .store = *store, .blobs = *blobs, .logs = *logs});
    add_routes(router, *house);
    const auto on_error = [](int status, const Error& error) {
      return error_response(status, error);
    };
    server =
        http::Server::start({.unix_socket = home.socket()}, router, clock, log, on_error).value();
    control = control::Control::create(
        {.clock = clock,
         .store = *store,
         .engine = engine,
         .log = log,
         .addresses = {.socket = home.socket(), .url = "http://yard", .blobs = home.blobs()},
         .snapshot_check = [this](std::string_view id) { return house->trees.check_whole(id); },
         .merge_outputs = [this](const auto& outputs) { return house->trees.merge(outputs); },
         .environment_rules = {.check =
                                   [this](Environment& environment,
                                          const control::EnvironmentUse& use) {
                                     return check_environment(*store, use, environment);
                                   }},
         .changed = [this](const RunId& run) { house->run_changed(run); }});
    facts.url = "http://yard";
    facts.socket = home.socket();
    facts.pid = 1;
    house->open(*control, *server, std::move(facts), [this] { ++stops; });
  }
  ~Yard() {
    house->stop_waiting();
    server->stop();
    control.reset();
  }

  http::Client over_socket(std::string token = {}) const {
    http::Address address;
    address.unix_socket = home.socket();
    return {std::move(address), std::move(token)};
  }
  http::Client over_tcp(std::string token = {}) const {
    return {{.host = "127.0.0.1", .port = server->port()}, std::move(token)};
  }
  std::string token_of(std::string_view user, Role role) {
    [[maybe_unused]] const auto made = store->create_user(user, role);
    return store->create_token(user, "test", {}).value().secret;
  }

  // A run of `sleep` by the owner of the socket; it waits for the next tick.
  RunId submit(const std::string& id, int processes = 1) {
    RunSpec spec;
    spec.experiment = "tests";
    spec.command = {"sleep", "1000"};
    spec.processes_per_node = processes;
    REQUIRE(control->submit({RunId{id}, spec, "owner"}).has_value());
    return RunId{id};
  }
  // The same, placed: its attempt's token.
  std::string place(const RunId& run) {
    control->tick();
    const Assignment assignment = engine.assignment(run);
    REQUIRE_FALSE(assignment.token.empty());
    return assignment.token;
  }
  void finish(const RunId& run, int64_t seq = 1, int exit_code = 0) {
    Report report{.seq = seq, .kind = ReportKind::ended};
    report.end.exit_code = exit_code;
    report.end.ranks_started = true;
    const AttemptId attempt{run, control->run(run).value().life.attempt};
    REQUIRE(control->report({attempt}, {&report, 1}).has_value());
  }

  TempDir dir;
  Home home;
  MonotoneClock clock;
  NullLog log;
  StillEngine engine;
  std::unique_ptr<store::Store> store;
  std::unique_ptr<blob::Store> blobs;
  std::unique_ptr<logs::LogStore> logs;
  std::unique_ptr<House> house;
  http::Router router;
  std::unique_ptr<http::Server> server;
  std::unique_ptr<control::Control> control;
  std::atomic<int> stops = 0;
};

inline http::Response send(http::Client& client, http::Method method, std::string target,
                           std::string body = {}, http::Headers headers = {}) {
  http::ClientRequest request{.method = method, .target = std::move(target)};
  request.headers = std::move(headers);
  request.body = std::move(body);
  Result<http::Response> response = client.send(request);
  REQUIRE_MESSAGE(response.has_value(), response.error().message);
  return *std::move(response);
}

inline http::Response fetch(http::Client& client, std::string target) {
  return send(client, http::Method::get, std::move(target));
}

inline Json json_of(const http::Response& response) {
  Result<Json> json = wire::parse(response.body);
  REQUIRE_MESSAGE(json.has_value(), response.body);
  return *std::move(json);
}

inline std::string frame(char stream, std::string_view bytes) {
  return wire::console_head(stream, static_cast<uint32_t>(bytes.size())).append(bytes);
}

}  // namespace trainyard::api
