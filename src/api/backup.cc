#include "api/backup.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

#include "api/lock.h"
#include "base/copy_error.h"
#include "base/hash.h"
#include "base/process.h"
#include "base/version.h"
#include "db/db.h"

namespace trainyard::api {
namespace {

using wire::Json;

constexpr int kFormat = 1;
constexpr const char* kManifest = "manifest.json";
constexpr const char* kDatabase = "trainyard.db";
constexpr const char* kSecretsKey = "secrets.key";
constexpr size_t kKeyIdSize = 16;

// A hard link, where we may; else a copy.
enum class How { link, copy };

struct Copied {
  int64_t files = 0;
  int64_t bytes = 0;
};

Status copy_one(const fs::path& from, const fs::path& to, How how, Copied& copied);
Status copy_tree(const fs::path& from, const fs::path& to, How how, Copied& copied);
Status sync_everything(const fs::path& folder);
Result<Json> read_manifest(const fs::path& folder);
Result<int64_t> count_secrets(store::Store& store);
Result<std::string> key_id_of(const fs::path& key_file);
Status check_key_file(const fs::path& key, const Json& manifest);
Result<bool> restore_key(const fs::path& folder, const Home& home, const fs::path& key,
                         const Json& manifest);

bool is_inside(const fs::path& path, const fs::path& folder) {
  const fs::path relative = path.lexically_normal().lexically_relative(folder.lexically_normal());
  return !relative.empty() && *relative.begin() != "..";
}

Status check_folder(const fs::path& folder, const Home& home) {
  if (!folder.is_absolute()) {
    return fail(ErrorKind::invalid, "folder: must be an absolute path");
  }
  if (is_inside(folder, home.root())) {
    return fail(ErrorKind::invalid, "a backup inside the home would be lost with it",
                "Name a folder elsewhere, best on another disk.");
  }
  std::error_code error;
  if (fs::exists(folder, error) && !fs::is_empty(folder, error)) {
    return fail(ErrorKind::conflict, folder.string() + " is not empty",
                "Name a new or an empty folder.");
  }
  return {};
}

}  // namespace

Result<Json> backup_to(const BackupParts& parts, const fs::path& folder, KeyFile how) {
  TRY(check_folder(folder, parts.home));
  TRY(make_dirs(folder, 0700));
  const WallTime now = parts.clock.wall();
  TRY(parts.store.backup_to(folder / kDatabase));
  Copied blobs;
  TRY(copy_tree(parts.home.blobs(), folder / "blobs", How::link, blobs));
  Copied runs;
  TRY(copy_tree(parts.home.runs(), folder / "runs", How::copy, runs));
  // What is made again of an environment is made by them; runs show them as a file of theirs.
  Copied locks;
  TRY(copy_tree(parts.home.environments() / "locks", folder / "locks", How::copy, locks));
  // Without it the secrets in the database would be lost; with it the backup is as secret as they.
  Copied key;
  if (how == KeyFile::copy) {
    TRY(copy_one(parts.home.secrets_key(), folder / kSecretsKey, How::copy, key));
  }
  TRY_SET(const int64_t secrets, count_secrets(parts.store));
  TRY_SET(const std::string key_id, key_id_of(parts.home.secrets_key()));
  TRY(sync_everything(folder));
  Json manifest = {{"format", kFormat},
                   {"version", kVersion},
                   {"createdAt", format_time(now)},
                   {"host", host_name()},
                   {"home", parts.home.root().string()},
                   {"folder", folder.string()},
                   {"blobs", blobs.files},
                   {"blobBytes", blobs.bytes},
                   {"runFiles", runs.files},
                   {"runBytes", runs.bytes},
                   {"keyFile", key.files > 0 ? Json(kSecretsKey) : Json()},
                   {"keyId", key_id},
                   {"secrets", secrets}};
  TRY(write_file(folder / kManifest, wire::dump_pretty(manifest) + "\n", 0600, Durable::yes));
  return manifest;
}

Result<Json> restore(const fs::path& folder, const Home& home, const fs::path& key) {
  TRY_SET(Json manifest, read_manifest(folder));
  TRY(check_key_file(key, manifest));
  std::error_code error;
  if (fs::exists(home.database(), error)) {
    return fail(ErrorKind::conflict, home.root().string() + " has a database already",
                "Restore into a new home: trainyard --home FOLDER server restore BACKUP");
  }
  TRY(prepare_home(home));
  TRY_SET(HomeLock lock, HomeLock::take(home));
  Copied copied;
  TRY(copy_tree(folder / "blobs", home.blobs(), How::copy, copied));
  TRY(copy_tree(folder / "runs", home.runs(), How::copy, copied));
  TRY(copy_tree(folder / "locks", home.environments() / "locks", How::copy, copied));
  TRY_SET(manifest["missingKey"], restore_key(folder, home, key, manifest));
  const fs::path half = home.tmp() / kDatabase;
  fs::remove(half, error);
  fs::copy_file(folder / kDatabase, half, error);
  if (error) return std::unexpected(copy_error(error, home.root(), "copy the database"));
  TRY(sync_everything(home.root()));
  fs::rename(half, home.database(), error);
  if (error) return fail_errno(error.value(), "put the database in its place");
  TRY(sync_dir(home.root()));
  lock.clear();
  return manifest;
}

namespace {

Result<Json> read_manifest(const fs::path& folder) {
  Result<std::string> text = read_file(folder / kManifest);
  if (!text) {
    return fail(
        text.error().kind == ErrorKind::not_found ? ErrorKind::not_found : text.error().kind,
        folder.string() + " is no whole backup: " + text.error().message);
  }
  Result<Json> manifest = wire::parse(*text);
  if (!manifest) return std::unexpected(std::move(manifest).error().within(kManifest));
  TRY_SET(const int64_t format, wire::int_member(*manifest, "format"));
  if (format != kFormat) {
    return fail(ErrorKind::conflict,
                "the backup is of format " + std::to_string(format) + ", this version reads " +
                    std::to_string(kFormat),
                "Use the version that made it, or a newer one.");
  }
  return manifest;
}

Result<int64_t> count_secrets(store::Store& store) {
  int64_t count = 0;
  const auto look = [&](db::Db& db) -> Status {
    TRY_SET(db::Statement row, db.query("SELECT COUNT(*) FROM secrets"));
    TRY_SET(const bool any, row.next());
    if (any) count = row.integer(0);
    return {};
  };
  TRY(store.read(look));
  return count;
}

// Tells keys apart and says nothing about the key, which is random. Empty: there is no key yet.
Result<std::string> key_id_of(const fs::path& key_file) {
  const Result<std::string> key = read_file(key_file);
  if (key) return sha256("trainyard key " + *key).hex().substr(0, kKeyIdSize);
  if (key.error().kind == ErrorKind::not_found) return std::string();
  return std::unexpected(key.error());
}

Status check_key_file(const fs::path& key, const Json& manifest) {
  if (key.empty()) return {};
  TRY_SET(const std::string id, key_id_of(key));
  if (id.empty()) return fail(ErrorKind::not_found, "there is no key file " + key.string());
  TRY_SET(const std::string wanted, wire::string_member(manifest, "keyId"));
  if (wanted.empty() || id == wanted) return {};
  return fail(ErrorKind::invalid, key.string() + " is the key of another home: it has the id " +
                                      id + ", the backup needs " + wanted);
}

// True: the secrets cannot be read, because no key came with the backup.
Result<bool> restore_key(const fs::path& folder, const Home& home, const fs::path& key,
                         const Json& manifest) {
  Copied copied;
  TRY(copy_one(key.empty() ? folder / kSecretsKey : key, home.secrets_key(), How::copy, copied));
  if (copied.files > 0) {
    if (::chmod(home.secrets_key().c_str(), 0600) != 0) return fail_errno(errno, "chmod the key");
    return false;
  }
  TRY_SET(const int64_t secrets, wire::int_member(manifest, "secrets"));
  return secrets > 0;
}

// Which of a run's files is copied when: while a run prints, a copy of its console's records may be
// newer than the bytes, as after a crash, and never older (logs/console.h).
int order_of(const fs::path& name) {
  constexpr std::array<std::string_view, 3> kOrder = {".log", ".idx", ".seams"};
  const auto at = std::ranges::find(kOrder, name.extension().string());
  return static_cast<int>(at - kOrder.begin());
}

Status copy_one(const fs::path& from, const fs::path& to, How how, Copied& copied) {
  std::error_code error;
  const bool linked = how == How::link && ::link(from.c_str(), to.c_str()) == 0;
  if (!linked) {
    fs::copy_file(from, to, fs::copy_options::overwrite_existing, error);
    // A run deleted meanwhile is no part of what is kept.
    if (error == std::errc::no_such_file_or_directory) return {};
    if (error) return std::unexpected(copy_error(error, to.parent_path(), "copy " + from.string()));
  }
  ++copied.files;
  const uintmax_t size = fs::file_size(to, error);
  if (!error) copied.bytes += static_cast<int64_t>(size);
  return {};
}

Status copy_tree(const fs::path& from, const fs::path& to, How how, Copied& copied) {
  TRY(make_dirs(to, 0700));
  std::vector<fs::directory_entry> entries;
  std::error_code error;
  for (fs::directory_iterator at(from, error), end; !error && at != end; at.increment(error)) {
    entries.push_back(*at);
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return fail_errno(error.value(), "read " + from.string());
  }
  std::ranges::stable_sort(entries, {}, [](const fs::directory_entry& entry) {
    return order_of(entry.path().filename());
  });
  for (const fs::directory_entry& entry : entries) {
    const fs::path target = to / entry.path().filename();
    if (entry.is_directory(error)) {
      TRY(copy_tree(entry.path(), target, how, copied));
    } else if (entry.is_regular_file(error)) {
      TRY(copy_one(entry.path(), target, how, copied));
    }
  }
  return {};
}

Status sync_everything(const fs::path& folder) {
  TRY_SET(const Fd fd, open_file(folder, O_RDONLY | O_DIRECTORY));
  if (::syncfs(fd.get()) != 0) return fail_errno(errno, "sync " + folder.string());
  return {};
}

}  // namespace
}  // namespace trainyard::api
