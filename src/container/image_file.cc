#include "container/image_file.h"

#include <fcntl.h>

#include "base/hash.h"
#include "base/text.h"
#include "container/image_digest.h"

namespace trainyard::container {
namespace {

constexpr uint64_t kImageFileMax = uint64_t{256} << 30;  // The largest images are some 30 GB.
constexpr uint64_t kSmallFileMax = 8 << 20;
constexpr size_t kCopyPiece = 1 << 20;
constexpr const char* kBlobs = "blobs/sha256";

// The path below an allowed folder, by names alone: links are open_beneath()'s to judge.
Result<Fd> open_allowed(const fs::path& path, std::span<const std::string> folders, int flags) {
  for (const std::string& folder : folders) {
    const fs::path below = path.lexically_normal().lexically_relative(folder);
    if (below.empty() || *below.begin() == "..") continue;
    TRY_SET(const Fd top, open_file(folder, O_RDONLY | O_DIRECTORY));
    Result<Fd> opened = open_beneath(top.get(), below, flags);
    if (!opened) return std::unexpected(std::move(opened).error().within(folder));
    return opened;
  }
  return fail(ErrorKind::denied,
              path.string() + " lies in none of the folders that images may be taken from",
              "An admin decides about them with: trainyard server policy set --image-folder");
}

Status copy_bytes(const Fd& from, const fs::path& to) {
  TRY_SET(const Fd fd, open_file(to, O_WRONLY | O_CREAT | O_EXCL, 0600));
  for (uint64_t at = 0;;) {
    TRY_SET(const std::string piece, read_at(from.get(), at, kCopyPiece, to.string()));
    if (piece.empty()) return {};
    TRY(write_all(fd.get(), piece, to.string()));
    at += piece.size();
    if (at > kImageFileMax) return fail(ErrorKind::invalid, to.string() + " is too large");
  }
}

Status copy_layout(const Fd& folder, const fs::path& to) {
  TRY(make_dirs(to / kBlobs));
  for (const char* name : {"index.json", "oci-layout"}) {
    TRY_SET(const Fd file, open_beneath(folder.get(), name));
    TRY(copy_bytes(file, to / name));
  }
  TRY_SET(Fd blobs, open_beneath(folder.get(), kBlobs, O_DIRECTORY));
  const std::string list = "/proc/self/fd/" + std::to_string(blobs.get());
  std::error_code error;
  for (fs::directory_iterator at(list, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename();
    if (!Digest::from_hex(name)) continue;
    TRY_SET(const Fd file, open_beneath(blobs.get(), name));
    TRY(copy_bytes(file, to / kBlobs / name));
  }
  if (error) return fail_errno(error.value(), "list the blobs of " + to.string());
  return {};
}

}  // namespace

Result<std::string> copy_image(const std::string& reference, std::span<const std::string> folders,
                               const fs::path& scratch) {
  const ImageSource source = image_source(reference);
  const fs::path to = scratch / "copy";
  const std::string prefix = reference.substr(0, reference.find(':') + 1);
  if (source.form == ImageSource::Form::layout) {
    TRY_SET(const Fd folder, open_image_folder(source.path, folders));
    TRY(copy_layout(folder, to));
    return prefix + to.string() + (source.tag.empty() ? "" : ":" + source.tag);
  }
  TRY_SET(const Fd file, open_image_file(source.path, folders));
  TRY(copy_bytes(file, to));
  return prefix + to.string();
}

Result<Fd> open_image_file(const fs::path& path, std::span<const std::string> folders) {
  TRY_SET(Fd fd, folders.empty() ? open_regular(path) : open_allowed(path, folders, 0));
  TRY_SET(const uint64_t size, file_size(fd.get(), path.string()));
  if (size > kImageFileMax) {
    return fail(ErrorKind::invalid, path.string() + " has " + format_size(size) +
                                        ", an image at most " + format_size(kImageFileMax));
  }
  return fd;
}

Result<Fd> open_image_folder(const fs::path& path, std::span<const std::string> folders) {
  if (!folders.empty()) return open_allowed(path, folders, O_DIRECTORY);
  return open_file(path, O_RDONLY | O_DIRECTORY);
}

Result<std::string> read_document(const Fd& file, const fs::path& path) {
  TRY_SET(const uint64_t size, file_size(file.get(), path.string()));
  if (size > kSmallFileMax) return fail(ErrorKind::invalid, path.string() + " is too large");
  return read_at(file.get(), 0, size, path.string());
}

}  // namespace trainyard::container
