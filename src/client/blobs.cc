#include "client/blobs.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <future>
#include <map>
#include <mutex>

#include "blob/pack.h"
#include "snapshot/folder_cursor.h"
#include "wire/json.h"
#include "wire/urls.h"

namespace trainyard::client {
namespace {

using snapshot::Entry;
using snapshot::EntryKind;
using snapshot::FolderCursor;
using snapshot::name_of;
using snapshot::parent_of;
using Entries = std::vector<const Entry*>;

constexpr size_t kAskMax = 8'000;  // Digests in one question: half a megabyte.
// Two connections share the packs, so that client, server and disk all have something to do. A pack
// ends with the blob that reaches its size.
constexpr uint64_t kPackMin = 4 * 1024 * 1024;
constexpr uint64_t kPackMax = 64 * 1024 * 1024;
constexpr uint64_t kPacks = 4;
constexpr uint64_t kFileCost = 32 * 1024;  // What a file costs beside its bytes, in bytes.
// The server answers a pack when it is on the disk, and that disk may be slow or busy.
constexpr std::chrono::minutes kPackTimeout{5};
constexpr int kRoundsMax = 3;  // How often a file is sent that came out wrong.

bool holds_bytes(const Entry& entry) {
  return entry.kind == EntryKind::file || entry.kind == EntryKind::executable;
}

std::string blobs_url(std::string_view rest = {}) {
  return std::string(wire::kApi) + "/blobs" + std::string(rest);
}

Result<wire::Json> post(http::Client& client, http::ClientRequest request) {
  request.method = http::Method::post;
  TRY_SET(const http::Response response, client.send(request));
  if (response.status / 100 != 2) {
    return std::unexpected(wire::error_from_answer(response.status, response.body));
  }
  return wire::parse(response.body);
}

Result<std::vector<Digest>> digests_in(const wire::Json& json, const char* key) {
  std::vector<Digest> digests;
  const auto list = json.find(key);
  if (list == json.end() || !list->is_array()) {
    return fail(ErrorKind::internal, std::string("the server's answer has no list '") + key + "'");
  }
  for (const auto& item : *list) {
    TRY_SET(digests.emplace_back(),
            Digest::from_hex(item.is_string() ? item.get<std::string>() : ""));
  }
  return digests;
}

// Those of `digests` that the server does not have.
Result<std::vector<Digest>> ask_missing(http::Client& client, const std::vector<Digest>& digests,
                                        std::string_view workspace) {
  std::vector<Digest> missing;
  for (size_t begin = 0; begin < digests.size(); begin += kAskMax) {
    const size_t end = std::min(begin + kAskMax, digests.size());
    wire::Json list = wire::Json::array();
    for (size_t i = begin; i < end; ++i) list.push_back(digests[i].hex());
    http::ClientRequest request;
    request.target = blobs_url("/missing");
    request.headers["content-type"] = "application/json";
    wire::Json body = {{"digests", std::move(list)}};
    if (!workspace.empty()) body["workspace"] = workspace;
    request.body = wire::dump(body);
    TRY_SET(const wire::Json answer, post(client, std::move(request)));
    TRY_SET(const std::vector<Digest> part, digests_in(answer, "missing"));
    missing.insert(missing.end(), part.begin(), part.end());
  }
  return missing;
}

std::unexpected<Error> changed(const fs::path& path, std::string_view how) {
  return fail(ErrorKind::conflict,
              path.string() + " is no longer what was captured: " + std::string(how),
              "Try again when nothing writes to it.");
}

Result<Fd> in_memory(const std::string& bytes) {
  Fd fd(memfd_create("replaced", MFD_CLOEXEC));
  if (!fd) return fail_errno(errno, "make a file in memory");
  TRY(write_all_at(fd.get(), bytes, 0, "a file in memory"));
  return fd;
}

// A pack as a stream: the files are opened when their turn comes.
class PackSource {
 public:
  using Replaced = std::map<std::string, std::string>;  // Captured::replaced
  PackSource(FolderCursor& cursor, const fs::path& folder, const Replaced& replaced,
             const Entries& entries)
      : cursor_(cursor), folder_(folder), replaced_(replaced), entries_(entries) {}

  uint64_t size() const {
    uint64_t sum = 0;
    for (const Entry* entry : entries_) sum += blob::kPackHeadSize + entry->size;
    return sum;
  }
  // Called with the count of file bytes that were handed out; false: no more is wanted.
  std::function<bool(uint64_t)> on_bytes;

