#include "blob/blob_store.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <barrier>
#include <thread>
#include <vector>

namespace trainyard::blob {
namespace {

size_t count_files(const fs::path& folder) {
  size_t count = 0;
  if (!fs::exists(folder)) return 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    count += entry.is_directory() ? 0 : 1;
  }
  return count;
}

struct Bench {
  TempDir dir;
  fs::path root = dir.path() / "blobs";
  fs::path tmp = dir.path() / "tmp";
  std::unique_ptr<Store> store = *open_folder(root, tmp);

  fs::path path(const Digest& digest) const {
    return root / digest.hex().substr(0, 2) / digest.hex().substr(2);
  }
  size_t tmp_count() const { return count_files(tmp); }
};

std::string bytes_of(Store& store, const Digest& digest) {
  auto fd = store.open(digest);
  REQUIRE(fd);
  return *read_at(fd->get(), 0, 1 << 24, "blob");
}

// As if it had been written two days ago.
void age(const fs::path& file) {
  timespec old{};
  clock_gettime(CLOCK_REALTIME, &old);
  old.tv_sec -= 2 * 24 * 3600;
  const timespec times[] = {old, old};
  REQUIRE(utimensat(AT_FDCWD, file.c_str(), times, 0) == 0);
}

Sweep sweep_of_a_day(Store& store) {
  return {.used = [](const Digest&) { return false; },
          .before = *store.file_time() - std::chrono::hours(24),
          .proceed = [](const Sweep::Count&) { return true; }};
}

bool keep(Store& store, std::string_view bytes) {
  return store.put(sha256(bytes), bytes).has_value();
}

}  // namespace

TEST_CASE("a kept blob is read back and, once synced, lies under its name") {
  Bench bench;
  const Digest digest = sha256("hello");
  CHECK(!bench.store->has(digest));
  CHECK(bench.store->open(digest).error().kind == ErrorKind::not_found);
  REQUIRE(bench.store->put(digest, "hello"));
  CHECK(bench.store->has(digest));
  CHECK(bytes_of(*bench.store, digest) == "hello");
  CHECK(*bench.store->size(digest) == 5);
  CHECK(!fs::exists(bench.path(digest)));
  REQUIRE(bench.store->sync());
  CHECK(*read_file(bench.path(digest)) == "hello");
  CHECK(bytes_of(*bench.store, digest) == "hello");
  CHECK(bench.tmp_count() == 0);
}

TEST_CASE("no folder is made before it is needed, and those made are ours alone") {
  Bench bench;
  CHECK(!fs::exists(bench.root));
  CHECK(!fs::exists(bench.tmp));
  REQUIRE(bench.store->sync());
  REQUIRE(keep(*bench.store, "x"));
  REQUIRE(bench.store->sync());
  CHECK((fs::status(bench.root).permissions() & fs::perms::group_all) == fs::perms::none);
}

