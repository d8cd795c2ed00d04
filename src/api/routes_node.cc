#include "api/route.h"
#include "node/program.h"

namespace trainyard::api {
namespace {

// No secret: it is what anybody may build from our source. So a node that has nothing yet needs no
// token to get it.
Result<http::Response> get_program(const Call& call) {
  TRY_SET(const node::Program program, node::program());
  const std::string hex = program.digest.hex();
  http::Response response;
  response.headers = {{"content-type", "application/octet-stream"},
                      {"x-content-type-options", "nosniff"},
                      {"etag", '"' + hex + '"'},
                      {"x-trainyard-sha256", hex}};
  if (call.request.header("if-none-match") == '"' + hex + '"') {
    response.status = 304;
    return response;
  }
  TRY_SET(node::ProgramFile file, node::open_program());
  response.file = http::FileBody{std::move(file.fd), file.offset, file.size};
  return response;
}

Result<http::Response> get_program_digest(const Call&) {
  TRY_SET(const node::Program program, node::program());
  return http::Response::text(program.digest.hex() + "  trainyard-node\n");
}

using enum http::Method;
constexpr RouteRow kNodeRoutes[] = {
    {get, "/api/v1/node/program", Needs::nothing, Attempts::allowed, get_program,
     "The static program that carries a run on a node: trainyard-node."},
    {get, "/api/v1/node/program.sha256", Needs::nothing, Attempts::allowed, get_program_digest,
     "Its SHA-256, as sha256sum writes it."},
};

}  // namespace

std::span<const RouteRow> node_routes() { return kNodeRoutes; }

}  // namespace trainyard::api