  Result<size_t> fill(char* buffer, size_t size) {
    size_t filled = 0;
    while (filled < size && (!head_.empty() || left_ > 0 || next_ < entries_.size())) {
      if (head_.empty() && left_ == 0) TRY(begin_next());
      const size_t part = head_.copy(buffer + filled, size - filled);
      head_.erase(0, part);
      filled += part;
      const size_t wanted = static_cast<size_t>(std::min<uint64_t>(left_, size - filled));
      TRY(fill_bytes(buffer + filled, wanted));
      filled += wanted;
    }
    return filled;
  }

 private:
  Status begin_next() {
    const Entry& entry = *entries_[next_++];
    const auto open = [&]() -> Result<Fd> {
      const auto bytes = replaced_.find(entry.path);
      if (bytes != replaced_.end()) return in_memory(bytes->second);
      TRY_SET(const int parent, cursor_.at(parent_of(entry.path)));
      Fd fd(openat(parent, std::string(name_of(entry.path)).c_str(),
                   O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
      if (!fd) return fail_errno(errno, "open");
      return fd;
    };
    auto opened = open();
    // Gone, or no longer a file: not what was captured.
    if (!opened) return changed(folder_ / entry.path, opened.error().message);
    fd_ = *std::move(opened);
    head_ = blob::pack_head({entry.digest, entry.size});
    left_ = entry.size;
    return {};
  }

  // A file that has become shorter is filled up: the size is promised already, and the server will
  // call the blob bad.
  Status fill_bytes(char* buffer, size_t size) {
    for (size_t filled = 0; filled < size;) {
      const ssize_t got = ::read(fd_.get(), buffer + filled, size - filled);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0)
        return fail_errno(errno, "read " + (folder_ / entries_[next_ - 1]->path).string());
      if (got == 0) {
        std::fill(buffer + filled, buffer + size, '\0');
        break;
      }
      filled += static_cast<size_t>(got);
    }
    left_ -= size;
    if (!on_bytes(size)) return fail(ErrorKind::cancelled, "the upload was given up");
    return {};
  }

  FolderCursor& cursor_;
  const fs::path& folder_;
  const Replaced& replaced_;
  const Entries& entries_;
  size_t next_ = 0;
  std::string head_;
  uint64_t left_ = 0;
  Fd fd_;
};

class Uploader {
 public:
  Uploader(http::Client& client, const fs::path& folder, const OnTransfer& on_transfer,
           std::string_view workspace)
      : client_(client), folder_(folder), on_transfer_(on_transfer), workspace_(workspace) {}

  Result<Uploaded> run(const snapshot::Captured& captured);

 private:
  Result<Entries> find_missing(const snapshot::Captured& captured);
  // Those that came out wrong.
  Result<Entries> send_round(const Entries& entries);
  Result<Entries> send_packs(http::Client& client, const std::vector<Entries>& packs);
  Result<Entries> send_pack(http::Client& client, FolderCursor& cursor, const Entries& entries);
  Status send_text(const snapshot::Captured& captured);
  void add(uint64_t files, int64_t bytes);