TEST_CASE("an empty blob and one larger than any buffer are kept") {
  Bench bench;
  REQUIRE(keep(*bench.store, ""));
  const std::string large(3'000'001, 'z');
  auto writer = *bench.store->create();
  Hasher hasher;
  for (size_t at = 0; at < large.size(); at += 70'001) {
    const auto piece = std::string_view(large).substr(at, 70'001);
    REQUIRE(writer->write(piece));
    hasher.add(piece);
  }
  REQUIRE(writer->keep(hasher.finish()));
  REQUIRE(bench.store->sync());
  CHECK(*bench.store->size(sha256("")) == 0);
  CHECK(bytes_of(*bench.store, sha256(large)) == large);
}

TEST_CASE("bytes that are not those of the digest are refused and leave nothing") {
  Bench bench;
  auto writer = *bench.store->create();
  REQUIRE(writer->write(std::string(1'000'000, 'a')));
  CHECK(writer->keep(sha256("b")).error().kind == ErrorKind::invalid);
  CHECK(bench.tmp_count() == 0);
  CHECK(!bench.store->has(sha256("b")));
}

TEST_CASE("a writer that is dropped leaves nothing") {
  Bench bench;
  {
    auto writer = *bench.store->create();
    REQUIRE(writer->write(std::string(1'000'000, 'a')));
    CHECK(bench.tmp_count() == 1);
  }
  CHECK(bench.tmp_count() == 0);
}

TEST_CASE("putting what is there already writes nothing") {
  Bench bench;
  REQUIRE(keep(*bench.store, "again"));
  REQUIRE(bench.store->sync());
  struct stat before{};
  stat(bench.path(sha256("again")).c_str(), &before);
  REQUIRE(keep(*bench.store, "again"));
  auto writer = *bench.store->create();
  REQUIRE(writer->write("again"));
  REQUIRE(writer->keep(sha256("again")));
  REQUIRE(bench.store->sync());
  struct stat after{};
  stat(bench.path(sha256("again")).c_str(), &after);
  CHECK(before.st_ino == after.st_ino);
  CHECK(bench.tmp_count() == 0);
}

TEST_CASE("a store that ends in order keeps what nobody synced") {
  Bench bench;
  REQUIRE(keep(*bench.store, "forgotten"));
  bench.store.reset();
  CHECK(fs::exists(bench.path(sha256("forgotten"))));
  CHECK(fs::is_empty(bench.tmp));
}

TEST_CASE("two stores on one folder do not meet in tmp") {
  Bench bench;
  auto other = *open_folder(bench.root, bench.tmp);
  for (int i = 0; i < 20; ++i) {
    REQUIRE(keep(*bench.store, "one " + std::to_string(i)));
    REQUIRE(keep(*other, "two " + std::to_string(i)));
    REQUIRE(keep(*other, "one " + std::to_string(i)));
  }
  REQUIRE(bench.store->sync());
  REQUIRE(other->sync());
  for (int i = 0; i < 20; ++i) {
    CHECK(bench.store->has(sha256("two " + std::to_string(i))));
    CHECK(other->has(sha256("one " + std::to_string(i))));
  }
  CHECK(bench.tmp_count() == 0);
}

TEST_CASE("a hundred threads put, sync and read the same blobs") {
  Bench bench;
  constexpr int kThreads = 100;
  constexpr int kBlobs = 40;
  std::barrier start(kThreads);
  std::atomic<int> failures{0};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        start.arrive_and_wait();
        for (int i = 0; i < kBlobs; ++i) {
          const std::string bytes(static_cast<size_t>(1000 * i), static_cast<char>('a' + i % 26));
          const Digest digest = sha256(bytes);
          if (!bench.store->put(digest, bytes)) ++failures;
          if (i % 8 == t % 8 && !bench.store->sync()) ++failures;
          auto fd = bench.store->open(digest);
          if (!fd || *file_size(fd->get(), "blob") != bytes.size()) ++failures;
        }
        if (!bench.store->sync()) ++failures;
      });
    }
  }
  CHECK(failures == 0);
  CHECK(bench.tmp_count() == 0);
  size_t files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(bench.root)) {
    if (!entry.is_regular_file()) continue;
    ++files;
    CHECK(sha256(*read_file(entry.path())).hex() ==
          entry.path().parent_path().filename().string() + entry.path().filename().string());
  }
  CHECK(files == kBlobs);
}

TEST_CASE("few and many blobs are synced alike") {
  Bench bench;
  for (int i = 0; i < 100; ++i) REQUIRE(keep(*bench.store, "many " + std::to_string(i)));
  REQUIRE(bench.store->sync());
  for (int i = 0; i < 100; ++i) CHECK(fs::exists(bench.path(sha256("many " + std::to_string(i)))));
  CHECK(bench.tmp_count() == 0);
}

TEST_CASE("a kept blob that somebody removed is an error of sync, not a blob") {
  Bench bench;
  REQUIRE(keep(*bench.store, "gone"));
  fs::remove_all(bench.tmp);
  CHECK(!bench.store->sync());
  CHECK(!bench.store->has(sha256("gone")));
  REQUIRE(keep(*bench.store, "gone"));
  REQUIRE(bench.store->sync());
  CHECK(bytes_of(*bench.store, sha256("gone")) == "gone");
}

TEST_CASE("a file where the folder should be is refused at once") {
  TempDir dir;
  REQUIRE(write_file(dir.path() / "blobs", "x"));
  CHECK(open_folder(dir.path() / "blobs", dir.path() / "tmp").error().kind == ErrorKind::conflict);
}

TEST_CASE("a full disk is no_space and leaves nothing half-made") {
  TempDir dir;
  if (mount("none", dir.path().c_str(), "tmpfs", 0, "size=1m") != 0) {
    MESSAGE("skipped: this machine lets us mount no small file system");
    return;
  }
  {
    const fs::path tmp = dir.path() / "tmp";
    auto store = *open_folder(dir.path() / "blobs", tmp);
    REQUIRE(keep(*store, "small"));
    REQUIRE(store->sync());
    const std::string large(4 << 20, 'x');
    CHECK(store->put(sha256(large), large).error().kind == ErrorKind::no_space);
    CHECK(!store->has(sha256(large)));
    CHECK(count_files(tmp) == 0);
    REQUIRE(keep(*store, "still works"));
    REQUIRE(store->sync());
    CHECK(bytes_of(*store, sha256("small")) == "small");
  }
  umount(dir.path().c_str());
}

