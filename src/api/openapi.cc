#include "api/openapi.h"

#include "base/text.h"
#include "base/version.h"

namespace trainyard::api {
namespace {

std::string_view words_for(Needs needs) {
  switch (needs) {
    case Needs::nothing:
      return "anybody";
    case Needs::reader:
      return "reader";
    case Needs::submitter:
      return "submitter";
    case Needs::admin:
      return "admin";
    case Needs::local_admin:
      return "admin, over the Unix socket";
    case Needs::attempt:
      return "the attempt itself";
    case Needs::handover:
      return "the one-time token in the attempt's job";
    case Needs::node_token:
      return "a one-time node token";
    case Needs::machine:
      return "the machine itself, or a submitter whose it is";
  }
  return "";
}

Json parameter(std::string_view name, std::string_view in) {
  return {{"name", name}, {"in", in}, {"required", in == "path"}, {"schema", {{"type", "string"}}}};
}

// "{path...}" is "{path}" here.
std::string path_of(const RouteRow& row, Json& parameters) {
  std::string path;
  std::string_view rest = row.pattern;
  for (size_t open = rest.find('{'); open != std::string_view::npos; open = rest.find('{')) {
    const size_t close = rest.find('}', open);
    std::string_view name = rest.substr(open + 1, close - open - 1);
    if (name.ends_with("...")) name.remove_suffix(3);
    parameters.push_back(parameter(name, "path"));
    path.append(rest.substr(0, open)).append("{").append(name).append("}");
    rest.remove_prefix(close + 1);
  }
  return path.append(rest);
}

Json operation(const RouteRow& row, Json parameters) {
  for (const std::string& name : split(row.query, ' ')) {
    if (!name.empty()) parameters.push_back(parameter(name, "query"));
  }
  Json json = {
      {"summary", row.says},
      {"x-role", words_for(row.needs)},
      {"parameters", std::move(parameters)},
      {"responses",
       {{"2XX", {{"description", "Done."}}},
        {"default",
         {{"description", "An error."},
          {"content",
           {{"application/json", {{"schema", {{"$ref", "#/components/schemas/Error"}}}}}}}}}}}};
  if (row.needs == Needs::nothing) json["security"] = Json::array();
  return json;
}

Json error_schema() {
  const Json text = {{"type", "string"}};
  return {{"type", "object"},
          {"properties",
           {{"error",
             {{"type", "object"},
              {"properties", {{"kind", text}, {"message", text}, {"hint", text}}}}}}}};
}

}  // namespace

Json openapi(std::span<const RouteRow> routes) {
  Json paths = Json::object();
  for (const RouteRow& row : routes) {
    Json parameters = Json::array();
    const std::string path = path_of(row, parameters);
    paths[path][lower(http::to_string(row.method))] = operation(row, std::move(parameters));
  }
  return {{"openapi", "3.0.3"},
          {"info", {{"title", "Trainyard"}, {"version", kVersion}}},
          {"paths", std::move(paths)},
          {"components",
           {{"schemas", {{"Error", error_schema()}}},
            {"securitySchemes", {{"token", {{"type", "http"}, {"scheme", "bearer"}}}}}}},
          {"security", Json::array({{{"token", Json::array()}}})}};
}

}  // namespace trainyard::api
