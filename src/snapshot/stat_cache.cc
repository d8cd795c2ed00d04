#include "snapshot/stat_cache.h"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <type_traits>

namespace trainyard::snapshot {
namespace {

// The file: kMagic, the records as they lie in memory, the SHA-256 of all that. It never leaves
// this machine, so its byte order is this machine's; another layout is another magic.
constexpr std::string_view kMagic = "tyStat01";
constexpr int64_t kSecondNs = 1'000'000'000;

using Record = StatCache::Record;
static_assert(std::is_trivially_copyable_v<Record> && sizeof(Record) == 72);

int64_t to_ns(const timespec& time) { return time.tv_sec * kSecondNs + time.tv_nsec; }

bool by_stamp(const Record& a, const Record& b) { return a.stamp < b.stamp; }

std::string encode(const std::vector<Record>& records) {
  std::string bytes(kMagic);
  bytes.resize(kMagic.size() + records.size() * sizeof(Record));
  if (!records.empty()) {
    std::memcpy(bytes.data() + kMagic.size(), records.data(), records.size() * sizeof(Record));
  }
  const Digest sum = sha256(bytes);
  bytes.append(sum.bytes.begin(), sum.bytes.end());
  return bytes;
}

std::vector<Record> decode_row(std::string_view bytes) {
  constexpr size_t kSum = sizeof(Digest::bytes);
  if (!bytes.starts_with(kMagic) || bytes.size() < kMagic.size() + kSum) return {};
  const size_t size = bytes.size() - kMagic.size() - kSum;
  if (size % sizeof(Record) != 0) return {};
  const Digest sum = sha256(bytes.substr(0, bytes.size() - kSum));
  if (std::memcmp(sum.bytes.data(), bytes.data() + bytes.size() - kSum, kSum) != 0) return {};
  std::vector<Record> records(size / sizeof(Record));
  if (size > 0) std::memcpy(records.data(), bytes.data() + kMagic.size(), size);
  return std::is_sorted(records.begin(), records.end(), by_stamp) ? records : std::vector<Record>();
}

}  // namespace

FileStamp FileStamp::of(const struct stat& status) {
  return {.inode = status.st_ino,
          .device = status.st_dev,
          .size = static_cast<uint64_t>(status.st_size),
          .mtime_ns = to_ns(status.st_mtim),
          .ctime_ns = to_ns(status.st_ctim)};
}

int64_t stamp_now_ns() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME_COARSE, &now);
  return to_ns(now);
}

bool is_racy(const FileStamp& stamp, int64_t read_at_ns) {
  const int64_t newest = std::max(stamp.mtime_ns, stamp.ctime_ns);
  // Times without a fraction are those of a file system that counts whole seconds, or two.
  const bool whole_seconds = stamp.ctime_ns % kSecondNs == 0;
  return newest >= read_at_ns - (whole_seconds ? 2 * kSecondNs : 0);
}

StatCache StatCache::load(const fs::path& folder, const fs::path& captured) {
  StatCache cache;
  if (folder.empty()) return cache;
  cache.path_ = folder / (sha256(captured.string()).hex().substr(0, 32) + ".stat");
  // A cache that cannot be read costs time, not correctness.
  if (const auto bytes = read_file(cache.path_); bytes) cache.records_ = decode_row(*bytes);
  return cache;
}

std::optional<Digest> StatCache::find(const FileStamp& stamp) const {
  const auto found =
      std::lower_bound(records_.begin(), records_.end(), stamp,
                       [](const Record& a, const FileStamp& b) { return a.stamp < b; });
  if (found == records_.end() || found->stamp != stamp) return std::nullopt;
  return found->digest;
}

Status StatCache::save(std::vector<Record> records) const {
  if (path_.empty()) return {};
  std::sort(records.begin(), records.end(), by_stamp);
  // Hard links are one inode.
  records.erase(std::unique(records.begin(), records.end()), records.end());
  if (records == records_) return {};
  TRY(make_dirs(path_.parent_path(), 0700));
  return write_file(path_, encode(records), 0600);
}

}  // namespace trainyard::snapshot
