#include <mutex>
#include <optional>

#include "base/text.h"
#include "blob/blob_store.h"
#include "client/blobs.h"
#include "snapshot/capture.h"
#include "supervisor/steps.h"

namespace trainyard::supervisor {
namespace {

// Blobs from the folder the server shares with us where it holds them, else over the API.
class CodeSource {
 public:
  CodeSource(const Context& context, blob::Store* folder)
      : folder_(folder),
        tmp_(context.layout.tmp()),
        address_(context.server()),
        token_(context.assignment.token) {}

  Result<std::string> text(const Digest& digest) {
    if (folder_ != nullptr) {
      if (const Result<Fd> fd = folder_->open(digest)) {
        TRY_SET(const uint64_t size, file_size(fd->get(), "read the snapshot"));
        return read_at(fd->get(), 0, size, "read the snapshot");
      }
    }
    std::lock_guard lock(mutex_);
    return client::fetch_text(connection(), digest);
  }

  Result<Fd> open(const Digest& digest) {
    if (folder_ != nullptr) {
      if (Result<Fd> fd = folder_->open(digest)) return fd;
    }
    std::lock_guard lock(mutex_);
    TRY(make_dirs(tmp_));
    return client::fetch_blob(connection(), digest, tmp_);
  }

 private:
  http::Client& connection() {
    if (!client_) client_.emplace(address_, token_);
    return *client_;
  }

  blob::Store* const folder_;
  const fs::path tmp_;
  const http::Address address_;
  const std::string token_;
  std::mutex mutex_;
  std::optional<http::Client> client_;  // Held by mutex_; made when it is needed.
};

Status try_fetch(Context& context, const Digest& snapshot, CodeSource& source) {
  // What an earlier try or an earlier supervisor left half-made.
  TRY(remove_tree(context.layout.work()));
  TRY_SET(const std::string text, source.text(snapshot));
  if (sha256(text) != snapshot) {
    return fail(ErrorKind::internal, "the snapshot's list is not what its name says");
  }
  TRY_SET(const snapshot::Tree tree, snapshot::decode(text));
  TRY(snapshot::checkout(tree, context.layout.work(),
                         [&](const snapshot::Entry& entry) { return source.open(entry.digest); }));
  context.log.line("code: " + std::to_string(tree.files()) + " files, " +
                   format_size(tree.bytes()));
  return {};
}

}  // namespace

Status fetch_code(Context& context) {
  const std::string& name = context.assignment.spec.snapshot;
  if (name.empty()) return {};
  TRY_SET(const Digest snapshot, Digest::from_hex(name));
  std::unique_ptr<blob::Store> folder;
  if (!context.assignment.blobs.empty()) {
    // One that cannot be opened is as one that is empty.
    if (auto opened = blob::open_folder(context.assignment.blobs, context.layout.tmp())) {
      folder = *std::move(opened);
    }
  }
  CodeSource source(context, folder.get());
  return context.try_until_answered([&] { return try_fetch(context, snapshot, source); });
}

}  // namespace trainyard::supervisor
