#include "container/image_digest.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "base/hash.h"
#include "container/image_file.h"
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
  ArchiveWalk(const Fd& fd, const fs::path& file) : fd_(fd), file_(file.string()) {}

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
    uint64_t at = 0;
    const auto read = [&](char* bytes, size_t size) -> Result<size_t> {
      TRY_SET(const std::string piece, read_at(fd_.get(), at, size, file_));
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
  const Fd& fd_;
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

Result<std::optional<std::string>> archive_digest(const Fd& fd, const fs::path& file) {
  ArchiveWalk walk(fd, file);
  TRY_SET(const auto manifest, walk.find("manifest.json"));
  if (manifest) return docker_digest(walk, *manifest);
  TRY_SET(const auto index, walk.find("index.json"));
  if (!index) return std::nullopt;
  TRY_SET(const std::string digest, manifest_digest(*index, ""));
  return digest.substr(digest.find(':') + 1);
}

Result<std::string> layout_digest(const ImageSource& source, std::span<const std::string> folders) {
  TRY_SET(const Fd folder, open_image_folder(source.path, folders));
  TRY_SET(const Fd file, open_beneath(folder.get(), "index.json"));
  TRY_SET(const std::string index, read_document(file, source.path / "index.json"));
  return manifest_digest(index, source.tag);
}

Result<std::string> file_digest(const ImageSource& source, const Fd& file,
                                const std::function<bool()>& stopped = {}) {
  if (source.form == ImageSource::Form::archive) {
    // One that is compressed, or is not of either form, is known by its bytes.
    const auto inside = archive_digest(file, source.path);
    if (inside && *inside) return "sha256:" + **inside;
  }
  TRY_SET(const Digest bytes, hash_file(file, source.path, stopped));
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

Result<std::string> image_digest(const std::string& reference,
                                 std::span<const std::string> folders) {
  const ImageSource source = image_source(reference);
  if (source.form == ImageSource::Form::named) return std::string();
  if (source.form == ImageSource::Form::layout) return layout_digest(source, folders);
  TRY_SET(const Fd file, open_image_file(source.path, folders));
  return file_digest(source, file);
}

ImageDigests::~ImageDigests() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

std::optional<std::string> ImageDigests::find(const std::string& reference,
                                              std::span<const std::string> folders) {
  const ImageSource source = image_source(reference);
  if (source.form == ImageSource::Form::named) return std::string();
  if (source.form == ImageSource::Form::layout) {
    return layout_digest(source, folders).value_or("");  // One small file.
  }
  const auto file = open_image_file(source.path, folders);
  const auto stamp = file ? stamp_of(*file, source.path) : std::unexpected(file.error());
  if (!stamp) return std::string();
  std::lock_guard lock(mutex_);
  const auto known = known_.find(reference);
  if (known != known_.end() && known->second.stamp == *stamp) return known->second.digest;
  const auto same = [&](const Job& job) { return job.reference == reference; };
  if (std::ranges::none_of(waiting_, same)) {
    if (waiting_.size() >= kFilesKnownMax) return std::string();
    waiting_.push_back({reference, {folders.begin(), folders.end()}});
    if (!thread_.joinable()) {
      thread_ = std::jthread([this](const std::stop_token& stop) { read_waiting(stop); });
    }
    rung_.notify_one();
  }
  return std::nullopt;
}

void ImageDigests::read_waiting(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (rung_.wait(lock, stop, [this] { return !waiting_.empty(); })) {
    const Job job = waiting_.front();
    lock.unlock();
    Known found = read(job, stop);
    lock.lock();
    if (known_.size() >= kFilesKnownMax) known_.clear();
    known_[job.reference] = std::move(found);
    waiting_.pop_front();
    lock.unlock();
    if (done_) done_(job.reference);
    lock.lock();
    if (stop.stop_requested()) return;
  }
}

// A file that changes while it is read has no digest: whoever builds would find another.
ImageDigests::Known ImageDigests::read(const Job& job, const std::stop_token& stop) {
  const ImageSource source = image_source(job.reference);
  const auto file = open_image_file(source.path, job.folders);
  if (!file) return {};
  const auto before = stamp_of(*file, source.path);
  const auto digest = file_digest(source, *file, [&] { return stop.stop_requested(); });
  const auto after = stamp_of(*file, source.path);
  if (!before || !after) return {};
  return {.stamp = *after, .digest = digest && *before == *after ? *digest : ""};
}

Result<ImageDigests::Stamp> ImageDigests::stamp_of(const Fd& file, const fs::path& path) {
  struct stat found{};
  if (::fstat(file.get(), &found) != 0) return fail_errno(errno, path.string());
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
