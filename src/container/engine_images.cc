#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/text.h"
#include "container/engine_api.h"
#include "container/image_tags.h"
#include "container/root_tar.h"

// What EngineApi does with images.
namespace trainyard::container {
namespace {

constexpr seconds kSilenceMax{3600};   // A step of a build may say nothing for long.
constexpr size_t kLineMax = 16 << 20;  // Of what an engine says.

http::ClientRequest image_request(http::Method method, std::string target) {
  http::ClientRequest made;
  made.method = method;
  made.target = std::move(target);
  made.timeout = kSilenceMax;
  return made;
}

// Slashes stay: a name's are part of the path.
std::string in_path(std::string_view name) {
  std::string path;
  for (const std::string& part : split(name, '/')) {
    path += (path.empty() ? "" : "/") + http::encode_url(part);
  }
  return path;
}

std::string base64url(std::string_view bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const auto byte = [&](size_t at) {
      return at < bytes.size() ? static_cast<uint8_t>(bytes[at]) : uint8_t{0};
    };
    const uint32_t three = uint32_t{byte(i)} << 16 | uint32_t{byte(i + 1)} << 8 | byte(i + 2);
    text += kDigits[three >> 18];
    text += kDigits[three >> 12 & 63];
    text += i + 1 < bytes.size() ? kDigits[three >> 6 & 63] : '=';
    text += i + 2 < bytes.size() ? kDigits[three & 63] : '=';
  }
  return text;
}

wire::Json credentials_json(const Credentials& credentials) {
  return {{"username", credentials.username},
          {"password", credentials.password},
          {"serveraddress", credentials.server}};
}

// A file as a request's body.
Status send_file(http::ClientRequest& request, const Fd& file, const fs::path& path) {
  TRY_SET(request.source_size, file_size(file.get(), path.string()));
  request.headers["content-type"] = "application/x-tar";
  request.source = [fd = file.get(), path](char* buffer, size_t size) -> Result<size_t> {
    const ssize_t n = ::read(fd, buffer, size);
    if (n < 0) return fail_errno(errno, "read " + path.string());
    return static_cast<size_t>(n);
  };
  return {};
}

// Engines have one word for all that goes wrong on the way to a registry.
ErrorKind kind_of_words(std::string_view words) {
  const auto says = [&](std::string_view part) { return words.find(part) != words.npos; };
  if (says("no space left")) return ErrorKind::no_space;
  if (says("unauthorized") || says("denied") || says("authentication required") ||
      says("no basic auth credentials")) {
    return ErrorKind::denied;
  }
  if (says("not found") || says("manifest unknown") || says("does not exist")) {
    return ErrorKind::not_found;
  }
  if (says("invalid reference") || says("invalid checksum")) return ErrorKind::invalid;
  return ErrorKind::unavailable;
}

EngineApi::Progress progress_of(const wire::Json& json) {
  EngineApi::Progress progress;
  const auto text = [&](const wire::Json& from, const char* key) {
    return wire::string_member(from, key).value_or("");
  };
  progress.text = text(json, json.contains("stream") ? "stream" : "status");
  progress.layer = text(json, "id");
  if (const auto detail = json.find("progressDetail");
      detail != json.end() && detail->is_object()) {
    const auto number = [&](const char* key) {
      return static_cast<uint64_t>(
          std::max<int64_t>(wire::int_member(*detail, key).value_or(0), 0));
    };
    progress.done = number("current");
    progress.total = number("total");
  }
  return progress;
}

ImageConfig config_of(const wire::Json& image) {
  ImageConfig config;
  const auto found = image.find("Config");
  if (found == image.end() || !found->is_object()) return config;
  const auto words = [&](const char* key) {
    std::vector<std::string> list;
    const auto json = found->find(key);
    if (json == found->end() || !json->is_array()) return list;
    for (const wire::Json& word : *json) {
      if (word.is_string()) list.push_back(word.get<std::string>());
    }
    return list;
  };
  config.entrypoint = words("Entrypoint");
  config.command = words("Cmd");
  config.variables = words("Env");
  config.folder = wire::string_member(*found, "WorkingDir").value_or("");
  config.user = wire::string_member(*found, "User").value_or("");
  return config;
}

}  // namespace

Result<EngineApi::Image> EngineApi::image(std::string_view name, milliseconds timeout) {
  auto asked = image_request(http::Method::get, "/images/" + in_path(name) + "/json");
  asked.timeout = timeout;
  TRY_SET(const http::Response answer, ask(std::move(asked), "find the image"));
  TRY_SET(const wire::Json json, wire::parse(answer.body));
  Image image;
  TRY_SET(image.id, wire::string_member(json, "Id"));
  if (!image.id.starts_with("sha256:")) image.id = "sha256:" + image.id;
  if (const auto digests = json.find("RepoDigests"); digests != json.end() && digests->is_array()) {
    for (const wire::Json& digest : *digests) image.digests.push_back(digest.get<std::string>());
  }
  TRY_SET(const int64_t bytes, wire::int_member(json, "Size"));
  image.bytes = static_cast<uint64_t>(std::max<int64_t>(bytes, 0));
  image.config = config_of(json);
  return image;
}