  http::Client& client_;
  const fs::path& folder_;
  const OnTransfer& on_transfer_;
  const std::string_view workspace_;
  const PackSource::Replaced* replaced_ = nullptr;
  Fd root_;
  std::atomic<size_t> next_pack_ = 0;
  std::atomic<bool> failed_ = false;
  std::mutex mutex_;
  Transfer transfer_;
};

void Uploader::add(uint64_t files, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  transfer_.files_done += files;
  transfer_.bytes_done += static_cast<uint64_t>(bytes);
  if (on_transfer_) on_transfer_(transfer_);
}

Result<Uploaded> Uploader::run(const snapshot::Captured& captured) {
  replaced_ = &captured.replaced;
  // The tree goes last, so a server that has it has everything it names.
  TRY_SET(const std::vector<Digest> tree_missing, ask_missing(client_, {captured.id}, workspace_));
  if (tree_missing.empty()) return Uploaded{};
  TRY_SET(Entries entries, find_missing(captured));
  transfer_.files_total = entries.size();
  for (const Entry* entry : entries) transfer_.bytes_total += entry->size;
  add(0, 0);
  TRY_SET(root_, open_file(folder_, O_RDONLY | O_DIRECTORY));
  for (int round = 0; !entries.empty(); ++round) {
    if (round == kRoundsMax) {
      return changed(folder_ / entries[0]->path, "it holds other bytes");
    }
    TRY_SET(entries, send_round(entries));
  }
  TRY(send_text(captured));
  return Uploaded{.files = transfer_.files_total, .bytes = transfer_.bytes_total};
}

Result<Entries> Uploader::find_missing(const snapshot::Captured& captured) {
  std::map<Digest, const Entry*> by_digest;
  for (const Entry& entry : captured.tree.entries) {
    if (holds_bytes(entry)) by_digest.emplace(entry.digest, &entry);
  }
  std::vector<Digest> digests;
  for (const auto& [digest, entry] : by_digest) digests.push_back(digest);
  TRY_SET(const std::vector<Digest> missing, ask_missing(client_, digests, workspace_));
  Entries entries;
  for (const Digest& digest : missing) {
    const auto found = by_digest.find(digest);
    if (found == by_digest.end()) {
      return fail(ErrorKind::internal, "the server asks for a blob that was not named to it");
    }
    entries.push_back(found->second);
    by_digest.erase(found);  // Named twice, it is sent once.
  }
  // Neighbours share their folder.
  std::ranges::sort(entries, {},
                    [](const Entry* entry) -> const std::string& { return entry->path; });
  return entries;
}

std::vector<Entries> packs_of(const Entries& entries) {
  const auto cost_of = [](const Entry* entry) { return kFileCost + entry->size; };
  uint64_t all = 0;
  for (const Entry* entry : entries) all += cost_of(entry);
  const uint64_t pack_max = std::clamp(all / kPacks, kPackMin, kPackMax);
  std::vector<Entries> packs;
  uint64_t cost = pack_max;
  for (const Entry* entry : entries) {
    if (cost >= pack_max) {
      packs.emplace_back();
      cost = 0;
    }
    packs.back().push_back(entry);
    cost += cost_of(entry);
  }
  return packs;
}

Result<Entries> Uploader::send_round(const Entries& entries) {
  const std::vector<Entries> packs = packs_of(entries);
  next_pack_ = 0;
  if (packs.size() == 1) return send_packs(client_, packs);
  http::Client second = client_.sibling();
  auto beside = std::async(std::launch::async, [&] { return send_packs(second, packs); });
  Result<Entries> bad = send_packs(client_, packs);
  const Result<Entries> others = beside.get();
  // The first to fail makes the other one give up.
  if (!others && (bad || bad.error().kind == ErrorKind::cancelled)) return others;
  if (bad) bad->insert(bad->end(), others->begin(), others->end());
  return bad;
}

// As many as it can get: another thread takes from the same.
Result<Entries> Uploader::send_packs(http::Client& client, const std::vector<Entries>& packs) {
  FolderCursor cursor(root_.get(), folder_);
  Entries bad;
  for (size_t at = next_pack_++; at < packs.size() && !failed_; at = next_pack_++) {
    const Result<Entries> part = send_pack(client, cursor, packs[at]);
    if (!part) {
      failed_ = true;
      return part;
    }
    bad.insert(bad.end(), part->begin(), part->end());
  }
  return bad;
}

Result<Entries> Uploader::send_pack(http::Client& client, FolderCursor& cursor,
                                    const Entries& entries) {
  PackSource source(cursor, folder_, *replaced_, entries);
  source.on_bytes = [this](uint64_t bytes) {
    if (bytes > 0) add(0, static_cast<int64_t>(bytes));
    return !failed_;
  };
  http::ClientRequest request;
  request.target = blobs_url();
  request.headers["content-type"] = "application/octet-stream";
  request.timeout = kPackTimeout;
  request.source_size = source.size();
  request.source = [&](char* buffer, size_t size) { return source.fill(buffer, size); };
  TRY_SET(const wire::Json answer, post(client, std::move(request)));
  TRY_SET(const std::vector<Digest> wrong, digests_in(answer, "bad"));
  Entries bad;
  int64_t bad_bytes = 0;
  for (const Entry* entry : entries) {
    if (std::ranges::find(wrong, entry->digest) == wrong.end()) continue;
    bad.push_back(entry);
    bad_bytes += static_cast<int64_t>(entry->size);
  }
  add(entries.size() - bad.size(), -bad_bytes);
  return bad;
}

Status Uploader::send_text(const snapshot::Captured& captured) {
  http::ClientRequest request;
  request.target = blobs_url();
  request.headers["content-type"] = "application/octet-stream";
  request.body = blob::pack_head({captured.id, captured.text.size()}) + captured.text;
  TRY_SET(const wire::Json answer, post(client_, std::move(request)));
  TRY_SET(const std::vector<Digest> bad, digests_in(answer, "bad"));
  if (bad.empty()) return {};
  return fail(ErrorKind::internal, "the server did not keep the snapshot's list of files");
}

}  // namespace

Result<Uploaded> upload_missing(http::Client& client, const fs::path& folder,
                                const snapshot::Captured& captured, const OnTransfer& on_transfer,
                                std::string_view workspace) {
  return Uploader(client, folder, on_transfer, workspace).run(captured);
}

}  // namespace trainyard::client
