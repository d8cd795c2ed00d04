#include "container/plan_file.h"

#include <type_traits>

namespace trainyard::container {
namespace {

using wire::Json;

template <class T>
concept HasFields = requires(T value) { T::fields(value, [](const char*, auto&) {}); };

template <class T>
Json to_json(const T& value) {
  if constexpr (HasFields<T>) {
    Json object = Json::object();
    T::fields(value, [&](const char* name, const auto& field) { object[name] = to_json(field); });
    return object;
  } else if constexpr (std::is_same_v<T, std::vector<Bind>>) {
    Json array = Json::array();
    for (const Bind& bind : value) array.push_back(to_json(bind));
    return array;
  } else {
    return value;
  }
}

// What is wrong with a file of ours throws, and is caught at read_plan().
template <class T>
void from_json(const Json& json, T& value) {
  if constexpr (HasFields<T>) {
    T::fields(value, [&](const char* name, auto& field) {
      if (const auto found = json.find(name); found != json.end()) from_json(*found, field);
    });
  } else if constexpr (std::is_same_v<T, std::vector<Bind>>) {
    for (const Json& one : json) from_json(one, value.emplace_back());
  } else {
    json.get_to(value);
  }
}

}  // namespace

Status write_plan(const PlanFile& file, const fs::path& path) {
  Json json = to_json(file.plan);
  json["engine"] = {{"socket", file.engine.socket},
                    {"podman", file.engine.podman},
                    {"rootless", file.engine.rootless},
                    {"api", file.engine.api}};
  json["account"] = to_json(file.account);
  return write_file(path, wire::dump_pretty(json), 0600);
}

Result<PlanFile> read_plan(const fs::path& path) {
  TRY_SET(const std::string text, read_file(path));
  TRY_SET(const Json json, wire::parse(text));
  PlanFile file;
  try {
    from_json(json, file.plan);
    from_json(json.at("account"), file.account);
    const Json& engine = json.at("engine");
    engine.at("socket").get_to(file.engine.socket);
    engine.at("podman").get_to(file.engine.podman);
    engine.at("rootless").get_to(file.engine.rootless);
    engine.at("api").get_to(file.engine.api);
  } catch (const std::exception& error) {
    return fail(ErrorKind::invalid, path.string() + ": " + error.what());
  }
  return file;
}

}  // namespace trainyard::container
