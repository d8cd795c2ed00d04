#include "api/kept_network.h"

#include "wire/json.h"

namespace trainyard::api {
namespace {

wire::Json kept(const Home& home) {
  const Result<wire::Json> json = wire::parse(read_file(home.server_file()).value_or("{}"));
  return json && json->is_object() ? *json : wire::Json::object();
}

wire::Json network_of(const ServeOptions& options) {
  return {{"listen", options.listen},
          {"advertise", options.advertise},
          {"tlsCertificate", options.tls.certificate.string()},
          {"tlsKey", options.tls.key.string()},
          {"insecure", options.insecure},
          {"allowServerTarget", options.allow_server_target}};
}

}  // namespace

Status use_kept_network(ServeOptions& options) {
  const wire::Json json = kept(options.home);
  const wire::Json& network = wire::member(json, "network");
  if (!network.is_object()) return {};
  TRY_SET(options.listen, wire::string_member(network, "listen"));
  TRY_SET(options.advertise, wire::string_member(network, "advertise"));
  TRY_SET(options.tls.certificate, wire::string_member(network, "tlsCertificate"));
  TRY_SET(options.tls.key, wire::string_member(network, "tlsKey"));
  options.insecure = wire::member(network, "insecure") == true;
  if (wire::member(network, "allowServerTarget") == true) options.allow_server_target = true;
  return {};
}

uint16_t kept_port(const Home& home) {
  const int64_t port = wire::int_member(kept(home), "port").value_or(0);
  return port > 0 && port <= UINT16_MAX ? static_cast<uint16_t>(port) : uint16_t{0};
}

Status keep_network(const ServeOptions& options, uint16_t port) {
  const wire::Json before = kept(options.home);
  wire::Json after = before;
  after["network"] = network_of(options);
  if (port != 0) after["port"] = port;
  if (after == before) return {};
  return write_file(options.home.server_file(), wire::dump(after) + "\n", 0600);
}

}  // namespace trainyard::api
