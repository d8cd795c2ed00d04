#include "container/engine_api.h"

#include <fmt/format.h>

#include "base/text.h"
#include "container/frames.h"
#include "container/root_tar.h"
#include "container/unpack_tar.h"

namespace trainyard::container {
namespace {

constexpr seconds kAnswerMax{120};                 // A busy disk makes an engine slow.
constexpr auto kNoLimit = std::chrono::years{10};  // For what ends when the container does.

http::ClientRequest request(http::Method method, std::string target) {
  http::ClientRequest made;
  made.method = method;
  made.target = std::move(target);
  made.timeout = kAnswerMax;
  return made;
}

ErrorKind kind_of(int status) {
  switch (status) {
    case 400:
      return ErrorKind::invalid;
    case 401:
    case 403:
      return ErrorKind::denied;
    case 404:
      return ErrorKind::not_found;
    case 409:
      return ErrorKind::conflict;
    default:
      return ErrorKind::unavailable;
  }
}

std::string message_of(const http::Response& response) {
  if (const auto json = wire::parse(response.body); json && json->is_object()) {
    const auto said = wire::string_member(*json, "message");
    if (said && !said->empty()) return *said;
  }
  if (!response.body.empty()) return std::string(trim(response.body));
  return "status " + std::to_string(response.status);
}

std::string of_container(const std::string& id, std::string_view verb = "") {
  return "/containers/" + http::encode_url(id) + (verb.empty() ? "" : "/") + std::string(verb);
}

}  // namespace

EngineApi::EngineApi(EngineAddress address)
    : address_(std::move(address)), client_({.unix_socket = address_.socket}, "") {}

Result<http::Response> EngineApi::ask(http::ClientRequest request, std::string_view doing) {
  request.target = "/v" + address_.api + request.target;
  if (!request.body.empty()) request.headers["content-type"] = "application/json";
  auto answer = client_.send(request);
  if (!answer) return std::unexpected(std::move(answer).error().within(doing));
  // 304: it is so already.
  if (answer->status / 100 == 2 || answer->status == 304) return answer;
  return fail(kind_of(answer->status), fmt::format("{}: {}", doing, message_of(*answer)));
}

Result<std::string> EngineApi::create(const std::string& name, const wire::Json& config) {
  auto asked = request(http::Method::post, "/containers/create?name=" + http::encode_url(name));
  asked.body = wire::dump(config);
  TRY_SET(const http::Response answer, ask(std::move(asked), "make a container"));
  TRY_SET(const wire::Json json, wire::parse(answer.body));
  return wire::string_member(json, "Id");
}

Status EngineApi::attach(const std::string& id, const std::function<void()>& begun,
                         const std::function<Status(int stream, std::string_view)>& take) {
  auto asked = request(http::Method::post, of_container(id, "attach?stream=1&stdout=1&stderr=1"));
  Frames frames(take);
  asked.timeout = kNoLimit;
  asked.begun = [&](int status) {
    if (status / 100 == 2) begun();
  };
  asked.sink = [&](std::string_view bytes) { return frames.put(bytes); };
  TRY(ask(std::move(asked), "follow a container"));
  return {};
}

Result<std::string> EngineApi::read_text(const std::string& id, const std::string& path) {
  const std::string verb = "archive?path=" + http::encode_url(path);
  TRY_SET(const http::Response answer,
          ask(request(http::Method::get, of_container(id, verb)), "read " + path));
  size_t at = 0;
  TarReader tar([&](char* bytes, size_t size) -> Result<size_t> {
    const size_t got = answer.body.copy(bytes, size, at);
    at += got;
    return got;
  });
  TarEntry entry;
  TRY_SET(const bool any, tar.next(entry));
  if (!any || entry.type != TarEntry::Type::file) {
    return fail(ErrorKind::invalid, path + " is no file");
  }
  std::string text;
  for (;;) {
    TRY_SET(const std::string_view piece, tar.piece());
    if (piece.empty()) return text;
    text += piece;
  }
}

Status EngineApi::put_files(const std::string& id, const fs::path& files,
                            const std::string& folder) {
  TRY_SET(RootTar tar, RootTar::open(files));
  const std::string verb = "archive?path=" + http::encode_url(folder);
  auto asked = request(http::Method::put, of_container(id, verb));
  asked.source_size = tar.size();
  asked.headers["content-type"] = "application/x-tar";
  asked.source = [&tar](char* buffer, size_t size) { return tar.read(buffer, size); };
  TRY(ask(std::move(asked), "put files into " + folder));
  return {};
}

Status EngineApi::start(const std::string& id) {
  TRY(ask(request(http::Method::post, of_container(id, "start")), "start a container"));
  return {};
}

Result<int> EngineApi::wait(const std::string& id) {
  auto asked = request(http::Method::post, of_container(id, "wait"));
  asked.timeout = kNoLimit;
  TRY_SET(const http::Response answer, ask(std::move(asked), "wait for a container"));
  TRY_SET(const wire::Json json, wire::parse(answer.body));
  TRY_SET(const int64_t code, wire::int_member(json, "StatusCode"));
  return static_cast<int>(code);
}

Result<EngineApi::State> EngineApi::state(const std::string& id) {
  TRY_SET(const http::Response answer,
          ask(request(http::Method::get, of_container(id, "json")), "look at a container"));
  TRY_SET(const wire::Json json, wire::parse(answer.body));
  const auto found = json.find("State");
  if (found == json.end()) return fail(ErrorKind::unavailable, "the engine tells no state");
  State state;
  TRY_SET(state.running, wire::bool_member(*found, "Running"));
  TRY_SET(const int64_t code, wire::int_member(*found, "ExitCode"));
  state.exit_code = static_cast<int>(code);
  TRY_SET(state.out_of_memory, wire::bool_member(*found, "OOMKilled"));
  TRY_SET(state.error, wire::string_member(*found, "Error"));
  state.pid = wire::int_member(*found, "Pid").value_or(0);
  return state;
}

Status EngineApi::kill(const std::string& id, int signal) {
  const std::string verb = "kill?signal=" + std::to_string(signal);
  const auto done = ask(request(http::Method::post, of_container(id, verb)), "signal a container");
  if (done) return {};
  const ErrorKind kind = done.error().kind;
  // podman says "can only kill running containers" by 409 or 500.
  if (kind == ErrorKind::not_found || kind == ErrorKind::conflict) return {};
  const auto now = state(id);
  if (now && !now->running) return {};
  return std::unexpected(done.error());
}

Status EngineApi::remove(const std::string& id) {
  const auto done =
      ask(request(http::Method::del, of_container(id) + "?force=1&v=1"), "remove a container");
  // 409: somebody else removes it already.
  const auto fine = [](ErrorKind kind) {
    return kind == ErrorKind::not_found || kind == ErrorKind::conflict;
  };
  if (!done && !fine(done.error().kind)) return std::unexpected(done.error());
  return {};
}

Result<std::vector<std::string>> EngineApi::ids_in(std::string_view list) {
  TRY_SET(const wire::Json json, wire::parse(list));
  std::vector<std::string> ids;
  for (const wire::Json& one : json) {
    TRY_SET(std::string id, wire::string_member(one, "Id"));
    ids.push_back(std::move(id));
  }
  return ids;
}

Result<std::vector<std::string>> EngineApi::list(const std::string& label) {
  const wire::Json filters{{"label", wire::Json::array({label})}};
  const std::string target =
      "/containers/json?all=1&filters=" + http::encode_url(wire::dump(filters));
  TRY_SET(const http::Response answer, ask(request(http::Method::get, target), "list containers"));
  return ids_in(answer.body);
}

}  // namespace trainyard::container
