#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/process.h"
#include "blob/pack.h"
#include "http/test_server.h"
#include "model/assignment.h"
#include "snapshot/capture.h"
#include "wire/json.h"
#include "wire/urls.h"

// What the supervisor's tests have in common.
namespace trainyard::supervisor {

// The attempt's routes of a server, on a Unix socket, with places to put faults.
class FakeServer {
 public:
  struct File {
    std::string bytes;
    int resets = 0;
  };
  struct Seen {
    std::vector<Report> reports;
    std::map<int, std::string> console;  // Per rank.
    std::map<int, std::string> streams;  // Per rank, an 'o' or 'e' for each byte.
    std::map<std::string, File> files;
    std::map<int, std::string> records;  // Per rank.
    int requests = 0;
    int report_requests = 0;
    int console_requests = 0;
  };

  FakeServer() { add_routes(); }

  TempDir dir;
  fs::path socket = dir.path() / "socket";
  fs::path blobs = dir.path() / "blobs";
  std::unique_ptr<blob::Store> store = blob::open_folder(blobs, dir.path() / "tmp").value();
  std::atomic<bool> cancel{false};
  std::atomic<int> refuse_reports{0};  // An HTTP status; 0: none.
  std::atomic<int> refuse_console{0};
  std::atomic<int> refuse_blobs{0};
  std::atomic<int> refuse_secrets{0};
  std::map<std::string, std::string> secrets;  // Set before start().
  std::map<std::string, std::string> logs;     // Of an attempt before; set before start().

  void start() {
    http::ServerOptions options;
    options.unix_socket = socket;
    options.tcp = false;
    auto started =
        http::Server::start(options, router_, clock_, log_, [](int status, const Error& e) {
          return http::Response::json(wire::dump(wire::error_to_json(e)), status);
        });
    REQUIRE(started);
    server_ = *std::move(started);
  }
  void stop() {
    server_->stop();
    server_.reset();
  }
  void order_cancel() {
    cancel = true;
    server_->notify("orders");
  }

  Seen seen() {
    std::lock_guard lock(mutex_);
    return seen_;
  }
  bool saw(ReportKind kind) {
    const Seen now = seen();
    return std::any_of(now.reports.begin(), now.reports.end(),
                       [&](const Report& report) { return report.kind == kind; });
  }
  std::string console(int rank = 0) {
    std::lock_guard lock(mutex_);
    return seen_.console[rank];
  }
  AttemptEnd end() {
    const Seen now = seen();
    REQUIRE_FALSE(now.reports.empty());
    REQUIRE(now.reports.back().kind == ReportKind::ended);
    return now.reports.back().end;
  }

 private:
  static http::Response refusal(int status) {
    const Error error{status == 409   ? ErrorKind::conflict
                      : status == 507 ? ErrorKind::no_space
                      : status == 403 ? ErrorKind::denied
                                      : ErrorKind::unavailable,
                      "refused by the test",
                      {}};
    return http::Response::json(wire::dump(wire::error_to_json(error)), status);
  }
  static http::Response size_answer(size_t size) {
    return http::Response::json("{\"size\":" + std::to_string(size) + "}");
  }

  void on(http::Method method, std::string pattern, http::Handler handler) {
    http::Route route;
    route.method = method;
    route.pattern = std::move(pattern);
    route.handler = std::move(handler);
    route.body_max = 8 << 20;
    router_.add(std::move(route));
  }
  void add_routes();
  http::Response take_reports(const http::Request& request);
  http::Response take_console(const http::Request& request);
  http::Response take_file(const http::Request& request);
  http::Response take_records(const http::Request& request);

