#include "supervisor/spool.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/text.h"
#include "wire/urls.h"

namespace trainyard::supervisor {
namespace {

constexpr uint64_t kReleaseStep = 4 << 20;  // A call for each of these, not for every answer.
constexpr size_t kWindowSize = 16 << 10;
constexpr size_t kShort = 2 << 10;

}  // namespace

Spool::Spool(const fs::path& folder, int rank)
    : path_(folder / ("console-" + std::to_string(rank))) {}

Result<std::unique_ptr<Spool>> Spool::open(const fs::path& folder, int rank) {
  std::unique_ptr<Spool> spool(new Spool(folder, rank));
  Result<Fd> log = open_file(spool->path_.string() + ".log", O_RDWR);
  if (!log && log.error().kind == ErrorKind::not_found) return spool;
  if (!log) return std::unexpected(log.error());
  spool->log_ = *std::move(log);
  TRY(spool->switches_.open(spool->path_.string() + ".idx"));
  TRY_SET(spool->size_, file_size(spool->log_.get(), "read the spool"));
  spool->find_released();
  return spool;
}

// An earlier version, or a full disk, left no file that says it: then the hole at the beginning
// does.
void Spool::find_released() {
  const Result<std::string> text = read_file(path_.string() + ".rel");
  const Result<int64_t> noted = parse_int(text ? trim(*text) : "", "released");
  const off_t data = lseek(log_.get(), 0, SEEK_DATA);
  const uint64_t hole = data > 0 ? static_cast<uint64_t>(data) : 0;
  readable_from_ = std::max(noted && *noted > 0 ? static_cast<uint64_t>(*noted) : 0, hole);
  released_ = readable_from_ > 0 ? readable_from_ + kTailMax : 0;
}

Status Spool::create() {
  // The index first: bytes without it could not be told apart.
  TRY(switches_.create(path_.string() + ".idx"));
  TRY_SET(log_, open_file(path_.string() + ".log", O_RDWR | O_CREAT, 0600));
  return {};
}

Status Spool::append(char stream, std::string_view bytes) {
  if (!log_) TRY(create());
  uint64_t size = size_.load(std::memory_order_relaxed);
  TRY(switches_.add({size, stream}));
  while (!bytes.empty()) {
    const ssize_t put = pwrite(log_.get(), bytes.data(), bytes.size(), static_cast<off_t>(size));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return fail_errno(errno, "keep the console");
    size += static_cast<uint64_t>(put);
    bytes.remove_prefix(static_cast<size_t>(put));
    size_.store(size, std::memory_order_release);
  }
  return {};
}

Result<uint64_t> Spool::read_frames(uint64_t from, size_t size_max, std::string& body) {
  body.clear();
  const uint64_t end = std::min(size(), from + size_max);
  std::array<char, kWindowSize> window;
  uint64_t window_begin = 0;
  uint64_t window_end = 0;
  while (from < end && body.size() + wire::kConsoleHeadSize < size_max) {
    TRY_SET(const SwitchFile::Stretch stretch, switches_.find(from, end));
    const size_t room = size_max - body.size() - wire::kConsoleHeadSize;
    const size_t length = std::min<uint64_t>(stretch.end - from, room);
    body.append(wire::console_head(stretch.stream, static_cast<uint32_t>(length)));
    if (length < kShort) {
      // Lines by turns: one read for many of them.
      if (from < window_begin || from + length > window_end) {
        window_begin = from;
        window_end = std::min<uint64_t>(end, from + kWindowSize);
        TRY(read_exactly(window_begin, window.data(), window_end - window_begin));
      }
      body.append(window.data() + (from - window_begin), length);
    } else {
      const size_t start = body.size();
      body.resize(start + length);
      TRY(read_exactly(from, body.data() + start, length));
    }
    from += length;
  }
  return from;
}

Status Spool::read_exactly(uint64_t from, char* buffer, size_t size) const {
  for (size_t filled = 0; filled < size;) {
    const ssize_t got =
        pread(log_.get(), buffer + filled, size - filled, static_cast<off_t>(from + filled));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno(errno, "read the spool");
    if (got == 0) return fail(ErrorKind::internal, "read the spool: it is shorter than it was");
    filled += static_cast<size_t>(got);
  }
  return {};
}

Result<std::string> Spool::tail(size_t size) const {
  const uint64_t end = this->size();
  std::string bytes(std::min<uint64_t>({end, size, kTailMax}), '\0');
  TRY(read_exactly(end - bytes.size(), bytes.data(), bytes.size()));
  return bytes;
}

void Spool::release(uint64_t offset) {
  const uint64_t end = offset / kReleaseStep * kReleaseStep;
  if (end <= released_ || !log_) return;
  // What is below stays longer by a tail: the last bytes of all are wanted once more.
  const uint64_t begin = readable_from_;
  const uint64_t kept = end - kTailMax;
  // Noted before: bytes that are gone must never be read as the zeros of a hole.
  static_cast<void>(
      write_file(path_.string() + ".rel", std::to_string(kept) + "\n", 0600).has_value());
  readable_from_ = kept;
  // A file system without holes keeps the bytes; the attempt's folder is removed with them.
  static_cast<void>(fallocate(log_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                              static_cast<off_t>(begin), static_cast<off_t>(kept - begin)));
  released_ = end;
}

}  // namespace trainyard::supervisor
