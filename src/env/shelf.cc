#include "env/shelf.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <vector>

#include "base/process.h"
#include "wire/json.h"

namespace trainyard::env {
namespace {

constexpr std::string_view kAbout = "environment.json";
constexpr std::string_view kBoot = "boot";
constexpr size_t kHashSize = 64;

// A lock has two bytes: users share the first while somebody who makes it anew, or waits for that,
// has the second. Of an open file, not of a process: threads are kept apart too, and a process that
// is killed leaves none.
enum class Part : off_t { use = 0, making = 1 };
enum class Want : short { shared = F_RDLCK, alone = F_WRLCK };
enum class Wait { no, yes };

// False: another has it.
Result<bool> lock_part(const Fd& fd, Part part, Want want, Wait wait) {
  struct flock range{};
  range.l_type = static_cast<short>(want);
  range.l_whence = SEEK_SET;
  range.l_start = static_cast<off_t>(part);
  range.l_len = 1;
  for (;;) {
    if (::fcntl(fd.get(), wait == Wait::yes ? F_OFD_SETLKW : F_OFD_SETLK, &range) == 0) return true;
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EACCES) return false;
    return fail_errno(errno, "lock an environment");
  }
}

fs::path lock_path(const fs::path& shelf, std::string_view hash) {
  return shelf / (std::string(hash) + ".lock");
}

// Whether the file is still the one of that name: who takes an environment away takes its lock too.
bool is_current(const Fd& fd, const fs::path& path) {
  struct stat ours{};
  struct stat named{};
  return ::fstat(fd.get(), &ours) == 0 && ::stat(path.c_str(), &named) == 0 &&
         ours.st_ino == named.st_ino && ours.st_dev == named.st_dev;
}

// Nothing: another has it.
Result<std::optional<Fd>> take(const fs::path& shelf, std::string_view hash, Part part, Want want,
                               Wait wait) {
  const fs::path path = lock_path(shelf, hash);
  for (;;) {
    TRY_SET(Fd fd, open_file(path, O_RDWR | O_CREAT, 0644));
    TRY_SET(const bool locked, lock_part(fd, part, want, wait));
    if (!locked) return std::nullopt;
    if (is_current(fd, path)) return std::optional<Fd>(std::move(fd));
  }
}

Status check_hash(std::string_view hash) {
  const bool hex = std::ranges::all_of(
      hash, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
  if (hash.size() == kHashSize && hex) return {};
  return fail(ErrorKind::invalid, "'" + std::string(hash) + "' is no environment's hash");
}

// What it is, or nothing where it is not whole.
std::optional<Realised> read_about(const fs::path& folder) {
  const auto text = read_file(folder / kAbout);
  if (!text) return std::nullopt;
  // Syncing its files would cost a tenth of a build; only a power cut in the minutes after one
  // needs it, and costs another build instead.
  const auto boot = read_file(folder / kBoot);
  if (boot && *boot != boot_id()) return std::nullopt;
  const auto json = wire::parse(*text);
  if (!json) return std::nullopt;
  auto realised = wire::decode_realised(*json);
  if (!realised) return std::nullopt;
  return *std::move(realised);
}

Status write_about(const fs::path& folder, const Realised& realised) {
  return write_file(folder / kAbout, wire::dump_pretty(wire::encode(realised)) + "\n");
}

struct Shelved {
  std::vector<fs::path> half_made;
  bool there = false;
};

// All that has the name of a hash, also when only its lock is left.
Result<std::map<std::string, Shelved>> list(const fs::path& shelf) {
  std::map<std::string, Shelved> found;
  std::error_code error;
  for (fs::directory_iterator entry(shelf, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    const std::string hash = name.substr(0, kHashSize);
    if (!check_hash(hash)) continue;
    Shelved& shelved = found[hash];
    const std::string_view rest = std::string_view(name).substr(kHashSize);
    if (rest.empty()) shelved.there = true;
    if (rest.starts_with(".new-")) shelved.half_made.push_back(entry->path());
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return fail_errno(error.value(), "list " + shelf.string());
  }
  return found;
}

// A new, empty one.
Result<fs::path> new_folder(const fs::path& shelf, std::string_view hash) {
  std::string path = shelf / (std::string(hash) + ".new-XXXXXX");
  if (::mkdtemp(path.data()) == nullptr) return fail_errno(errno, "make " + path);
  if (::chmod(path.c_str(), 0755) != 0) return fail_errno(errno, "chmod " + path);
  return fs::path(path);
}

Status rename_folder(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) == 0) return {};
  return fail_errno(errno, "rename " + from.string());
}

// Takes it out of its place at once, and then away: a killed trim leaves only what the next sweeps.
Status remove_whole(const fs::path& shelf, std::string_view hash) {
  TRY_SET(const fs::path aside, new_folder(shelf, hash));
  TRY(rename_folder(shelf / hash, aside));
  return remove_tree(aside);
}

// A program that outlives its killed maker may still write there: what stays goes the next time.
void sweep(const std::vector<fs::path>& half_made) {
  for (const fs::path& left : half_made) static_cast<void>(remove_tree(left));
}

// Once for all that were made since: after it they outlive the power.
Status sync_new(const fs::path& shelf, const std::map<std::string, Shelved>& all) {
  std::vector<fs::path> marks;
  for (const auto& [hash, shelved] : all) {
    const auto boot = read_file(shelf / hash / kBoot);
    if (boot && *boot == boot_id()) marks.push_back(shelf / hash / kBoot);
  }
  if (marks.empty()) return {};
  TRY_SET(const Fd folder, open_file(shelf, O_RDONLY | O_DIRECTORY));
  if (::syncfs(folder.get()) != 0) return fail_errno(errno, "sync " + shelf.string());
  std::error_code none;
  for (const fs::path& mark : marks) fs::remove(mark, none);
  return {};
}

// When it was last used; 0: nobody knows.
int64_t used_ns(const fs::path& shelf, std::string_view hash) {
  struct stat used{};
  if (::stat(lock_path(shelf, hash).c_str(), &used) != 0) return 0;
  return used.st_mtim.tv_sec * 1'000'000'000 + used.st_mtim.tv_nsec;
}

void count_use(const Fd& lock) { static_cast<void>(::futimens(lock.get(), nullptr) == 0); }

}  // namespace

