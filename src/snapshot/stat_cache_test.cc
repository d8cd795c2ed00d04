#include "snapshot/stat_cache.h"

#include <doctest/doctest.h>

#include <thread>

namespace trainyard::snapshot {
namespace {

using Record = StatCache::Record;

std::vector<Record> some(uint64_t count) {
  std::vector<Record> records;
  for (uint64_t i = count; i > 0; --i) {
    records.push_back({{.inode = i, .device = 1, .size = i, .mtime_ns = 5, .ctime_ns = 6},
                       sha256(std::to_string(i))});
  }
  return records;
}

fs::path only_file(const fs::path& folder) { return fs::directory_iterator(folder)->path(); }

constexpr int64_t kSecond = 1'000'000'000;

}  // namespace

TEST_CASE("what was saved is found by its whole stamp") {
  TempDir dir;
  REQUIRE(StatCache::load(dir.path() / "cache", "/code").save(some(100)));
  const StatCache cache = StatCache::load(dir.path() / "cache", "/code");
  for (const Record& record : some(100)) CHECK(cache.find(record.stamp) == record.digest);
  const FileStamp known = some(100)[50].stamp;
  for (int field = 0; field < 5; ++field) {
    FileStamp other = known;
    if (field == 0) other.inode += 1000;
    if (field == 1) ++other.device;
    if (field == 2) ++other.size;
    if (field == 3) ++other.mtime_ns;
    if (field == 4) ++other.ctime_ns;
    CHECK(!cache.find(other));
  }
}

TEST_CASE("each captured folder has its own cache, and none is made without a place") {
  TempDir dir;
  REQUIRE(StatCache::load(dir.path(), "/one").save(some(3)));
  CHECK(!StatCache::load(dir.path(), "/two").find(some(3)[0].stamp));
  REQUIRE(StatCache::load({}, "/one").save(some(3)));
}

TEST_CASE("a damaged, cut or foreign cache counts as empty") {
  TempDir dir;
  REQUIRE(StatCache::load(dir.path(), "/code").save(some(20)));
  const fs::path path = only_file(dir.path());
  const std::string good = *read_file(path);
  std::vector<std::string> bad = {"",
                                  "x",
                                  good.substr(0, 8),
                                  good.substr(0, good.size() - 1),
                                  good.substr(0, good.size() / 2),
                                  good + "x"};
  for (size_t at = 0; at < good.size(); at += 7) {
    std::string flipped = good;
    flipped[at] = static_cast<char>(flipped[at] ^ 1);
    bad.push_back(flipped);
  }
  for (const std::string& bytes : bad) {
    REQUIRE(write_file(path, bytes));
    const StatCache cache = StatCache::load(dir.path(), "/code");
    for (const Record& record : some(20)) CHECK(!cache.find(record.stamp));
  }
  REQUIRE(StatCache::load(dir.path(), "/code").save(some(20)));
  CHECK(*read_file(path) == good);
}

TEST_CASE("an unchanged cache is not written again") {
  TempDir dir;
  REQUIRE(StatCache::load(dir.path(), "/code").save(some(20)));
  struct stat before{};
  stat(only_file(dir.path()).c_str(), &before);
  REQUIRE(StatCache::load(dir.path(), "/code").save(some(20)));
  struct stat after{};
  stat(only_file(dir.path()).c_str(), &after);
  CHECK(before.st_ino == after.st_ino);
}

TEST_CASE("many writers and readers of one cache never see half of it") {
  TempDir dir;
  std::atomic<int> odd{0};
  {
    std::vector<std::jthread> threads;
    for (uint64_t t = 1; t <= 8; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 20; ++i) {
          if (!StatCache::load(dir.path(), "/code").save(some(t * 10))) ++odd;
          // Every version holds at least the first ten.
          const StatCache cache = StatCache::load(dir.path(), "/code");
          for (const Record& record : some(10)) odd += cache.find(record.stamp) ? 0 : 1;
        }
      });
    }
  }
  CHECK(odd == 0);
}

TEST_CASE("a file touched in the tick in which it was read is not to be trusted") {
  const FileStamp old{.mtime_ns = 10 * kSecond + 1, .ctime_ns = 10 * kSecond + 1};
  CHECK(is_racy(old, 10 * kSecond + 1));
  CHECK(!is_racy(old, 10 * kSecond + 2));
  const FileStamp new_change{.mtime_ns = 5 * kSecond, .ctime_ns = 10 * kSecond + 1};
  CHECK(is_racy(new_change, 10 * kSecond + 1));
  const FileStamp future{.mtime_ns = 99 * kSecond + 1, .ctime_ns = 1};
  CHECK(is_racy(future, 10 * kSecond));
  const FileStamp whole_seconds{.mtime_ns = 10 * kSecond, .ctime_ns = 10 * kSecond};
  CHECK(is_racy(whole_seconds, 11 * kSecond));
  CHECK(!is_racy(whole_seconds, 13 * kSecond));
}

TEST_CASE("a file changed after the time was asked bears that time or a later one") {
  TempDir dir;
  for (int i = 0; i < 200; ++i) {
    const int64_t now = stamp_now_ns();
    REQUIRE(write_file(dir.path() / "x", std::to_string(i)));
    struct stat status{};
    stat((dir.path() / "x").c_str(), &status);
    CHECK(FileStamp::of(status).mtime_ns >= now);
  }
}

}  // namespace trainyard::snapshot
