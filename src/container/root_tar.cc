#include "container/root_tar.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace trainyard::container {
namespace {

constexpr uint64_t kBlock = 512;
constexpr size_t kNameMax = 100;
constexpr uint64_t kSizeMax = 077777777777;  // In eleven octal digits; larger ones are binary.
constexpr unsigned kOpenToRead = 0444;
constexpr unsigned kOpenToEnter = 0555;
constexpr unsigned kEverybodys = 01777;

// tar(5), ustar.
struct Block {
  char name[100];
  char mode[8];
  char uid[8];
  char gid[8];
  char size[12];
  char time[12];
  char sum[8];
  char type;
  char link[100];
  char magic[6];
  char version[2];
  char user[32];
  char group[32];
  char major[8];
  char minor[8];
  char prefix[155];
  char unused[12];
};
static_assert(sizeof(Block) == kBlock);

// Zero-padded octal digits and a NUL.
template <size_t size>
void put_number(char (&field)[size], uint64_t value) {
  field[size - 1] = '\0';
  for (size_t i = size - 1; i-- > 0; value >>= 3) field[i] = static_cast<char>('0' + (value & 7));
}

template <size_t size>
void put_text(char (&field)[size], std::string_view text) {
  std::memcpy(field, text.data(), std::min(text.size(), size));
}

struct Described {
  char type = '0';
  unsigned mode = 0644;
  uint64_t size = 0;
  int64_t mtime_s = 0;
};

std::string block_of(std::string_view name, std::string_view link, const Described& described) {
  uint64_t size = described.size;
  Block block{};
  put_text(block.name, name);
  put_text(block.link, link);
  put_number(block.mode, described.mode);
  put_number(block.uid, 0);
  put_number(block.gid, 0);
  put_number(block.time, static_cast<uint64_t>(std::max<int64_t>(described.mtime_s, 0)));
  put_number(block.major, 0);
  put_number(block.minor, 0);
  if (size <= kSizeMax) {
    put_number(block.size, size);
  } else {
    block.size[0] = static_cast<char>(0x80);
    for (size_t i = sizeof block.size; i-- > 1; size >>= 8) {
      block.size[i] = static_cast<char>(size & 0xff);
    }
  }
  block.type = described.type;
  std::memcpy(block.magic, "ustar ", sizeof block.magic);  // GNU's, for its long names.
  std::memcpy(block.version, " ", 2);
  put_text(block.user, "root");
  put_text(block.group, "root");
  std::memset(block.sum, ' ', sizeof block.sum);
  unsigned sum = 0;
  std::string bytes(reinterpret_cast<const char*>(&block), sizeof block);
  for (const char byte : bytes) sum += static_cast<unsigned char>(byte);
  char digits[7];
  put_number(digits, sum);
  std::memcpy(bytes.data() + offsetof(Block, sum), digits, sizeof digits);
  return bytes;
}

// A name that has no room in its block comes before it, as a file.
std::string long_name(const std::string& name, char type) {
  if (name.size() <= kNameMax) return {};
  std::string bytes = block_of("././@LongLink", "", {.type = type, .size = name.size() + 1}) + name;
  bytes.append(kBlock - name.size() % kBlock, '\0');
  return bytes;
}

bool is_everybodys(const std::string& folder) { return folder == "tmp/" || folder == "var/tmp/"; }

}  // namespace

uint64_t RootTar::padded(uint64_t size) { return (size + kBlock - 1) / kBlock * kBlock; }

Result<RootTar> RootTar::open(const fs::path& root) {
  RootTar tar(root);
  std::vector<fs::path> paths;
  std::error_code error;
  fs::recursive_directory_iterator entry(root, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    paths.push_back(entry->path());
  }
  if (error) return fail_errno(error.value(), "list " + root.string());
  std::ranges::sort(paths);
  for (const fs::path& path : paths) TRY(tar.add(path));
  for (const Entry& each : tar.entries_) tar.size_ += header(each).size() + padded(each.size);
  tar.size_ += 2 * kBlock;  // Its end.
  return tar;
}

Status RootTar::add(const fs::path& path) {
  struct stat found{};
  if (::lstat(path.c_str(), &found) != 0) return fail_errno(errno, path.string());
  Entry entry{.path = path.lexically_relative(root_), .mode = found.st_mode & 0777};
  entry.mtime_s = found.st_mtim.tv_sec;
  if (S_ISDIR(found.st_mode)) {
    entry.path += "/";
    entry.mode = is_everybodys(entry.path) ? kEverybodys : entry.mode | kOpenToEnter;
  } else if (S_ISREG(found.st_mode)) {
    entry.size = static_cast<uint64_t>(found.st_size);
    entry.mode |= (entry.mode & S_IXUSR) != 0 ? kOpenToEnter : kOpenToRead;
  } else if (S_ISLNK(found.st_mode)) {
    std::error_code error;
    entry.link = fs::read_symlink(path, error);
    if (error) return fail_errno(error.value(), path.string());
  } else {
    return {};
  }
  entries_.push_back(std::move(entry));
  return {};
}

std::string RootTar::header(const Entry& entry) {
  const char type = !entry.link.empty() ? '2' : entry.path.ends_with('/') ? '5' : '0';
  return long_name(entry.link, 'K') + long_name(entry.path, 'L') +
         block_of(entry.path, entry.link, {type, entry.mode, entry.size, entry.mtime_s});
}

Result<size_t> RootTar::read(char* buffer, size_t size) {
  for (;;) {
    if (head_at_ < head_.size()) {
      const size_t piece = std::min(size, head_.size() - head_at_);
      std::memcpy(buffer, head_.data() + head_at_, piece);
      head_at_ += piece;
      return piece;
    }
    if (left_ > 0) return read_file_bytes(buffer, size);
    if (!padding_.empty()) {
      head_ = std::exchange(padding_, {});
      head_at_ = 0;
      continue;
    }
    if (ended_) return size_t{0};
    TRY(begin_next());
  }
}

Status RootTar::begin_next() {
  head_at_ = 0;
  if (next_ == entries_.size()) {
    head_.assign(2 * kBlock, '\0');
    ended_ = true;
    return {};
  }
  const Entry& entry = entries_[next_++];
  head_ = header(entry);
  if (entry.size == 0) return {};
  TRY_SET(file_, open_file(root_ / entry.path, O_RDONLY | O_NOFOLLOW));
  left_ = entry.size;
  padding_.assign(padded(entry.size) - entry.size, '\0');
  return {};
}

Result<size_t> RootTar::read_file_bytes(char* buffer, size_t size) {
  const fs::path path = root_ / entries_[next_ - 1].path;
  const ssize_t got = ::read(file_.get(), buffer, std::min<uint64_t>(size, left_));
  if (got < 0) return fail_errno(errno, "read " + path.string());
  if (got == 0) return fail(ErrorKind::conflict, path.string() + " has become shorter");
  left_ -= static_cast<uint64_t>(got);
  return static_cast<size_t>(got);
}

}  // namespace trainyard::container
