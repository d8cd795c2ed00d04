#include "container/unpack.h"

#include <fcntl.h>
#include <fmt/format.h>

#include "base/hash.h"
#include "base/text.h"
#include "container/image_digest.h"
#include "container/image_file.h"
#include "container/oci.h"
#include "container/unpack_layer.h"
#include "container/unpack_skopeo.h"

namespace trainyard::container {
namespace {

constexpr size_t kUnpackPiece = 1024 * 1024;

// A folder that goes with us, and so does what we were making, unless it became whole.
class Workshop {
 public:
  explicit Workshop(fs::path root) : root_(std::move(root)) {
    scratch_ += root_.string() + ".image";
  }
  ~Workshop() {
    static_cast<void>(remove_tree(scratch_).has_value());
    if (!whole_) static_cast<void>(remove_tree(root_).has_value());
  }
  Workshop(const Workshop&) = delete;
  Workshop& operator=(const Workshop&) = delete;

  Status open() {
    std::error_code none;
    if (fs::exists(fs::symlink_status(root_, none))) {
      whole_ = true;  // Not ours to remove.
      return fail(ErrorKind::conflict, root_.string() + " is there already");
    }
    TRY(remove_tree(scratch_));
    TRY(make_dirs(scratch_));
    return make_dirs(root_);
  }
  fs::path scratch(std::string_view name) const { return scratch_ / name; }
  const fs::path& root() const { return root_; }
  void keep() { whole_ = true; }

 private:
  fs::path root_;
  fs::path scratch_;
  bool whole_ = false;
};

class Unpacker {
 public:
  Unpacker(const fs::path& root, const UnpackOptions& options)
      : options_(options), workshop_(root), writer_(root, [this] { return check(); }) {}
  Status open() { return workshop_.open(); }
  fs::path scratch(std::string_view name) const { return workshop_.scratch(name); }

  Result<Unpacked> archive(const fs::path& file);
  Result<Unpacked> layout(const fs::path& folder, std::string_view tag,
                          std::span<const std::string> folders);
  Result<Unpacked> root_filesystem(const fs::path& file);

  Status check() const {
    if (options_.stopped()) return fail(ErrorKind::cancelled, "it is not wanted any more");
    return {};
  }

 private:
  Result<Unpacked> layers(ImageFiles image);
  Result<Unpacked> finish(Unpacked unpacked);
  void line(std::string_view text) const {
    if (options_.line) options_.line(text);
  }

  const UnpackOptions& options_;
  Workshop workshop_;
  LayerWriter writer_;
};

Result<Unpacked> Unpacker::archive(const fs::path& file) {
  const fs::path folder = scratch("archive");
  TRY(make_dirs(folder));
  LayerWriter writer(folder, [this] { return check(); });
  TRY_SET(Fd fd, open_image_file(file, options_.folders));
  TRY_WITHIN(file.string(), apply_layer_file(writer, std::move(fd), file));
  std::error_code none;
  const bool docker = fs::exists(folder / "manifest.json", none);
  if (!docker && !fs::exists(folder / "index.json", none)) {
    return fail(ErrorKind::invalid, file.string() + " is no archive of an image",
                "It has neither manifest.json nor index.json. The tar of a root filesystem is "
                "rootfs:FILE.");
  }
  // Newer ones are both; of the OCI's half every file can be checked.
  TRY_SET(ImageFiles image, docker ? read_docker_archive(folder) : read_oci_layout(folder, ""));
  return layers(std::move(image));
}

Result<Unpacked> Unpacker::layout(const fs::path& folder, std::string_view tag,
                                  std::span<const std::string> folders) {
  TRY_SET(ImageFiles image, read_oci_layout(folder, tag, folders));
  return layers(std::move(image));
}

Result<Unpacked> Unpacker::layers(ImageFiles image) {
  line("unpacking " + image.id);
  for (size_t i = 0; i < image.layers.size(); ++i) {
    const std::string which = fmt::format("layer {} of {}", i + 1, image.layers.size());
    if (options_.progress) options_.progress(which);
    ImageFiles::Layer& layer = image.layers[i];
    TRY_WITHIN(which, apply_layer_file(writer_, std::move(layer.file), layer.path));
  }
  return finish({.id = image.id, .config = image.config});
}

Result<Unpacked> Unpacker::root_filesystem(const fs::path& file) {
  TRY_SET(Fd fd, open_image_file(file, options_.folders));
  Hasher hasher;
  for (uint64_t at = 0;;) {
    TRY(check());
    TRY_SET(const std::string piece, read_at(fd.get(), at, kUnpackPiece, file.string()));
    if (piece.empty()) break;
    hasher.add(piece);
    at += piece.size();
  }
  const std::string id = "sha256:" + hasher.finish().hex();
  line("unpacking " + file.string());
  TRY_WITHIN(file.string(), apply_layer_file(writer_, std::move(fd), file));
  return finish({.id = id, .config = {}});
}

Result<Unpacked> Unpacker::finish(Unpacked unpacked) {
  unpacked.bytes = writer_.bytes();
  unpacked.files = writer_.files();
  if (unpacked.files == 0) return fail(ErrorKind::invalid, "there is nothing in the image");
  line(fmt::format("unpacked {} in {} files", format_size(unpacked.bytes), unpacked.files));
  workshop_.keep();
  return unpacked;
}

}  // namespace

Result<Unpacked> unpack_image(const std::string& reference, const fs::path& root,
                              const UnpackOptions& options) {
  Unpacker unpacker(root, options);
  TRY(unpacker.open());
  const ImageSource source = image_source(reference);
  switch (source.form) {
    case ImageSource::Form::layout:
      return unpacker.layout(source.path, source.tag, options.folders);
    case ImageSource::Form::archive:
      return unpacker.archive(source.path);
    case ImageSource::Form::rootfs:
      return unpacker.root_filesystem(source.path);
    case ImageSource::Form::named:
      break;
  }
  if (options.progress) options.progress("fetching " + reference);
  const fs::path layout = unpacker.scratch("layout");
  TRY(fetch_by_skopeo(reference, layout, options));
  return unpacker.layout(layout, "", {});
}

Result<Unpacked> unpack_from_engine(EngineApi& engine, const std::string& image,
                                    const fs::path& root, const UnpackOptions& options) {
  Unpacker unpacker(root, options);
  TRY(unpacker.open());
  if (options.progress) options.progress("taking the image from the engine");
  const fs::path file = unpacker.scratch("image.tar");
  {
    TRY_SET(const Fd fd, open_file(file, O_WRONLY | O_CREAT | O_TRUNC, 0600));
    const auto write = [&](std::string_view bytes) -> Status {
      TRY(unpacker.check());
      return write_all(fd.get(), bytes, file.string());
    };
    TRY(engine.save(image, write));
  }
  TRY_SET(Unpacked unpacked, unpacker.archive(file));
  // The engine's own word on what it is called.
  TRY_SET(const EngineApi::Image known, engine.image(image));
  unpacked.id = known.id;
  return unpacked;
}

}  // namespace trainyard::container
