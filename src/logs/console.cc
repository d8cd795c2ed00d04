#include "logs/console.h"

#include <endian.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace trainyard::logs {
namespace {

// Three u64: attempt, start, base; of bytes that were lost: attempt with this bit, start, offset.
constexpr size_t kSeamSize = 24;
constexpr uint64_t kLostBit = uint64_t{1} << 63;
constexpr uint64_t kOffsetMax = uint64_t{1} << 62;  // Of what a sender may say.
constexpr size_t kIovMax = 512;                     // Pieces a write; Linux allows 1024.
constexpr size_t kViewWindow = 256 * 1024;          // Bytes read at once to pick a view from.
constexpr size_t kViewScanMax = 4 << 20;  // Read for one answer, however little of it is shown.

// `skip` bytes less at the front.
std::vector<Piece> rest_of(std::span<const Piece> pieces, uint64_t skip);
uint64_t total(std::span<const Piece> pieces);
// Its length follows from the number: the file of seams does not say it.
std::string lost_line(uint64_t bytes);
Status write_pieces(int fd, std::span<const Piece> pieces, uint64_t offset, std::string_view what);

}  // namespace

Console::Console(fs::path folder, int rank) : folder_(std::move(folder)), rank_(rank) {}

std::string Console::file_name(int rank, std::string_view ending) {
  return fmt::format("console-{}.{}", rank, ending);
}

Result<uint64_t> Console::append(int attempt, uint64_t from, std::span<const Piece> pieces,
                                 Gap gap) {
  const auto number = static_cast<uint64_t>(attempt);
  const uint64_t sent = total(pieces);
  std::lock_guard lock(mutex_);
  TRY(open(Make::no));
  TRY(follow_cut());
  if (number < newest_attempt()) {
    return fail(ErrorKind::conflict,
                fmt::format("attempt {} is over: attempt {} writes this console", attempt,
                            newest_attempt()));
  }
  if (gap == Gap::lost && from > have(number) && from <= kOffsetMax) TRY(skip_lost(attempt, from));
  const uint64_t here = have(number);
  if (from > here || from + sent <= here) return here;

  TRY(open(Make::yes));
  std::vector<Piece> fresh = rest_of(pieces, here - from);
  std::string line;
  std::optional<Seam> seam;
  if (number != newest_attempt()) TRY(begin_attempt(attempt, fresh, line, seam));
  TRY(write_or_undo(fresh, seam));
  return have(number);
}

// How many bytes of its own an attempt has, those that were lost counted.
uint64_t Console::have(uint64_t attempt) const {
  if (attempt != newest_attempt()) return 0;
  return seams_.empty() ? size_ : size_ - seams_.back().base + seams_.back().offset;
}

// `line` holds what is put in front of `pieces`.
Status Console::begin_attempt(int attempt, std::vector<Piece>& pieces, std::string& line,
                              std::optional<Seam>& seam) {
  TRY_SET(line, seam_line(attempt));
  // Our own words go with stderr: what a script printed to stdout stays as it was.
  pieces.insert(pieces.begin(), Piece{Stream::err, line});
  seam = Seam{static_cast<uint64_t>(attempt), size_, size_ + line.size()};
  return {};
}

Status Console::skip_lost(int attempt, uint64_t from) {
  TRY(open(Make::yes));
  const auto number = static_cast<uint64_t>(attempt);
  if (number != newest_attempt()) {
    std::vector<Piece> none;
    std::string line;
    std::optional<Seam> seam;
    TRY(begin_attempt(attempt, none, line, seam));
    TRY(write_or_undo(none, seam));
  }
  const std::string line = lost_line(from - have(number));
  const Piece piece{Stream::err, line};
  return write_or_undo({&piece, 1}, Seam{number, size_, size_ + line.size(), from});
}

Status Console::write_or_undo(std::span<const Piece> pieces, std::optional<Seam> seam) {
  Status written = write(pieces, seam);
  if (!written) undo();
  return written;
}

Result<std::string> Console::seam_line(int attempt) {
  std::string line = fmt::format("--- attempt {} ---\n", attempt);
  if (size_ == 0) return line;
  TRY_SET(const std::string end, read_at(log_.get(), size_ - 1, 1, "a console"));
  return end == "\n" ? line : "\n" + line;
}

