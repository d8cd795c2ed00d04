#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "container/engine_api.h"

namespace trainyard::container {
namespace {

constexpr seconds kPingMax{3};
constexpr std::string_view kUnix = "unix://";

// The versions of the API that we speak: newer engines have given up the old one.
constexpr std::string_view kApiOld = "1.40";
constexpr std::string_view kApiNew = "1.44";

bool is_newer(std::string_view has) {
  const std::vector<std::string> parts = split(has, '.');
  const auto minor = parse_int(parts.back(), "version");
  const auto newer = parse_int(kApiNew.substr(2), "version");
  return parts.size() == 2 && minor && *minor >= *newer;
}

// A socket that belongs to a person is of an engine that runs as that person.
bool is_persons(const std::string& socket) {
  struct stat found{};
  return stat(socket.c_str(), &found) == 0 && found.st_uid != 0;
}

Result<EngineAddress> ping(const std::string& socket) {
  http::Client client({.unix_socket = socket}, "");
  http::ClientRequest request;
  request.target = "/_ping";
  request.timeout = kPingMax;
  TRY_SET(const http::Response answer, client.send(request));
  if (answer.status != 200) {
    return fail(ErrorKind::unavailable,
                fmt::format("{} answers with status {}", socket, answer.status));
  }
  EngineAddress address{.socket = socket};
  address.podman = answer.headers.contains("libpod-api-version");
  address.rootless = is_persons(socket);
  const auto version = answer.headers.find("api-version");
  const bool newer = version != answer.headers.end() && is_newer(version->second);
  address.api = newer ? kApiNew : kApiOld;
  return address;
}

std::string variable(const std::map<std::string, std::string>& variables, const char* name) {
  const auto found = variables.find(name);
  return found == variables.end() ? std::string() : found->second;
}

}  // namespace

std::vector<std::string> engine_sockets(const std::map<std::string, std::string>& variables) {
  for (const char* name : {"DOCKER_HOST", "CONTAINER_HOST"}) {
    const std::string value = variable(variables, name);
    if (value.starts_with(kUnix)) return {value.substr(kUnix.size())};
    if (!value.empty()) return {};
  }
  std::vector<std::string> places;
  const std::string own = variable(variables, "XDG_RUNTIME_DIR");
  if (!own.empty()) places = {own + "/docker.sock", own + "/podman/podman.sock"};
  places.insert(places.end(), {"/run/docker.sock", "/run/podman/podman.sock"});
  return places;
}

Result<EngineAddress> find_engine(const std::string& socket,
                                  const std::map<std::string, std::string>& variables) {
  const char* const hint =
      "As root: systemctl start docker, or systemctl start podman.socket. One has to be of the "
      "group "
      "that may use it. DOCKER_HOST=unix:///path/of/its/socket names another place.";
  std::vector<std::string> places = engine_sockets(variables);
  if (!socket.empty()) places = {socket};
  if (places.empty()) {
    const char* const name =
        variable(variables, "DOCKER_HOST").empty() ? "CONTAINER_HOST" : "DOCKER_HOST";
    return fail(ErrorKind::invalid,
                fmt::format("{}={} is not a Unix socket", name, variable(variables, name)),
                "Containers are started on the run's own machine: unix:///path/of/the/socket");
  }
  const std::string wanted = variable(variables, kRuntimeVariable);
  const bool named = wanted == "docker" || wanted == "podman";
  std::string tried;
  for (const std::string& place : places) {
    auto found = ping(place);
    if (found && (!named || found->name() == wanted)) return found;
    std::string why = found ? place + " is " + std::string(found->name()) : found.error().message;
    if (why.find(place) == std::string::npos) why = place + ": " + why;
    tried += (tried.empty() ? "" : "; ") + why;
  }
  if (named) {
    return fail(ErrorKind::unavailable,
                fmt::format("{}={}, and no {} answers here ({}): start {}", kRuntimeVariable,
                            wanted, wanted, tried, wanted),
                hint);
  }
  return fail(ErrorKind::unavailable,
              "no container engine answers here (" + tried + "): start docker or podman", hint);
}

}  // namespace trainyard::container