  MonotoneClock clock_;
  NullLog log_;
  http::Router router_;
  std::mutex mutex_;
  Seen seen_;
  std::unique_ptr<http::Server> server_;
};

inline void FakeServer::add_routes() {
  using http::Request;
  const std::string attempt = "/api/v1/runs/{id}/attempts/{n}";
  on(http::Method::post, attempt + "/reports",
     [this](const Request& r) { return take_reports(r); });
  on(http::Method::get, attempt + "/orders", [this](const Request& request) {
    const SteadyTime until =
        request.arrived + seconds(std::stol(std::string(request.query_or("wait", "0"))));
    if (!cancel && clock_.steady() < until) return http::Response::parked("orders", until);
    return http::Response::json(wire::dump(wire::encode(Orders{0, cancel})));
  });
  on(http::Method::post, attempt + "/console/{rank}",
     [this](const Request& r) { return take_console(r); });
  on(http::Method::post, attempt + "/files", [this](const Request& r) { return take_file(r); });
  on(http::Method::post, attempt + "/records/{rank}",
     [this](const Request& r) { return take_records(r); });
  on(http::Method::get, attempt + "/secrets", [this](const Request&) {
    if (refuse_secrets != 0) return refusal(refuse_secrets);
    wire::Json values = wire::Json::object();
    for (const auto& [name, value] : secrets) values[name] = value;
    return http::Response::json(wire::dump({{"secrets", values}}));
  });
  on(http::Method::get, "/api/v1/runs/{id}/files", [this](const Request&) {
    wire::Json items = wire::Json::array();
    for (const auto& [path, bytes] : logs) {
      items.push_back({{"path", path}, {"kind", "log"}, {"size", bytes.size()}});
    }
    return http::Response::json(wire::dump({{"items", items}, {"next", nullptr}}));
  });
  on(http::Method::get, "/api/v1/runs/{id}/files/{path...}", [this](const Request& request) {
    const std::string& bytes = logs.at(std::string(request.param("path")));
    const auto from = std::stoull(std::string(request.query_or("from", "0")));
    http::Response response = http::Response::text(bytes.substr(from));
    response.headers["x-next"] = std::to_string(bytes.size());
    response.headers["x-final"] = "0";
    return response;
  });
  on(http::Method::post, "/api/v1/blobs/missing", [this](const Request& request) {
    if (refuse_blobs != 0) return refusal(refuse_blobs);
    wire::Json missing = wire::Json::array();
    const wire::Json body = wire::parse(request.body).value();
    for (const auto& item : body["digests"]) {
      if (!store->has(Digest::from_hex(item.get<std::string>()).value())) missing.push_back(item);
    }
    return http::Response::json(wire::dump({{"missing", missing}}));
  });
  on(http::Method::post, "/api/v1/blobs", [this](const Request& request) {
    blob::PackReader reader(*store);
    REQUIRE(reader.write(request.body));
    const auto outcome = reader.finish().value();
    return http::Response::json(wire::dump({{"kept", outcome.kept}, {"bad", wire::Json::array()}}));
  });
  on(http::Method::get, "/api/v1/blobs/{digest}", [this](const Request& request) {
    Result<Fd> fd = store->open(Digest::from_hex(request.param("digest")).value());
    if (!fd) return http::Response::json(wire::dump(wire::error_to_json(fd.error())), 404);
    http::Response response;
    const uint64_t size = file_size(fd->get(), "blob").value();
    response.file = http::FileBody{*std::move(fd), 0, size};
    return response;
  });
}

inline http::Response FakeServer::take_reports(const http::Request& request) {
  if (refuse_reports != 0) return refusal(refuse_reports);
  std::lock_guard lock(mutex_);
  ++seen_.requests;
  ++seen_.report_requests;
  const wire::Json body = wire::parse(request.body).value();
  for (const auto& item : body["reports"]) {
    const Report report = wire::decode_report(item).value();
    const int64_t last = seen_.reports.empty() ? 0 : seen_.reports.back().seq;
    if (report.seq > last) seen_.reports.push_back(report);
  }
  const int64_t last = seen_.reports.empty() ? 0 : seen_.reports.back().seq;
  return http::Response::json(wire::dump(wire::encode(Orders{last, cancel})));
}

inline http::Response FakeServer::take_console(const http::Request& request) {
  if (refuse_console != 0) return refusal(refuse_console);
  std::lock_guard lock(mutex_);
  ++seen_.requests;
  ++seen_.console_requests;
  const int rank = std::stoi(std::string(request.param("rank")));
  uint64_t at = std::stoull(std::string(request.query_or("from", "0")));
  std::string& console = seen_.console[rank];
  std::string_view body = request.body;
  while (!body.empty() && at <= console.size()) {
    const wire::ConsoleHead head = wire::parse_console_head(body.data());
    const std::string_view bytes = body.substr(wire::kConsoleHeadSize, head.size);
    const size_t known = std::min<size_t>(console.size() - at, bytes.size());
    console.append(bytes.substr(known));
    seen_.streams[rank].append(bytes.size() - known, head.stream);
    at += bytes.size();
    body.remove_prefix(wire::kConsoleHeadSize + head.size);
  }
  return size_answer(console.size());
}

inline http::Response FakeServer::take_file(const http::Request& request) {
  std::lock_guard lock(mutex_);
  ++seen_.requests;
  File& file = seen_.files[std::string(request.query_or("path", ""))];
  if (request.query_or("reset", "0") == "1") {
    file.bytes.clear();
    ++file.resets;
  }
  const uint64_t from = std::stoull(std::string(request.query_or("from", "0")));
  if (from <= file.bytes.size()) {
    file.bytes.resize(from);
    file.bytes.append(request.body);
  }
  return size_answer(file.bytes.size());
}

// As the server does: whole lines, by their offset, each once.
inline http::Response FakeServer::take_records(const http::Request& request) {
  std::lock_guard lock(mutex_);
  ++seen_.requests;
  std::string& records = seen_.records[std::stoi(std::string(request.param("rank")))];
  const uint64_t from = std::stoull(std::string(request.query_or("from", "0")));
  if (from <= records.size() && from + request.body.size() > records.size()) {
    const std::string_view fresh = std::string_view(request.body).substr(records.size() - from);
    records.append(fresh.substr(0, fresh.rfind('\n') + 1));
  }
  return size_answer(records.size());
}

// An attempt's folder, and supervisors in it as processes of their own: this test program again,
// with one hidden test case (supervise_test.cc) that only calls supervise().
class Yard {
 public:
  Yard() {
    assignment.run = "brisk-otter-test";
    assignment.token = "tya_test";
    assignment.server_socket = server.socket;
    assignment.server_url = "http://127.0.0.1:1";
    assignment.spec.experiment = "tests";
    assignment.spec.grace_s = 30;
    assignment.spec.submit_environment = {{"PATH", "/usr/bin:/bin"}};
  }
  ~Yard() {
    if (child.pid > 0) kill_supervisor();
  }

