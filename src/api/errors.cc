#include "api/errors.h"

#include "wire/json.h"

namespace trainyard::api {

http::Response error_response(const Error& error) {
  return error_response(wire::http_status(error.kind), error);
}

http::Response error_response(int status, const Error& error) {
  http::Response response = http::Response::json(wire::dump(wire::error_to_json(error)), status);
  if (status == 401) response.headers["www-authenticate"] = "Bearer";
  return response;
}

}  // namespace trainyard::api
