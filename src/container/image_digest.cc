#include "container/image_digest.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <optional>

#include "base/hash.h"
#include "container/oci.h"
#include "container/unpack_tar.h"
#include "wire/json.h"

namespace trainyard::container {
namespace {

using wire::Json;

constexpr uint64_t kDocumentMax = 8 << 20;  // A manifest or a configuration.
constexpr size_t kFilesKnownMax = 1000;

// One walk over a tar on the disk: what lies between two headers is not read.
class ArchiveWalk {
 public:
  explicit ArchiveWalk(const fs::path& file) : file_(file.string()) {}

  // The content of the file `path` in it; nothing: there is none.
  Result<std::optional<std::string>> find(std::string_view path) {
    std::optional<std::string> found;
    const auto look = [&](const TarEntry& entry, TarReader& tar) -> Status {
      if (found || plain(entry.path) != path || entry.type != TarEntry::Type::file) return {};
      if (entry.size > kDocumentMax) {
        return fail(ErrorKind::invalid, file_ + ": " + entry.path + " is too large");
      }
      found.emplace();
      for (;;) {
        TRY_SET(const std::string_view piece, tar.piece());
        if (piece.empty()) return {};
        found->append(piece);
      }
    };
    TRY(visit(look));
    return found;
  }

  using Visit = std::function<Status(const TarEntry&, TarReader&)>;
  Status visit(const Visit& each) {
    TRY_SET(const Fd fd, open_file(file_, O_RDONLY));
    uint64_t at = 0;
    const auto read = [&](char* bytes, size_t size) -> Result<size_t> {
      TRY_SET(const std::string piece, read_at(fd.get(), at, size, file_));
      piece.copy(bytes, piece.size());
      at += piece.size();
      return piece.size();
    };
    const auto skip = [&](uint64_t size) -> Status {
      at += size;
      return {};
    };
    TarReader tar(read, skip);
    TarEntry entry;
    for (;;) {
      TRY_SET(const bool more, tar.next(entry));
      if (!more) return {};
      TRY(each(entry, tar));
    }
  }

  // "./manifest.json" -> "manifest.json"
  static std::string_view plain(std::string_view path) {
    while (path.starts_with("./")) path.remove_prefix(2);
    return path;
  }

 private:
  const std::string file_;
};

// Of `docker save`'s form. Nothing where the configuration does not name the layers by what is in
// them, as one written by hand may not.
Result<std::optional<std::string>> docker_digest(ArchiveWalk& walk, std::string_view manifest) {
  TRY_SET(const Json manifests, wire::parse(manifest));
  const Json one = manifests.is_array() && manifests.size() == 1 ? manifests.at(0) : Json();
  const Json& path = wire::member(one, "Config");
  if (!path.is_string()) return std::nullopt;
  TRY_SET(const auto config, walk.find(path.get<std::string>()));
  if (!config) return std::nullopt;
  TRY_SET(const Json parsed, wire::parse(*config));
  const Json& layers = wire::member(one, "Layers");
  const Json& ids = wire::member(wire::member(parsed, "rootfs"), "diff_ids");
  if (!ids.is_array() || !layers.is_array() || ids.size() != layers.size()) return std::nullopt;
  std::string text = "docker archive 1\n" + sha256(*config).hex() + "\n" + wire::dump(layers);
  const auto add = [&](const TarEntry& entry, TarReader&) -> Status {
    text += "\n" + std::to_string(entry.size) + " " + entry.path;
    return {};
  };
  TRY(walk.visit(add));
  return sha256(text).hex();
}

Result<std::optional<std::string>> archive_digest(const fs::path& file) {
  ArchiveWalk walk(file);
  TRY_SET(const auto manifest, walk.find("manifest.json"));
  if (manifest) return docker_digest(walk, *manifest);
  TRY_SET(const auto index, walk.find("index.json"));
  if (!index) return std::nullopt;
  TRY_SET(const std::string digest, manifest_digest(*index, ""));
  return digest.substr(digest.find(':') + 1);
}

Result<std::string> digest_of(const ImageSource& source) {
  if (source.form == ImageSource::Form::named) return std::string();
  if (source.form == ImageSource::Form::layout) {
    TRY_SET(const std::string index, read_file(source.path / "index.json"));
    return manifest_digest(index, source.tag);
  }
  if (source.form == ImageSource::Form::archive) {
    // One that is compressed, or is not of either form, is known by its bytes.
    const auto inside = archive_digest(source.path);
    if (inside && *inside) return "sha256:" + **inside;
  }
  TRY_SET(const Digest bytes, hash_file(source.path));
  return "sha256:" + bytes.hex();
}

// The rest of a reference that begins so; nothing: it does not.
std::optional<std::string> after_prefix(const std::string& reference, std::string_view prefix) {
  if (!reference.starts_with(prefix) || reference.size() == prefix.size()) return std::nullopt;
  return reference.substr(prefix.size());
}

}  // namespace

ImageSource image_source(const std::string& reference) {
  using enum ImageSource::Form;
  if (auto path = after_prefix(reference, "oci:")) {
    // A tag has no slash; what looks like one and is part of the folder's name is the folder's.
    const size_t colon = path->rfind(':');
    std::error_code none;
    const bool tagged = colon != std::string::npos && !fs::exists(*path, none) &&
                        path->find('/', colon) == std::string::npos;
    if (!tagged) return {.form = layout, .path = *path, .tag = {}};
    return {.form = layout, .path = path->substr(0, colon), .tag = path->substr(colon + 1)};
  }
  for (const char* prefix : {"docker-archive:", "oci-archive:"}) {
    if (auto path = after_prefix(reference, prefix)) {
      return {.form = archive, .path = *path, .tag = {}};
    }
  }
  if (auto path = after_prefix(reference, "rootfs:")) {
    return {.form = rootfs, .path = *path, .tag = {}};
  }
  return {};
}

Result<std::string> image_digest(const std::string& reference) {
  return digest_of(image_source(reference));
}

Result<std::string> ImageDigests::of(const std::string& reference) {
  const ImageSource source = image_source(reference);
  const bool file =
      source.form == ImageSource::Form::archive || source.form == ImageSource::Form::rootfs;
  if (!file) return digest_of(source);
  TRY_SET(const Stamp before, stamp_of(source.path));
  {
    std::lock_guard lock(mutex_);
    const auto known = known_.find(reference);
    if (known != known_.end() && known->second.stamp == before) return known->second.digest;
  }
  TRY_SET(std::string digest, digest_of(source));
  TRY_SET(const Stamp after, stamp_of(source.path));
  if (!(after == before)) {
    return fail(ErrorKind::conflict, source.path.string() + " changes while it is read",
                "Try again when nothing writes to it.");
  }
  std::lock_guard lock(mutex_);
  if (known_.size() >= kFilesKnownMax) known_.clear();
  known_[reference] = {before, digest};
  return digest;
}

void ImageDigests::settle(Recipe& recipe) { recipe.image_digest = of(recipe.image).value_or(""); }

Result<ImageDigests::Stamp> ImageDigests::stamp_of(const fs::path& file) {
  struct stat found{};
  if (::stat(file.c_str(), &found) != 0) return fail_errno(errno, file.string());
  const auto ns = [](const timespec& time) {
    return static_cast<int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
  };
  return Stamp{.device = found.st_dev,
               .inode = found.st_ino,
               .size = found.st_size,
               .modified_ns = ns(found.st_mtim),
               .changed_ns = ns(found.st_ctim)};
}

}  // namespace trainyard::container
