#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"

namespace trainyard::http {

enum class Method { get, head, put, post, patch, del };
std::string_view to_string(Method method);

// Header names are lower-case.
using Headers = std::map<std::string, std::string, std::less<>>;
using Query = std::map<std::string, std::string, std::less<>>;

std::string encode_url(std::string_view text);  // Percent-encodes a path segment or value.
Result<std::string> decode_url(std::string_view text);
// "/a/b?x=1&y=%20" -> path "/a/b" (still encoded) and the decoded query.
struct Target {
  std::string path;
  Query query;
};
Result<Target> parse_target(std::string_view target);

// Who is at the other end.
struct Peer {
  bool unix_socket = false;
  unsigned uid = 0;     // Of the process, over the Unix socket.
  std::string address;  // "127.0.0.1:51234", over TCP.
};

// A request as a handler sees it.
struct Request {
  Method method = Method::get;
  std::string path;  // Decoded.
  Query query;       // Decoded; the last of several equal keys.
  Headers headers;
  Query params;      // What {name} in the route's pattern matched, decoded.
  std::string body;  // Empty for a route with a sink.
  Peer peer;
  SteadyTime arrived{};
  // True once the client has closed its end: what takes long asks now and then, and gives up. Set
  // for handlers; one system call.
  std::function<bool()> client_left = {};

  std::string_view header(std::string_view name) const;  // Empty when absent.
  std::string_view param(std::string_view name) const;   // Must be in the pattern.
  std::string_view query_or(std::string_view name, std::string_view otherwise) const;
};

// Part of a file as a body; read in pieces as the client takes it.
struct FileBody {
  Fd fd;
  uint64_t offset = 0;
  uint64_t size = 0;
};

// A handler that has nothing to say yet: the connection is parked without a thread, and the handler
// is called again when `key` is notified or `until` has come. A client that closes its end
// meanwhile is taken to be gone.
struct Wait {
  std::string key;
  SteadyTime until{};
};

struct Response {
  int status = 200;
  Headers headers;
  std::string body;
  std::optional<FileBody> file;
  std::optional<Wait> wait;

  static Response json(std::string body, int status = 200);
  static Response text(std::string body, int status = 200);
  static Response parked(std::string key, SteadyTime until);
};

// Takes a request's body piece by piece, so that its size costs no memory. Called on a worker.
class BodySink {
 public:
  virtual ~BodySink() = default;
  virtual Status write(std::string_view bytes) = 0;
};

}  // namespace trainyard::http
