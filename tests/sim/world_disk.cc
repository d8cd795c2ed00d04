#include <fcntl.h>
#include <sys/stat.h>

#include "world.h"

// What a power failure leaves of the database: in WAL mode a commit that is not synced is a stretch
// at the end of the log, and the file loses such stretches from its end.
namespace trainyard::sim {
namespace {

constexpr size_t kSaltAt = 16;  // In the log's head: two words, others each time it is begun anew.
constexpr size_t kSaltSize = 8;

int64_t written_ns(const fs::path& path) {
  struct stat status{};
  if (stat(path.c_str(), &status) != 0) return 0;
  return status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec;
}

}  // namespace

World::Wal World::wal() const {
  Wal now;
  now.database_ns = written_ns(dir_.path() / "trainyard.db");
  const Result<Fd> fd = open_file(dir_.path() / "trainyard.db-wal", O_RDONLY);
  if (!fd) return now;
  now.size = static_cast<int64_t>(file_size(fd->get(), "the log").value_or(0));
  now.salt = read_at(fd->get(), kSaltAt, kSaltSize, "the log").value_or("");
  return now;
}

void World::begin_unsynced() {
  const Wal now = wal();
  // Something else was written since: it was synced, and all before it too.
  if (!unsynced_ || unsynced_->to != now) unsynced_.emplace(Unsynced{now, now, told_, rules_});
}

void World::end_unsynced() { unsynced_->to = wal(); }

bool World::can_roll_back() const {
  if (old_nodes_ || !unsynced_ || unsynced_->to != wal()) return false;
  const Wal& from = unsynced_->from;
  const Wal& to = unsynced_->to;
  return from.salt == to.salt && from.size < to.size && from.database_ns == to.database_ns;
}

void World::roll_back() {
  say("and its database goes back");
  ++tally_.rolled_back;
  const fs::path database = dir_.path() / "trainyard.db";
  const fs::path log = dir_.path() / "trainyard.db-wal";
  const Result<std::string> pages = read_file(database);
  const Result<std::string> frames = read_file(log);
  store_.reset();  // It tidies up as a server that is killed does not.
  const bool copied = pages && frames && write_file(database, *pages) &&
                      write_file(log, frames->substr(0, static_cast<size_t>(unsynced_->from.size)));
  rules_.expect(copied, "the database cannot be copied");
  std::error_code ignored;
  fs::remove(dir_.path() / "trainyard.db-shm", ignored);
  told_ = unsynced_->told;
  rules_.go_back(unsynced_->rules);
}

}  // namespace trainyard::sim
