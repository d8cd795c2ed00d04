#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "client/blobs.h"
#include "snapshot/folder_cursor.h"
#include "snapshot/new_file.h"
#include "wire/json.h"
#include "wire/urls.h"

namespace trainyard::client {
namespace {

using snapshot::Entry;
using snapshot::EntryKind;
using snapshot::FolderCursor;
using snapshot::name_of;
using snapshot::parent_of;

// Hands a blob's bytes to `take`, and fails unless they are its bytes.
Status fetch(http::Client& client, std::string_view of, const Digest& digest,
             const std::function<Status(std::string_view)>& take) {
  Hasher hasher;
  http::ClientRequest request;
  request.target = std::string(of.empty() ? wire::kApi : of) + "/blobs/" + digest.hex();
  request.sink = [&](std::string_view bytes) {
    hasher.add(bytes);
    return take(bytes);
  };
  TRY_SET(const http::Response response, client.send(request));
  if (response.status / 100 != 2) {
    return std::unexpected(wire::error_from_answer(response.status, response.body));
  }
  if (hasher.finish() == digest) return {};
  return fail(ErrorKind::internal, "blob " + digest.hex() + " came with other bytes");
}

class Downloader {
 public:
  struct Place {
    std::string_view of;
    std::string_view below;
  };
  Downloader(http::Client& client, const OnTransfer& on_transfer, const Place& place)
      : client_(client), on_transfer_(on_transfer), of_(place.of), below_(place.below) {}

  Status run(const snapshot::Tree& tree, const fs::path& folder);

 private:
  Status make(FolderCursor& cursor, const Entry& entry);
  Status make_file(snapshot::NewFile& partial, const Entry& entry);
  void tell() const {
    if (on_transfer_) on_transfer_(transfer_);
  }

  http::Client& client_;
  const OnTransfer& on_transfer_;
  const std::string_view of_;
  const std::string below_;
  Transfer transfer_;
};

Status Downloader::run(const snapshot::Tree& tree, const fs::path& folder) {
  TRY(check(tree));
  transfer_.files_total = tree.files();
  transfer_.bytes_total = tree.bytes();
  tell();
  TRY_SET(const Fd root, snapshot::open_root(folder));
  FolderCursor cursor(root.get(), folder, FolderCursor::Missing::make);
  if (!below_.empty()) {
    TRY(check_relative_path(below_));
    TRY(cursor.at(below_));
  }
  for (const Entry& entry : tree.entries) {
    TRY_WITHIN((folder / below_ / entry.path).string(), make(cursor, entry));
  }
  return {};
}

Status Downloader::make(FolderCursor& cursor, const Entry& entry) {
  const bool is_folder = entry.kind == EntryKind::folder;
  const std::string path = below_.empty() ? entry.path : below_ + "/" + entry.path;
  TRY_SET(const int folder, cursor.at(is_folder ? std::string_view(path) : parent_of(path)));
  if (is_folder) return {};
  snapshot::NewFile partial(folder);
  if (entry.kind == EntryKind::symlink) {
    TRY(partial.create_symlink(entry.target));
  } else {
    TRY(make_file(partial, entry));
  }
  return partial.rename_to(std::string(name_of(entry.path)));
}

Status Downloader::make_file(snapshot::NewFile& partial, const Entry& entry) {
  TRY_SET(const Fd fd, partial.create(entry.kind == EntryKind::executable ? 0755 : 0644));
  uint64_t size = 0;
  TRY(fetch(client_, of_, entry.digest, [&](std::string_view bytes) -> Status {
    size += bytes.size();
    transfer_.bytes_done += bytes.size();
    tell();
    return write_all(fd.get(), bytes, "write");
  }));
  if (size != entry.size) {
    return fail(ErrorKind::internal,
                "blob " + entry.digest.hex() + " has another size than its tree says");
  }
  ++transfer_.files_done;
  tell();
  return {};
}

}  // namespace

Status download_tree(http::Client& client, const snapshot::Tree& tree, const fs::path& folder,
                     const OnTransfer& on_transfer, std::string_view of, std::string_view below) {
  return Downloader(client, on_transfer, {of, below}).run(tree, folder);
}

Result<Fd> fetch_blob(http::Client& client, const Digest& digest, const fs::path& tmp) {
  TRY(make_dirs(tmp, 0700));
  std::string path = (tmp / "fetch.XXXXXX").string();
  Fd fd(mkostemp(path.data(), O_CLOEXEC));
  if (!fd) return fail_errno(errno, "write " + path);
  unlink(path.c_str());
  TRY(fetch(client, {}, digest,
            [&](std::string_view bytes) { return write_all(fd.get(), bytes, "write " + path); }));
  if (lseek(fd.get(), 0, SEEK_SET) != 0) return fail_errno(errno, "read " + path);
  return fd;
}

Result<std::string> fetch_text(http::Client& client, const Digest& digest, std::string_view of,
                               size_t size_max) {
  std::string text;
  TRY(fetch(client, of, digest, [&](std::string_view bytes) -> Status {
    if (bytes.size() > size_max - text.size()) {
      return fail(ErrorKind::invalid, "blob " + digest.hex() + " is too large to be a text");
    }
    text.append(bytes);
    return {};
  }));
  return text;
}

}  // namespace trainyard::client
