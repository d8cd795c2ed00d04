#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/file.h"
#include "base/result.h"
#include "container/unpack_tar.h"

namespace trainyard::container {

// Writes the layers of an image into a folder, one after the other, as an ordinary user can: all
// belongs to us and may be read by us, devices are left out, nothing is setuid. No link leads out
// of the folder while we write, whatever the layers say.
class LayerWriter {
 public:
  // Called now and then; an error ends it.
  using Pulse = std::function<Status()>;
  LayerWriter(fs::path root, Pulse pulse) : root_(std::move(root)), pulse_(std::move(pulse)) {}

  // What the tar has, over what is there; with what it says is gone taken away.
  Status apply(TarReader& tar);

  uint64_t bytes() const { return bytes_; }
  uint64_t files() const { return files_; }

 private:
  Status write_entry(const TarEntry& entry, TarReader& tar);
  Status remove_hidden(const std::string& parent, std::string_view hidden);
  Status remove_opaque(const std::string& parent);
  Status write_file_at(const TarEntry& entry, const std::string& path, TarReader& tar);
  Status write_hardlink(const TarEntry& entry, const std::string& path);
  Result<std::string> place_of_parent(const std::string& folder);
  void remember(std::string_view inside);

  fs::path root_;
  Pulse pulse_;
  std::set<std::string, std::less<>> written_;  // By this layer, paths in the root.
  std::string last_folder_;                     // The parent of the entry before,
  std::string last_place_;                      // and where that is.
  uint64_t bytes_ = 0;
  uint64_t files_ = 0;
};

// A layer's file, of whatever compression: gzip, zstd or none.
Status apply_layer_file(LayerWriter& writer, Fd file, const fs::path& path);

}  // namespace trainyard::container