Status EngineApi::check_registry(const std::string& name, const Credentials& credentials) {
  if (address_.podman) return {};
  TRY(registry_digest(name, credentials, kSilenceMax));
  return {};
}

Result<std::string> EngineApi::registry_digest(const std::string& name,
                                               const Credentials& credentials,
                                               milliseconds timeout) {
  auto asked = image_request(http::Method::get, "/distribution/" + in_path(name) + "/json");
  asked.timeout = timeout;
  if (!credentials.username.empty()) {
    asked.headers["x-registry-auth"] = base64url(wire::dump(credentials_json(credentials)));
  }
  auto answer = ask(std::move(asked), "get the image " + name);
  if (!answer) {
    Error error = std::move(answer).error();
    if (error.kind == ErrorKind::unavailable) error.kind = kind_of_words(error.message);
    return std::unexpected(std::move(error));
  }
  TRY_SET(const wire::Json json, wire::parse(answer->body));
  const auto descriptor = json.find("Descriptor");
  if (descriptor == json.end()) return fail(ErrorKind::unavailable, "docker names no digest");
  return wire::string_member(*descriptor, "digest");
}

// A stream of JSON objects, one a line; what fails comes in one of them, after a status of 200.
Status EngineApi::follow(http::ClientRequest request, std::string_view doing, const Watch& watch,
                         const std::function<void(const wire::Json&)>& also) {
  std::string rest;
  Status failed;
  const auto take = [&](std::string_view line) -> Status {
    const auto json = wire::parse(line);
    if (!json || !json->is_object()) return {};
    if (const auto error = wire::string_member(*json, "error"); error && !error->empty()) {
      failed = fail(kind_of_words(*error), fmt::format("{}: {}", doing, trim(*error)));
    }
    if (also) also(*json);
    const Progress progress = progress_of(*json);
    if (watch && !progress.text.empty()) TRY(watch(progress));
    return {};
  };
  request.sink = [&](std::string_view bytes) -> Status {
    rest += bytes;
    size_t begin = 0;
    for (size_t end = rest.find('\n'); end != std::string::npos; end = rest.find('\n', begin)) {
      TRY(take(trim(std::string_view(rest).substr(begin, end - begin))));
      begin = end + 1;
    }
    rest.erase(0, begin);
    if (rest.size() > kLineMax) return fail(ErrorKind::unavailable, "the engine talks too much");
    return {};
  };
  if (auto answer = ask(std::move(request), doing); !answer) {
    Error error = std::move(answer).error();
    if (error.kind == ErrorKind::unavailable) error.kind = kind_of_words(error.message);
    return std::unexpected(std::move(error));
  }
  TRY(take(trim(rest)));
  return failed;
}

Status EngineApi::pull(const std::string& name, const Credentials& credentials,
                       const Watch& watch) {
  const auto [image, tag] = split_image_name(name);
  auto asked = image_request(
      http::Method::post, fmt::format("/images/create?fromImage={}&tag={}", http::encode_url(image),
                                      http::encode_url(tag)));
  if (!credentials.username.empty()) {
    asked.headers["x-registry-auth"] = base64url(wire::dump(credentials_json(credentials)));
  }
  return follow(std::move(asked), "get the image " + name, watch);
}

Result<std::string> EngineApi::load(const Fd& fd, const fs::path& file, const Watch& watch) {
  auto asked = image_request(http::Method::post, "/images/load?quiet=1");
  TRY(send_file(asked, fd, file));
  std::string loaded;
  const auto look = [&](const wire::Json& json) {
    const std::string text = wire::string_member(json, "stream").value_or("");
    for (const std::string_view begin : {"Loaded image ID: ", "Loaded image: "}) {
      if (text.starts_with(begin)) loaded = trim(std::string_view(text).substr(begin.size()));
    }
  };
  TRY(follow(std::move(asked), "load " + file.string(), watch, look));
  if (loaded.empty()) {
    return fail(ErrorKind::invalid, file.string() + " holds no image that the engine knows");
  }
  return loaded;
}

Result<std::string> EngineApi::import(const Fd& fd, const fs::path& file, const std::string& tag) {
  http::ClientRequest body;
  TRY(send_file(body, fd, file));
  const auto [name, version] = split_image_name(tag);
  const std::string called =
      fmt::format("&repo={}&tag={}", http::encode_url(name), http::encode_url(version));
  return import_tar(std::move(body), file, called);
}

Result<std::string> EngineApi::import_root(const fs::path& root, const std::string& tag) {
  TRY_SET(RootTar tar, RootTar::open(root));
  http::ClientRequest body;
  body.source_size = tar.size();
  body.headers["content-type"] = "application/x-tar";
  body.source = [&tar](char* buffer, size_t size) { return tar.read(buffer, size); };
  // podman would take the name and forget the tag.
  TRY_SET(std::string id, import_tar(std::move(body), root, ""));
  TRY(this->tag(id, tag));
  return id;
}