TEST_CASE("a process killed while it writes leaves no blob, and the next one goes on") {
  Bench bench;
  const std::string large(2'000'000, 'k');
  const pid_t child = fork();
  if (child == 0) {
    auto writer = *bench.store->create();
    static_cast<void>(writer->write(large).has_value());
    _exit(0);  // As a kill: no destructor runs.
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(bench.tmp_count() == 1);
  CHECK(!bench.store->has(sha256(large)));
  auto after = *open_folder(bench.root, bench.tmp);
  REQUIRE(keep(*after, large));
  REQUIRE(after->sync());
  CHECK(bytes_of(*after, sha256(large)) == large);
}

TEST_CASE("a sweep removes what is unused and old, and nothing else") {
  Bench bench;
  for (const char* bytes : {"used", "garbage", "fresh", "asked for"}) {
    REQUIRE(keep(*bench.store, bytes));
  }
  REQUIRE(bench.store->sync());
  for (const char* bytes : {"used", "garbage", "asked for"}) age(bench.path(sha256(bytes)));
  REQUIRE(bench.store->has(sha256("asked for")));
  Sweep sweep = sweep_of_a_day(*bench.store);
  sweep.used = [](const Digest& digest) { return digest == sha256("used"); };

  sweep.dry_run = true;
  CHECK(bench.store->sweep(sweep)->removed == 1);
  CHECK(bench.store->has(sha256("used")));
  age(bench.path(sha256("used")));
  CHECK(fs::exists(bench.path(sha256("garbage"))));

  sweep.dry_run = false;
  const Sweep::Count count = *bench.store->sweep(sweep);
  CHECK(count.blobs == 4);
  CHECK(count.removed == 1);
  CHECK(count.removed_bytes == 7);
  CHECK(count.young == 2);
  CHECK(!bench.store->has(sha256("garbage")));
  for (const char* bytes : {"used", "fresh", "asked for"}) {
    CHECK(bytes_of(*bench.store, sha256(bytes)) == bytes);
  }
  // What was removed can be kept again.
  REQUIRE(keep(*bench.store, "garbage"));
  REQUIRE(bench.store->sync());
  CHECK(bytes_of(*bench.store, sha256("garbage")) == "garbage");
}

TEST_CASE("a blob of which has() said that it is here is there after a sweep") {
  Bench bench;
  constexpr int kBlobs = 4000;
  std::vector<Digest> digests;
  for (int i = 0; i < kBlobs; ++i) {
    const std::string bytes = "blob " + std::to_string(i);
    REQUIRE(keep(*bench.store, bytes));
    digests.push_back(sha256(bytes));
  }
  REQUIRE(bench.store->sync());
  for (const Digest& digest : digests) age(bench.path(digest));
  const Sweep sweep = sweep_of_a_day(*bench.store);
  std::vector<std::vector<Digest>> told(4);
  std::barrier start(5);
  {
    std::vector<std::jthread> askers;
    for (size_t t = 0; t < told.size(); ++t) {
      askers.emplace_back([&, t] {
        start.arrive_and_wait();
        for (size_t i = t; i < digests.size(); i += told.size()) {
          if (bench.store->has(digests[i])) told[t].push_back(digests[i]);
        }
      });
    }
    start.arrive_and_wait();
    REQUIRE(bench.store->sweep(sweep));
  }
  size_t kept = 0;
  for (const auto& part : told) {
    for (const Digest& digest : part) CHECK(fs::exists(bench.path(digest)));
    kept += part.size();
  }
  CHECK(count_files(bench.root) == kept);
}

TEST_CASE("a sweep that is told to stop leaves the rest") {
  Bench bench;
  for (int i = 0; i < 500; ++i) REQUIRE(keep(*bench.store, std::to_string(i)));
  REQUIRE(bench.store->sync());
  for (int i = 0; i < 500; ++i) age(bench.path(sha256(std::to_string(i))));
  Sweep sweep = sweep_of_a_day(*bench.store);
  sweep.proceed = [](const Sweep::Count& count) { return count.blobs < 100; };
  CHECK(bench.store->sweep(sweep).error().kind == ErrorKind::cancelled);
  CHECK(count_files(bench.root) > 300);
}

}  // namespace trainyard::blob