// The records first: see the header.
Status Console::write(std::span<const Piece> pieces, std::optional<Seam> seam) {
  if (seam) {
    const bool lost = seam->offset > 0;
    const uint64_t words[3] = {htole64(seam->attempt | (lost ? kLostBit : 0)), htole64(seam->start),
                               htole64(lost ? seam->offset : seam->base)};
    char bytes[kSeamSize];
    std::memcpy(bytes, words, kSeamSize);
    TRY_SET(const Fd fd, open_file(folder_ / file_name(rank_, "seams"), O_WRONLY | O_CREAT, 0600));
    TRY(write_all_at(fd.get(), {bytes, kSeamSize}, seams_.size() * kSeamSize, "a console's seams"));
  }
  SwitchIndex index = index_;
  std::string records;
  uint64_t offset = size_;
  for (const Piece& piece : pieces) {
    if (piece.bytes.empty()) continue;
    if (index.count() == 0 || piece.stream != index.last().stream) {
      const Switch record{offset, index.view_size(Stream::out, offset), piece.stream};
      SwitchIndex::encode(record, records);
      index.add(record);
    }
    offset += piece.bytes.size();
  }
  if (!records.empty()) {
    TRY(write_all_at(index_fd_.get(), records, index_.count() * SwitchIndex::kRecordSize,
                     "a console's index"));
  }
  TRY(write_pieces(log_.get(), pieces, size_, "a console"));
  index_ = index;
  size_ = offset;
  if (seam) seams_.push_back(*seam);
  return {};
}

// A full disk took part of it: the files become what we know of them. If even that fails, the next
// append writes over it.
void Console::undo() {
  const auto cut = [](int fd, uint64_t size) {
    [[maybe_unused]] const int rc = ::ftruncate(fd, static_cast<off_t>(size));
  };
  cut(log_.get(), size_);
  cut(index_fd_.get(), index_.count() * SwitchIndex::kRecordSize);
  [[maybe_unused]] const int rc = ::truncate((folder_ / file_name(rank_, "seams")).c_str(),
                                             static_cast<off_t>(seams_.size() * kSeamSize));
}

Status Console::open(Make make) {
  if (log_) return {};
  const fs::path path = folder_ / file_name(rank_, "log");
  const int flags = make == Make::yes ? O_RDWR | O_CREAT : O_RDWR;
  if (make == Make::yes) TRY(make_dirs(folder_, 0700));
  Result<Fd> log = open_file(path, flags, 0600);
  if (!log && make == Make::no && log.error().kind == ErrorKind::not_found) return {};
  if (!log) return std::unexpected(std::move(log).error());
  TRY_SET(index_fd_, open_file(folder_ / file_name(rank_, "idx"), O_RDWR | O_CREAT, 0600));
  log_ = *std::move(log);
  if (Status read = read_state(); !read) {
    log_.reset();
    return read;
  }
  return {};
}

Status Console::read_state() {
  TRY_SET(size_, file_size(log_.get(), "a console"));
  TRY_SET(const uint64_t index_size, file_size(index_fd_.get(), "a console's index"));
  index_ = SwitchIndex(index_fd_.get(), index_size / SwitchIndex::kRecordSize);
  TRY(open_seams());
  return drop_unwritten();
}

// Somebody cut the file under us: written on at the old size it would have zeros in between. The
// sender learns how much is left and sends the rest again.
Status Console::follow_cut() {
  if (!log_) return {};
  TRY_SET(const uint64_t size, file_size(log_.get(), "a console"));
  if (size >= size_) return {};
  durable_ = std::min(durable_, size);
  return read_state();
}

Status Console::open_seams() {
  seams_.clear();
  Result<std::string> bytes = read_file(folder_ / file_name(rank_, "seams"));
  if (!bytes && bytes.error().kind == ErrorKind::not_found) return {};
  TRY(bytes);
  for (size_t at = 0; at + kSeamSize <= bytes->size(); at += kSeamSize) {
    uint64_t words[3];
    std::memcpy(words, bytes->data() + at, kSeamSize);
    Seam seam{le64toh(words[0]), le64toh(words[1]), le64toh(words[2])};
    if ((seam.attempt & kLostBit) != 0) {
      seam.attempt &= ~kLostBit;
      seam.offset = std::exchange(seam.base, 0);
      const Seam before = seams_.empty() ? Seam{.attempt = 1} : seams_.back();
      const uint64_t had = seam.start - before.base + before.offset;
      seam.base = seam.start + lost_line(seam.offset - had).size();
    }
    seams_.push_back(seam);
  }
  return {};
}

