#include "base/log.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <thread>
#include <vector>

#include "base/fake_clock.h"
#include "base/file.h"
#include "base/id.h"
#include "base/text.h"

namespace trainyard {
namespace {

constexpr WallTime kTime{seconds(1'794'731'993)};

TEST_CASE("a line is one JSON object with its time, level, event and fields") {
  CHECK(format_log_line(kTime, "info", "run placed", {{"run", "a.1"}, {"ranks", 4}}) ==
        R"({"at":"2026-11-15T08:39:53.000000Z","level":"info","event":"run placed",)"
        R"("run":"a.1","ranks":4})");
}

TEST_CASE("whatever a value holds, the line stays one line of JSON") {
  const std::string line = format_log_line(kTime, "warn", "odd", {{"v", "a\"b\\c\nd\x01\x7f\xff"}});
  CHECK(line.ends_with(R"("v":"a\"b\\c\nd\u0001\u007f)"
                       "\xEF\xBF\xBD\"}"));
}

TEST_CASE("a token is masked wherever it stands, and only a token is") {
  for (const char* prefix : {"tyu_", "tya_", "tyn_"}) {
    const std::string secret = new_secret(prefix);
    const std::string line = format_log_line(
        kTime, "info", "got " + secret,
        {{"header", "Authorization: Bearer " + secret + ", again " + secret}, {"alone", secret}});
    CHECK(line.find(secret.substr(4)) == std::string::npos);
    CHECK(line.find("Bearer " + std::string(prefix) + "***, again") != std::string::npos);
    CHECK(line.find(R"("alone":")" + std::string(prefix) + R"(***")") != std::string::npos);
  }
  CHECK(format_log_line(kTime, "info", "x", {{"v", "party_name tyu_short qty_"}})
            .find("party_name tyu_short qty_") != std::string::npos);
}

TEST_CASE("a log's file is for its owner only, made with its folder") {
  const TempDir dir;
  const FakeClock clock;
  const fs::path path = dir.path() / "log" / "server.log";
  open_file_log(clock, {.path = path})->info("started");
  struct stat status{};
  REQUIRE(stat(path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
  CHECK(read_file(path)->ends_with("\"event\":\"started\"}\n"));
}

TEST_CASE("a log goes on where it ended") {
  const TempDir dir;
  const FakeClock clock;
  const fs::path path = dir.path() / "x.log";
  open_file_log(clock, {.path = path})->info("one");
  open_file_log(clock, {.path = path})->error("two");
  CHECK(split(*read_file(path), '\n').size() == 3);
}

TEST_CASE("a log past its size is rotated, and only so many are kept") {
  const TempDir dir;
  const FakeClock clock;
  const fs::path path = dir.path() / "x.log";
  const auto log = open_file_log(clock, {.path = path, .size_max = 1000, .kept = 2});
  for (int i = 0; i < 100; ++i) log->info("event", {{"number", i}});
  CHECK(read_file(path)->find("\"number\":99}") != std::string::npos);
  CHECK(fs::exists(path.string() + ".1"));
  CHECK(fs::exists(path.string() + ".2"));
  CHECK(!fs::exists(path.string() + ".3"));
  // Each is within its size, and no line was lost or cut between them.
  std::string all = *read_file(path.string() + ".2");
  all += *read_file(path.string() + ".1") + *read_file(path);
  const std::vector<std::string> lines = split(all, '\n');
  const int first = 100 - static_cast<int>(lines.size()) + 1;
  for (size_t i = 0; i + 1 < lines.size(); ++i) {
    CHECK(lines[i].ends_with("\"number\":" + std::to_string(first + static_cast<int>(i)) + "}"));
  }
  for (const char* suffix : {"", ".1", ".2"}) CHECK(fs::file_size(path.string() + suffix) <= 1000);
}

TEST_CASE("a log that cannot be written stops nobody") {
  const FakeClock clock;
  const auto log = open_file_log(clock, {.path = "/proc/no/such/server.log"});
  log->error("nobody hears this");
  const auto full = open_file_log(clock, {.path = "/dev/full"});
  full->error("nor this");
}

TEST_CASE("lines of several threads are not mixed") {
  const TempDir dir;
  const FakeClock clock;
  const fs::path path = dir.path() / "x.log";
  {
    const auto log = open_file_log(clock, {.path = path});
    std::vector<std::jthread> writers;
    for (int t = 0; t < 4; ++t) {
      writers.emplace_back([&] {
        for (int i = 0; i < 200; ++i) log->info("event", {{"text", std::string(100, 'x')}});
      });
    }
  }
  const std::vector<std::string> lines = split(*read_file(path), '\n');
  CHECK(lines.size() == 801);
  for (size_t i = 0; i + 1 < lines.size(); ++i) CHECK(lines[i].size() == lines[0].size());
}

}  // namespace
}  // namespace trainyard