Result<std::optional<Shelf::Held>> Shelf::find(std::string_view hash) const {
  TRY(check_hash(hash));
  const fs::path folder = folder_ / hash;
  if (::access((folder / kAbout).c_str(), F_OK) != 0) return std::nullopt;
  TRY_SET(std::optional<Fd> lock, take(folder_, hash, Part::use, Want::shared, Wait::no));
  if (!lock) return std::nullopt;  // It is being taken away.
  auto realised = read_about(folder);
  if (!realised) return std::nullopt;
  count_use(*lock);
  return Held{*std::move(realised), folder, *std::move(lock)};
}

Result<Shelf::Held> Shelf::make(std::string_view hash, const Make& make) const {
  TRY_SET(auto held, find(hash));
  if (held) return *std::move(held);
  TRY(make_dirs(folder_));
  TRY_SET(const auto making, take(folder_, hash, Part::making, Want::alone, Wait::yes));
  TRY_SET(held, find(hash));  // Made by another while we waited.
  if (held) return *std::move(held);

  TRY_SET(const auto all, list(folder_));
  if (const auto ours = all.find(std::string(hash)); ours != all.end()) {
    sweep(ours->second.half_made);
    if (ours->second.there) TRY(remove_whole(folder_, hash));  // Not whole: a disk that lied.
  }
  TRY_SET(const fs::path folder, new_folder(folder_, hash));
  const auto fill = [&]() -> Result<Realised> {
    TRY_SET(Realised realised, make(folder));
    realised.hash = hash;
    TRY(write_about(folder, realised));
    TRY(write_file(folder / kBoot, boot_id()));
    TRY(rename_folder(folder, folder_ / hash));
    TRY(sync_dir(folder_));
    return realised;
  };
  auto realised = fill();
  if (!realised) {
    static_cast<void>(remove_tree(folder));  // What stays is swept by the next.
    return std::unexpected(std::move(realised).error());
  }
  // Nobody takes it away before we use it: that needs what we have of the lock.
  TRY_SET(auto use, take(folder_, hash, Part::use, Want::shared, Wait::yes));
  count_use(*use);
  return Held{*std::move(realised), folder_ / hash, *std::move(use)};
}

