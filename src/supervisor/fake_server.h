#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "blob/pack.h"
#include "http/test_server.h"
#include "model/report.h"
#include "wire/json.h"
#include "wire/urls.h"

namespace trainyard::supervisor {

// The attempt's routes of a server, on a Unix socket, with places to put faults.
class FakeServer {
 public:
  struct File {
    std::string bytes;
    int resets = 0;
  };
  struct Seen {
    std::vector<Report> reports;  // Of the first node.
    std::map<int, std::vector<Report>> of_node;
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
  std::atomic<bool> ignore_reports{false};  // Answers, and takes none.
  std::atomic<int> epoch{1};                // Orders::epoch.
  // As a server that was started again and has lost part of what it had.
  void lose(size_t reports, size_t console, size_t records) {
    std::lock_guard lock(mutex_);
    seen_.of_node[0].resize(std::min(seen_.of_node[0].size(), reports));
    seen_.console[0].resize(std::min(seen_.console[0].size(), console));
    seen_.streams[0].resize(std::min(seen_.streams[0].size(), console));
    seen_.records[0].resize(std::min(seen_.records[0].size(), records));
    for (auto& [path, file] : seen_.files) file.bytes.resize(file.bytes.size() / 2);
    ++epoch;
  }
  std::atomic<int> nodes{1};           // They may go when so many are ready,
  std::atomic<bool> hold{false};       // and this is not set.
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
  void let_go() {
    hold = false;
    server_->notify("orders");
  }

  Seen seen() {
    std::lock_guard lock(mutex_);
    Seen now = seen_;
    now.reports = now.of_node[0];
    return now;
  }
  bool saw(ReportKind kind, int node = 0) {
    const std::vector<Report> reports = seen().of_node[node];
    return std::any_of(reports.begin(), reports.end(),
                       [&](const Report& report) { return report.kind == kind; });
  }
  std::string console(int rank = 0) {
    std::lock_guard lock(mutex_);
    return seen_.console[rank];
  }
  AttemptEnd end(int node = 0) {
    const std::vector<Report> reports = seen().of_node[node];
    REQUIRE_FALSE(reports.empty());
    REQUIRE(reports.back().kind == ReportKind::ended);
    return reports.back().end;
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
  Orders orders_of(int node);
  http::Response wait_for_orders(const http::Request& request);
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
  on(http::Method::get, attempt + "/orders",
     [this](const Request& r) { return wait_for_orders(r); });
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

// To be called with mutex_ held.
inline Orders FakeServer::orders_of(int node) {
  Orders orders;
  orders.cancel = cancel;
  for (int each = 0; each < nodes; ++each) {
    for (const Report& report : seen_.of_node[each]) {
      if (report.kind == ReportKind::ready) orders.hosts.push_back(report.host);
      if (report.kind == ReportKind::rank_failed && each != node) {
        orders.stop = "rank " + std::to_string(report.exit.rank) + " failed";
      }
      const bool failed = report.end.exit_code != 0 && report.end.cause != EndCause::peer_failed;
      if (report.kind == ReportKind::ended && failed && each != node && orders.stop.empty()) {
        orders.stop = "node " + std::to_string(each) + ": " + report.end.error;
      }
    }
  }
  orders.done = std::all_of(seen_.of_node.begin(), seen_.of_node.end(), [](const auto& each) {
    return std::any_of(each.second.begin(), each.second.end(), [](const Report& report) {
      return report.kind == ReportKind::finalizing || report.kind == ReportKind::ended;
    });
  });
  orders.go = !hold && nodes > 1 && orders.hosts.size() == static_cast<size_t>(nodes);
  if (!orders.go) orders.hosts.clear();
  const std::vector<Report>& reports = seen_.of_node[node];
  orders.seq_acknowledged = reports.empty() ? 0 : reports.back().seq;
  orders.epoch = std::to_string(epoch);
  return orders;
}

inline http::Response FakeServer::wait_for_orders(const http::Request& request) {
  std::lock_guard lock(mutex_);
  const Orders orders = orders_of(std::stoi(std::string(request.query_or("node", "0"))));
  const SteadyTime until =
      request.arrived + seconds(std::stol(std::string(request.query_or("wait", "0"))));
  const auto fresh = [&](const char* name, bool set) {
    return set && request.query_or(name, "0") == "0";
  };
  const bool news = fresh("cancel", orders.cancel) || fresh("go", orders.go) ||
                    fresh("stop", !orders.stop.empty()) || fresh("done", orders.done);
  if (!news && clock_.steady() < until) return http::Response::parked("orders", until);
  return http::Response::json(wire::dump(wire::encode(orders)));
}

inline http::Response FakeServer::take_reports(const http::Request& request) {
  if (refuse_reports != 0) return refusal(refuse_reports);
  Orders orders;
  {
    std::lock_guard lock(mutex_);
    ++seen_.requests;
    ++seen_.report_requests;
    const int node = std::stoi(std::string(request.query_or("node", "0")));
    std::vector<Report>& reports = seen_.of_node[node];
    const wire::Json body = wire::parse(request.body).value();
    for (const auto& item : body["reports"]) {
      const Report report = wire::decode_report(item).value();
      const int64_t last = reports.empty() ? 0 : reports.back().seq;
      const bool ends_elsewhere =
          report.kind == ReportKind::ended && body["epoch"] != std::to_string(epoch);
      if (ignore_reports || ends_elsewhere) continue;
      if (report.seq > last && report.after <= last) reports.push_back(report);
    }
    orders = orders_of(node);
  }
  if (nodes > 1) server_->notify("orders");
  return http::Response::json(wire::dump(wire::encode(orders)));
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

}  // namespace trainyard::supervisor