  FakeServer server;
  TempDir dir;
  fs::path folder = dir.path() / "brisk-otter-test.1";
  Assignment assignment;
  Child child;
  std::string isolation;  // TRAINYARD_ISOLATION

  void shell(const std::string& script) { assignment.spec.command = {"sh", "-c", script}; }
  // The code: this file alone.
  void code(const std::string& name, std::string_view text) {
    const fs::path source = dir.path() / "code";
    REQUIRE(make_dirs(source));
    REQUIRE(write_file(source / name, text, 0755));
    const snapshot::Captured captured = snapshot::capture(source, {}).value();
    for (const snapshot::Entry& entry : captured.tree.entries) {
      REQUIRE(server.store->put(entry.digest, read_file(source / entry.path).value()));
    }
    REQUIRE(server.store->put(captured.id, captured.text));
    REQUIRE(server.store->sync());
    assignment.spec.snapshot = captured.id.hex();
  }

  void launch() {
    REQUIRE(make_dirs(folder));
    REQUIRE(write_file(folder / "assignment.json", wire::dump(wire::encode(assignment)), 0600));
    start_supervisor();
  }
  void start_supervisor() {
    SpawnOptions options;
    options.command = {self_path().value().string(), "--no-skip", "-tc=carry an attempt"};
    options.environment = {{"TEST_FOLDER", folder.string()}, {"PATH", "/usr/bin:/bin"}};
    if (!isolation.empty()) (*options.environment)["TRAINYARD_ISOLATION"] = isolation;
    options.new_session = true;
    child = spawn(options).value();
  }
  // Its exit code, 128+N for signal N.
  int wait() {
    pollfd ended{child.pidfd.get(), POLLIN, 0};
    REQUIRE_MESSAGE(poll(&ended, 1, 60'000) > 0, "the supervisor does not end");
    int status = 0;
    waitpid(child.pid, &status, 0);
    child.pid = 0;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
  void kill_supervisor() {
    ::kill(child.pid, SIGKILL);
    wait();
  }
  // From start to end.
  int carry() {
    server.start();
    launch();
    return wait();
  }
};

// A fifo in the ranks' folder would be removed with it; this one lies beside.
struct Alive {
  fs::path path;
  Fd fd;
  explicit Alive(const fs::path& folder) : path(folder / "alive") {
    REQUIRE(mkfifo(path.c_str(), 0600) == 0);
    fd = open_file(path, O_RDWR | O_NONBLOCK).value();
  }
  // A child, and a daemon that left session and parents behind, both holding the fifo.
  std::string daemons() const {
    const std::string hold = "exec 3>" + path.string() + "; printf x >&3; exec sleep 1000";
    return "(setsid sh -c '(" + hold + ") &' &); sh -c '" + hold + "' & ";
  }
  void wait_for_both() {
    std::string text;
    while (text.size() < 2) {
      pollfd polled{fd.get(), POLLIN, 0};
      REQUIRE(poll(&polled, 1, 20'000) > 0);
      char byte = 0;
      if (read(fd.get(), &byte, 1) == 1) text += byte;
    }
    Fd reader = open_file(path, O_RDONLY | O_NONBLOCK).value();
    fd = std::move(reader);
  }
  bool gone_within(int ms) {
    pollfd polled{fd.get(), 0, 0};
    return poll(&polled, 1, ms) > 0 && (polled.revents & POLLHUP) != 0;
  }
};

}  // namespace trainyard::supervisor
