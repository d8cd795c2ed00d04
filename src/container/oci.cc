#include "container/oci.h"

#include <optional>

#include "base/hash.h"
#include "container/bubblewrap_view.h"
#include "container/image_file.h"
#include "wire/json.h"

namespace trainyard::container {
namespace {

using wire::Json;

constexpr int kIndexDepthMax = 4;  // An index of an index; more nobody writes.
constexpr size_t kPiece = 1024 * 1024;
constexpr std::string_view kSha256 = "sha256:";
constexpr const char* kRefName = "org.opencontainers.image.ref.name";

#if defined(__x86_64__)
constexpr std::string_view kArchitecture = "amd64";
#elif defined(__aarch64__)
constexpr std::string_view kArchitecture = "arm64";
#else
constexpr std::string_view kArchitecture = "";
#endif

Result<Json> parse_file(const Fd& file, const fs::path& path) {
  TRY_SET(const std::string text, read_document(file, path));
  Result<Json> json = wire::parse(text);
  if (!json) return std::unexpected(std::move(json).error().within(path.string()));
  return json;
}

std::string text_of(const Json& json, const char* key) {
  const Json& value = wire::member(json, key);
  return value.is_string() ? value.get<std::string>() : std::string();
}

// A layout's folder.
struct LayoutFolder {
  Fd fd;
  fs::path path;