Status Shelf::update(const Held& held, const Realised& realised) const {
  return write_about(held.folder, realised);
}

Result<bool> Shelf::discard(const Realised& useless, const Leaves& leaves) const {
  const std::string& hash = useless.hash;
  TRY(check_hash(hash));
  TRY_SET(const auto making, take(folder_, hash, Part::making, Want::alone, Wait::no));
  if (!making) return false;
  TRY_SET(const bool unused, lock_part(*making, Part::use, Want::alone, Wait::no));
  const auto about = read_about(folder_ / hash);
  if (!unused || !about || !(*about == useless)) return false;
  if (leaves) leaves(useless);
  TRY(remove_whole(folder_, hash));
  std::error_code none;
  fs::remove(lock_path(folder_, hash), none);
  return true;
}

Result<std::vector<Shelf::Kept>> Shelf::all() const {
  TRY_SET(const auto found, list(folder_));
  std::vector<Kept> kept;
  for (const auto& [hash, shelved] : found) {
    auto about = shelved.there ? read_about(folder_ / hash) : std::nullopt;
    if (!about) continue;
    kept.push_back({*std::move(about), WallTime(microseconds(used_ns(folder_, hash) / 1000))});
  }
  return kept;
}

Result<Shelf::Trimmed> Shelf::trim(uint64_t bytes_max, const Leaves& leaves) const {
  struct Candidate {
    int64_t used_ns = 0;
    uint64_t bytes = 0;
    std::string hash;
    Realised realised;
  };
  TRY_SET(const auto all, list(folder_));
  TRY(sync_new(folder_, all));
  std::vector<Candidate> candidates;
  uint64_t total = 0;
  for (const auto& [hash, shelved] : all) {
    const auto about = shelved.there ? read_about(folder_ / hash) : std::nullopt;
    if (about) {
      candidates.push_back({used_ns(folder_, hash), about->bytes, hash, *about});
      total += about->bytes;
    }
    if (about && shelved.half_made.empty()) continue;
    TRY_SET(const auto making, take(folder_, hash, Part::making, Want::alone, Wait::no));
    if (!making) continue;
    sweep(shelved.half_made);
    TRY_SET(const bool unused, lock_part(*making, Part::use, Want::alone, Wait::no));
    if (!unused) continue;
    std::error_code none;
    const bool there = fs::exists(folder_ / hash, none);
    if (there && read_about(folder_ / hash)) continue;  // Made since we looked.
    if (there) TRY(remove_whole(folder_, hash));
    fs::remove(lock_path(folder_, hash), none);
  }
  std::ranges::sort(candidates, {}, &Candidate::used_ns);
  Trimmed trimmed;
  for (const Candidate& candidate : candidates) {
    if (total <= bytes_max) break;
    TRY_SET(const auto making, take(folder_, candidate.hash, Part::making, Want::alone, Wait::no));
    if (!making) continue;
    TRY_SET(const bool unused, lock_part(*making, Part::use, Want::alone, Wait::no));
    if (!unused) continue;
    if (leaves) leaves(candidate.realised);
    TRY(remove_whole(folder_, candidate.hash));
    std::error_code none;
    fs::remove(lock_path(folder_, candidate.hash), none);
    total -= candidate.bytes;
    trimmed.environments += 1;
    trimmed.bytes += candidate.bytes;
  }
  return trimmed;
}

}  // namespace trainyard::env