// A seam whose line is not all there takes what is there of the line with it.
Status Console::drop_unwritten() {
  while (!seams_.empty() && seams_.back().base > size_) {
    size_ = std::min(size_, seams_.back().start);
    seams_.pop_back();
    if (::ftruncate(log_.get(), static_cast<off_t>(size_)) != 0) {
      return fail_errno(errno, "cut a console");
    }
    const fs::path path = folder_ / file_name(rank_, "seams");
    if (::truncate(path.c_str(), static_cast<off_t>(seams_.size() * kSeamSize)) != 0) {
      return fail_errno(errno, "cut " + path.string());
    }
  }
  return index_.settle(size_);
}

Result<Console::Moment> Console::moment() {
  std::lock_guard lock(mutex_);
  TRY(open(Make::no));
  return Moment{log_.get(), index_, log_ ? size_ : 0};
}

Result<Read> Console::read(View view, uint64_t from, size_t max) {
  TRY_SET(const Moment now, moment());
  if (view == View::both) return read_all(now, from, max);
  return read_view(now, view == View::out ? Stream::out : Stream::err, from, max);
}

Result<Read> Console::read_all(const Moment& now, uint64_t from, size_t max) {
  Read read{.next = from, .size = now.size};
  if (from >= now.size) return read;
  const size_t wanted = std::min<uint64_t>(max, now.size - from);
  TRY_SET(read.bytes, read_at(now.log, from, wanted, "a console"));
  read.next = from + read.bytes.size();
  return read;
}

Result<Read> Console::read_view(const Moment& now, Stream stream, uint64_t from, size_t max) {
  Read read{.next = from, .size = now.index.view_size(stream, now.size)};
  if (from >= read.size) return read;
  SwitchCursor cursor(now.index);
  TRY_SET(uint64_t number, cursor.find_position(stream, from));
  std::string window;
  uint64_t window_start = 0;
  size_t scanned = 0;
  for (; read.bytes.size() < max && read.next < read.size; ++number) {
    TRY_SET(const Switch stretch, cursor.at(number));
    TRY_SET(const Switch after, cursor.at(number + 1));
    if (stretch.stream != stream) continue;
    const uint64_t end = number + 1 < now.index.count() ? after.offset : now.size;
    uint64_t at = stretch.offset + (read.next - stretch.before(stream));
    while (at < end && read.bytes.size() < max) {
      if (at < window_start || at >= window_start + window.size()) {
        if (scanned >= kViewScanMax) return read;
        const size_t wanted = std::min<uint64_t>(kViewWindow, now.size - at);
        TRY_SET(window, read_at(now.log, at, wanted, "a console"));
        if (window.empty()) return fail(ErrorKind::internal, "a console is shorter than it was");
        window_start = at;
        scanned += window.size();
      }
      const uint64_t skip = at - window_start;
      const size_t taken =
          std::min({static_cast<size_t>(end - at), static_cast<size_t>(window.size() - skip),
                    max - read.bytes.size()});
      read.bytes.append(window, skip, taken);
      at += taken;
      read.next += taken;
    }
  }
  return read;
}

Result<FramedRead> Console::read_framed(uint64_t from, size_t max) {
  TRY_SET(const Moment now, moment());
  TRY_SET(Read all, read_all(now, from, max));
  FramedRead framed{.bytes = std::move(all.bytes), .next = all.next, .size = all.size};
  if (framed.bytes.empty()) return framed;
  SwitchCursor cursor(now.index);
  TRY_SET(uint64_t number, cursor.find_offset(from));
  for (uint64_t at = from; at < framed.next; ++number) {
    TRY_SET(const Switch stretch, cursor.at(number));
    TRY_SET(const Switch after, cursor.at(number + 1));
    const uint64_t end =
        number + 1 < now.index.count() ? std::min(after.offset, framed.next) : framed.next;
    if (end > at) framed.parts.push_back({stretch.stream, end - at});
    at = std::max(at, end);
  }
  return framed;
}

Result<uint64_t> Console::size(View view) {
  TRY_SET(const Moment now, moment());
  if (view == View::both) return now.size;
  return now.index.view_size(view == View::out ? Stream::out : Stream::err, now.size);
}

Result<Range> Console::attempt(int number) {
  std::lock_guard lock(mutex_);
  TRY(open(Make::no));
  const auto wanted = static_cast<uint64_t>(number);
  Range range{0, size_};
  bool found = number == 1;
  for (const Seam& seam : seams_) {
    if (seam.attempt > wanted) {
      range.end = seam.start;
      break;
    }
    if (seam.attempt == wanted && seam.offset == 0) {
      range.begin = seam.base;
      found = true;
    }
  }
  if (!found) range.begin = range.end;
  return range;
}

