#pragma once

#include <cstdint>
#include <functional>

#include "base/file.h"
#include "base/hash.h"
#include "http/client.h"
#include "snapshot/capture.h"

namespace trainyard::client {

// For a progress bar; bytes_total is known from the first call on.
struct Transfer {
  uint64_t files_done = 0;
  uint64_t files_total = 0;
  uint64_t bytes_done = 0;
  uint64_t bytes_total = 0;
};
using OnTransfer = std::function<void(const Transfer&)>;

// What a server did not have yet.
struct Uploaded {
  uint64_t files = 0;
  uint64_t bytes = 0;
};

// Brings what `captured` names in `folder` to the server: nothing but one small question when the
// server has the tree already, else the missing blobs in packs and, when all of them are kept, the
// tree's own text. Idempotent: after `unavailable` call it again, and what has arrived is not sent
// again. A file that no longer holds what was captured is `conflict` with its name. Memory does not
// grow with the files.
// `workspace` is the one it is submitted to; an attempt's own where it is empty.
Result<Uploaded> upload_missing(http::Client& client, const fs::path& folder,
                                const snapshot::Captured& captured,
                                const OnTransfer& on_transfer = {},
                                std::string_view workspace = {});

// Makes the tree in `folder` (made if need be), with modes and symlinks. What is there under the
// same name is replaced; a file gets its name only when it is whole and its digest is right. A
// symlink in `folder` is never followed: it is `conflict`.
// `of` says whose blobs they are: wire::run_url(), or an environment's URL; empty: those of the
// attempt whose token the client has. `below`, a relative path, is where in `folder` the tree
// begins: links on the way there are not followed either.
Status download_tree(http::Client& client, const snapshot::Tree& tree, const fs::path& folder,
                     const OnTransfer& on_transfer = {}, std::string_view of = {},
                     std::string_view below = {});

// A blob in a file without a name on the file system of `tmp`, verified and read from its start;
// for snapshot::checkout(…, threads = 1), because a Client is one thread's.
Result<Fd> fetch_blob(http::Client& client, const Digest& digest, const fs::path& tmp);

// A small blob, such as a tree's text, in memory; `invalid` when it is larger than `size_max`.
Result<std::string> fetch_text(http::Client& client, const Digest& digest, std::string_view of = {},
                               size_t size_max = 256 * 1024 * 1024);

}  // namespace trainyard::client