  Result<ImageFiles::Layer> open(const std::string& name) const {
    Result<Fd> file = open_beneath(fd.get(), name);
    if (!file) return std::unexpected(std::move(file).error().within(path.string()));
    return ImageFiles::Layer{*std::move(file), path / name};
  }
};

Result<Digest> parse_digest(const std::string& digest) {
  if (!digest.starts_with(kSha256)) {
    return fail(ErrorKind::invalid, "the image names a file by '" + digest + "', not by SHA-256");
  }
  return Digest::from_hex(digest.substr(kSha256.size()));
}

// The file of a digest, and that it is what it says.
Result<ImageFiles::Layer> blob_of(const LayoutFolder& layout, const std::string& digest) {
  TRY_SET(const Digest wanted, parse_digest(digest));
  TRY_SET(ImageFiles::Layer blob, layout.open("blobs/sha256/" + wanted.hex()));
  TRY_SET(const Digest found, hash_file(blob.file, blob.path));
  if (found != wanted) {
    return fail(ErrorKind::invalid, blob.path.string() + " is damaged: its hash is another");
  }
  return blob;
}

bool is_ours(const Json& platform) {
  if (!platform.is_object() || kArchitecture.empty()) return true;
  return text_of(platform, "os") == "linux" && text_of(platform, "architecture") == kArchitecture;
}

// The digest of the manifest that is meant.
Result<std::string> choose(const Json& index, std::string_view tag) {
  std::vector<std::string> names;
  std::optional<std::string> chosen;
  bool other_machine = false;
  for (const Json& manifest : wire::member(index, "manifests")) {
    const std::string name = text_of(wire::member(manifest, "annotations"), kRefName);
    names.push_back(name);
    if (!tag.empty() && name != tag) continue;
    if (!is_ours(wire::member(manifest, "platform"))) {
      other_machine = true;
      continue;
    }
    if (chosen) {
      return fail(ErrorKind::invalid, "the layout has several images: " + join(names, ", "),
                  "Say which: oci:FOLDER:TAG.");
    }
    chosen = text_of(manifest, "digest");
  }
  if (chosen) return *chosen;
  if (other_machine) {
    return fail(ErrorKind::invalid,
                "the image is not for this machine (linux/" + std::string(kArchitecture) + ")");
  }
  return fail(ErrorKind::not_found, tag.empty() ? "the layout has no image"
                                                : "the layout has no image '" + std::string(tag) +
                                                      "', but " +
                                                      (names.empty() ? "none" : join(names, ", ")));
}

std::vector<std::string> texts_of(const Json& json, const char* key) {
  std::vector<std::string> texts;
  for (const Json& each : wire::member(json, key)) {
    if (each.is_string()) texts.push_back(each.get<std::string>());
  }
  return texts;
}

}  // namespace

Result<Digest> hash_file(const Fd& file, const fs::path& path,
                         const std::function<bool()>& stopped) {
  Hasher hasher;
  for (uint64_t at = 0;;) {
    if (stopped && stopped()) return fail(ErrorKind::cancelled, "it is not wanted any more");
    TRY_SET(const std::string piece, read_at(file.get(), at, kPiece, path.string()));
    if (piece.empty()) return hasher.finish();
    hasher.add(piece);
    at += piece.size();
  }
}

Result<std::string> manifest_digest(std::string_view index, std::string_view tag) {
  TRY_SET(const Json json, wire::parse(index));
  TRY_SET(const std::string chosen, choose(json, tag));
  TRY_SET(const Digest digest, parse_digest(chosen));
  return std::string(kSha256) + digest.hex();
}

Result<ImageConfig> parse_image_config(std::string_view text) {
  TRY_SET(const Json json, wire::parse(text));
  const Json& config = wire::member(json, "config");
  return ImageConfig{.entrypoint = texts_of(config, "Entrypoint"),
                     .command = texts_of(config, "Cmd"),
                     .variables = texts_of(config, "Env"),
                     .folder = text_of(config, "WorkingDir"),
                     .user = text_of(config, "User")};
}

Result<ImageFiles> read_oci_layout(const fs::path& folder, std::string_view tag,
                                   std::span<const std::string> folders) {
  LayoutFolder layout{.fd = {}, .path = folder};
  TRY_SET(layout.fd, open_image_folder(folder, folders));
  TRY_SET(const ImageFiles::Layer index, layout.open("index.json"));
  TRY_SET(Json manifest, parse_file(index.file, index.path));
  for (int depth = 0; wire::member(manifest, "manifests").is_array(); ++depth) {
    if (depth == kIndexDepthMax) return fail(ErrorKind::invalid, "indexes without an end");
    TRY_SET(const std::string digest, choose(manifest, depth == 0 ? tag : ""));
    TRY_SET(const ImageFiles::Layer blob, blob_of(layout, digest));
    TRY_SET(manifest, parse_file(blob.file, blob.path));
  }
  ImageFiles image{
      .id = text_of(wire::member(manifest, "config"), "digest"), .config = {}, .layers = {}};
  TRY_SET(const ImageFiles::Layer config, blob_of(layout, image.id));
  TRY_SET(const std::string text, read_document(config.file, config.path));
  TRY_SET(image.config, parse_image_config(text));
  for (const Json& layer : wire::member(manifest, "layers")) {
    TRY_SET(ImageFiles::Layer blob, blob_of(layout, text_of(layer, "digest")));
    image.layers.push_back(std::move(blob));
  }
  return image;
}

Result<ImageFiles> read_docker_archive(const fs::path& folder) {
  TRY_SET(const Fd file, open_regular(folder / "manifest.json"));
  TRY_SET(const Json manifests, parse_file(file, folder / "manifest.json"));
  if (!manifests.is_array() || manifests.size() != 1) {
    return fail(ErrorKind::invalid,
                "the archive has not one image, but " +
                    std::to_string(manifests.is_array() ? manifests.size() : 0));
  }
  const Json& manifest = manifests.at(0);
  const View view(folder, {});  // Layers may be links to each other.
  // The folder is ours, and what the archive put there may be anything: a FIFO too.
  const auto open = [&](const std::string& path) -> Result<ImageFiles::Layer> {
    TRY_SET(const Place place, view.find("/" + path));
    TRY_SET(Fd found, open_regular(place.outside));
    return ImageFiles::Layer{std::move(found), place.outside};
  };
  TRY_SET(const ImageFiles::Layer config, open(text_of(manifest, "Config")));
  TRY_SET(const std::string text, read_document(config.file, config.path));
  ImageFiles image{.id = std::string(kSha256) + sha256(text).hex(), .config = {}, .layers = {}};
  TRY_SET(image.config, parse_image_config(text));
  for (const std::string& path : texts_of(manifest, "Layers")) {
    TRY_SET(ImageFiles::Layer layer, open(path));
    image.layers.push_back(std::move(layer));
  }
  return image;
}

}  // namespace trainyard::container
