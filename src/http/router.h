#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "http/message.h"

namespace trainyard::http {

// A handler is an ordinary synchronous function on a worker thread; it may block on disk and
// database, never on the network or for long (answer Response::parked instead).
using Handler = std::function<Response(const Request&)>;

// For bodies of any size: `open` is called when the headers are in (it may refuse), then the sink
// gets the pieces, then `finish` makes the answer. `finish` is not called if the client went away.
struct Upload {
  std::unique_ptr<BodySink> sink;
  std::function<Response(const Request&)> finish;
};
using UploadHandler = std::function<std::variant<Upload, Response>(const Request&)>;

// Decides by the headers alone whether the body is to be read; an answer refuses it. On a worker.
using Admission = std::function<std::optional<Response>(const Request&)>;

struct Route {
  Method method = Method::get;
  std::string pattern;  // "/runs/{id}/files/{path...}": {x...} takes the rest, slashes and all.
  Handler handler;      // One of the two. A GET's answers HEAD too, unless that has its own route.
  UploadHandler upload;
  size_t body_max = 1024 * 1024;  // Of `handler`; more is answered 413 without being read.
  Admission admit = {};           // Of `handler`; empty: every body is read.
  bool reserved = false;          // Answered even where all connections are taken.
};

// The routes, matched by path and method. Built once, then read by many threads.
class Router {
 public:
  void add(Route route);

  struct Match {
    const Route* route = nullptr;
    Query params;
    bool path_known = false;  // With no route: 405 instead of 404.
  };
  Match find(Method method, std::string_view encoded_path) const;

 private:
  struct Entry {
    std::vector<std::string> parts;
    Route route;
  };
  std::vector<Entry> entries_;
};

}  // namespace trainyard::http