Result<std::string> EngineApi::import_tar(http::ClientRequest body, const std::string& from,
                                          const std::string& called) {
  auto asked = image_request(http::Method::post, "/images/create?fromSrc=-" + called);
  asked.headers = std::move(body.headers);
  asked.source = std::move(body.source);
  asked.source_size = body.source_size;
  // docker says "sha256:…", podman the digits alone; and each has its own idea of a name's
  // beginning.
  std::string id;
  const auto look = [&](const wire::Json& json) {
    std::string text = wire::string_member(json, "status").value_or("");
    if (Digest::from_hex(text)) text = "sha256:" + text;
    if (text.starts_with("sha256:")) id = text;
  };
  TRY(follow(std::move(asked), "import " + from, {}, look));
  if (id.empty()) return fail(ErrorKind::unavailable, "the engine does not say what it imported");
  return id;
}

Status EngineApi::save(const std::string& name,
                       const std::function<Status(std::string_view)>& sink) {
  auto asked = image_request(http::Method::get, "/images/" + in_path(name) + "/get");
  asked.sink = sink;
  TRY(ask(std::move(asked), "save the image " + name));
  return {};
}

Status EngineApi::tag(const std::string& id, const std::string& name) {
  const auto [image, version] = split_image_name(name);
  TRY(ask(image_request(http::Method::post,
                        fmt::format("/images/{}/tag?repo={}&tag={}", in_path(id),
                                    http::encode_url(image), http::encode_url(version))),
          "name the image"));
  return {};
}

Status EngineApi::remove_image(const std::string& name) {
  const auto done =
      ask(image_request(http::Method::del, "/images/" + in_path(name)), "remove the image");
  if (!done && done.error().kind != ErrorKind::not_found) return std::unexpected(done.error());
  return {};
}

Result<std::set<std::string>> EngineApi::image_names() {
  TRY_SET(const http::Response answer,
          ask(image_request(http::Method::get, "/images/json"), "list images"));
  TRY_SET(const wire::Json images, wire::parse(answer.body));
  std::set<std::string> names;
  for (const wire::Json& image : images) {
    for (const char* key : {"RepoTags", "RepoDigests"}) {
      for (const wire::Json& name : wire::member(image, key)) {
        if (name.is_string()) names.insert(name.get<std::string>());
      }
    }
  }
  return names;
}

Result<std::vector<std::string>> EngineApi::images_with(const std::string& label) {
  const wire::Json filters{{"label", wire::Json::array({label})}};
  TRY_SET(const http::Response answer,
          ask(image_request(http::Method::get,
                            "/images/json?filters=" + http::encode_url(wire::dump(filters))),
              "list images"));
  return ids_in(answer.body);
}

Status EngineApi::commit(const std::string& container, const std::string& name,
                         const std::vector<std::string>& emptied) {
  const auto [image, version] = split_image_name(name);
  std::string target = fmt::format("/commit?container={}&repo={}&tag={}", container,
                                   http::encode_url(image), http::encode_url(version));
  for (const std::string& variable : emptied) {
    target += "&changes=" + http::encode_url("ENV " + variable + "=");
  }
  auto asked = image_request(http::Method::post, std::move(target));
  asked.headers["content-type"] = "application/json";
  asked.body = "{}";
  TRY(ask(std::move(asked), "keep what the container changed"));
  return {};
}

Result<std::string> EngineApi::build(const Build& build, const Watch& watch) {
  TRY_SET(const Fd fd, open_file(build.context, O_RDONLY));
  auto asked = image_request(
      http::Method::post,
      fmt::format("/build?t={}&dockerfile={}&buildargs={}&networkmode=host&rm=1&forcerm=1{}",
                  http::encode_url(build.tag), http::encode_url(build.dockerfile),
                  http::encode_url(wire::dump(wire::Json(build.arguments))),
                  build.fresh ? "&nocache=1" : ""));
  TRY(send_file(asked, fd, build.context));
  if (!build.credentials.username.empty()) {
    const wire::Json all{{build.credentials.server, credentials_json(build.credentials)}};
    asked.headers["x-registry-config"] = base64url(wire::dump(all));
  }
  std::string step;
  const auto look = [&](const wire::Json& json) {
    const std::string text = wire::string_member(json, "stream").value_or("");
    if (text.starts_with("Step ") || text.starts_with("STEP ")) step = trim(text);
  };
  Status built = follow(std::move(asked), "build the image", watch, look);
  if (!built && built.error().kind != ErrorKind::cancelled) {
    Error error = std::move(built).error();
    if (!step.empty()) error.message += " (" + step + ")";
    // Whatever a step cannot find or reach is named by the Dockerfile.
    if (error.kind != ErrorKind::no_space && !step.empty()) error.kind = ErrorKind::invalid;
    return std::unexpected(std::move(error));
  }
  TRY(built);
  TRY_SET(const Image made, image(build.tag));
  return made.id;
}

}  // namespace trainyard::container