// Appends go on meanwhile: the descriptors stay open as long as we live.
Status Console::sync() {
  int log = -1;
  int index = -1;
  uint64_t size = 0;
  bool first = false;
  {
    std::lock_guard lock(mutex_);
    TRY(open(Make::no));
    if (!log_) return {};
    log = log_.get();
    index = index_fd_.get();
    size = size_;
    first = durable_ == 0;
  }
  if (::fdatasync(index) != 0) return fail_errno(errno, "sync a console's index");
  if (Result<Fd> seams = open_file(folder_ / file_name(rank_, "seams"), O_RDONLY)) {
    if (::fdatasync(seams->get()) != 0) return fail_errno(errno, "sync a console's seams");
  }
  if (::fdatasync(log) != 0) return fail_errno(errno, "sync a console");
  // The names of the files too, once.
  if (first) {
    TRY(sync_dir(folder_));
    TRY(sync_dir(folder_.parent_path()));
  }
  std::lock_guard lock(mutex_);
  durable_ = std::max(durable_, size);
  return {};
}

Result<uint64_t> Console::durable(int attempt) {
  std::lock_guard lock(mutex_);
  TRY(open(Make::no));
  const Seam newest = seams_.empty() ? Seam{.attempt = 1} : seams_.back();
  if (newest.attempt != static_cast<uint64_t>(attempt) || durable_ < newest.base) return 0;
  return durable_ - newest.base + newest.offset;
}

uint64_t Console::unsynced() {
  std::lock_guard lock(mutex_);
  return size_ - std::min(size_, durable_);
}

Result<std::vector<std::string>> Console::check() {
  TRY_SET(const Moment now, moment());
  std::vector<std::string> findings;
  const std::string name = file_name(rank_, "idx");
  SwitchCursor cursor(now.index);
  Switch before;
  for (uint64_t number = 0; number < now.index.count(); ++number) {
    TRY_SET(const Switch record, cursor.at(number));
    const uint64_t gone = record.offset - before.offset;
    const uint64_t out = before.out_before + (before.stream == Stream::out ? gone : 0);
    const bool first_right = number > 0 || record.offset == 0;
    const bool grows = number == 0 || record.offset > before.offset;
    if (!first_right || !grows || record.out_before != out || record.offset >= now.size) {
      findings.push_back(fmt::format("{}: record {} is wrong", name, number));
      break;
    }
    before = record;
  }
  if (now.size > 0 && now.index.count() == 0) findings.push_back(name + ": is missing or empty");
  return findings;
}

namespace {

std::string lost_line(uint64_t bytes) {
  return fmt::format("\n--- {} bytes were lost with the disk of the server ---\n", bytes);
}

uint64_t total(std::span<const Piece> pieces) {
  uint64_t sum = 0;
  for (const Piece& piece : pieces) sum += piece.bytes.size();
  return sum;
}

std::vector<Piece> rest_of(std::span<const Piece> pieces, uint64_t skip) {
  std::vector<Piece> rest;
  rest.reserve(pieces.size() + 1);
  for (const Piece& piece : pieces) {
    const uint64_t skipped = std::min<uint64_t>(skip, piece.bytes.size());
    skip -= skipped;
    if (skipped < piece.bytes.size()) rest.push_back({piece.stream, piece.bytes.substr(skipped)});
  }
  return rest;
}

Status write_pieces(int fd, std::span<const Piece> pieces, uint64_t offset, std::string_view what) {
  std::vector<iovec> parts;
  for (size_t first = 0; first < pieces.size(); first += kIovMax) {
    parts.clear();
    uint64_t size = 0;
    for (const Piece& piece : pieces.subspan(first, std::min(kIovMax, pieces.size() - first))) {
      parts.push_back({const_cast<char*>(piece.bytes.data()), piece.bytes.size()});
      size += piece.bytes.size();
    }
    ssize_t written = 0;
    do {
      written =
          ::pwritev(fd, parts.data(), static_cast<int>(parts.size()), static_cast<off_t>(offset));
    } while (written < 0 && errno == EINTR);
    if (written < 0) return fail_errno(errno, what);
    // A short write is a disk about to be full; going on piece by piece brings its error out.
    uint64_t skip = static_cast<uint64_t>(written);
    uint64_t at = offset + skip;
    if (skip < size) {
      for (const iovec& part : parts) {
        const uint64_t skipped = std::min<uint64_t>(skip, part.iov_len);
        skip -= skipped;
        const std::string_view rest(static_cast<const char*>(part.iov_base) + skipped,
                                    part.iov_len - skipped);
        if (rest.empty()) continue;
        TRY(write_all_at(fd, rest, at, what));
        at += rest.size();
      }
    }
    offset += size;
  }
  return {};
}

}  // namespace
}  // namespace trainyard::logs
