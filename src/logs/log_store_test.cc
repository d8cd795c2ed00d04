#include "logs/log_store.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace trainyard::logs {
namespace {

const RunId kRun{"calm-finch-2"};

Result<uint64_t> print(LogStore& logs, const RunId& run, uint64_t from, std::string_view text,
                       Stream stream = Stream::out) {
  const Piece piece{stream, text};
  return logs.append({run, 1}, 0, from, {&piece, 1});
}

size_t open_descriptors() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

TEST_CASE("a run id is a name and never a path") {
  TempDir dir;
  LogStore logs{Home(dir.path())};
  for (const char* bad : {"..", "../x", "a/b", "", ".hidden", "/etc"}) {
    CAPTURE(bad);
    const RunId run{bad};
    CHECK(print(logs, run, 0, "x").error().kind == ErrorKind::invalid);
    CHECK(logs.read(run, 0, View::both, 0, 1).error().kind == ErrorKind::invalid);
    CHECK(logs.append_file(run, 1, 0, "x", LogStore::Reset::no).error().kind == ErrorKind::invalid);
    CHECK(logs.open_file(run, 1).error().kind == ErrorKind::invalid);
    CHECK(logs.open_console(run, 0).error().kind == ErrorKind::invalid);
    CHECK(logs.seal(run).error().kind == ErrorKind::invalid);
  }
  CHECK(logs.append({kRun, 1}, -1, 0, {}).error().kind == ErrorKind::invalid);
  CHECK(logs.append({kRun, 1}, kRanksMax, 0, {}).error().kind == ErrorKind::invalid);
  CHECK(logs.append({kRun, 0}, 0, 0, {}).error().kind == ErrorKind::invalid);
}

TEST_CASE("what was never written reads as empty and makes no file") {
  TempDir dir;
  LogStore logs{Home(dir.path())};
  CHECK(logs.read(kRun, 0, View::both, 0, 100)->bytes.empty());
  CHECK(logs.size(kRun, 0, View::err).value() == 0);
  CHECK(logs.tail(kRun, 0, View::both, 5).value() == 0);
  CHECK(logs.file_size(kRun, 1).value() == 0);
  CHECK(logs.open_console(kRun, 0).error().kind == ErrorKind::not_found);
  CHECK(logs.seal(kRun).has_value());
  CHECK_FALSE(fs::exists(Home(dir.path()).run(kRun)));
}

TEST_CASE("a console that grows becomes durable by itself, some bytes behind") {
  TempDir dir;
  LogStore logs{Home(dir.path())};
  const std::string large(1 << 20, 'x');
  REQUIRE(print(logs, kRun, 0, "small"));
  CHECK(logs.durable({kRun, 1}, 0).value() == 0);
  uint64_t size = 5;
  for (int i = 0; i < 8; ++i) size = print(logs, kRun, size, large).value();
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (logs.durable({kRun, 1}, 0).value() < (4 << 20)) {
    REQUIRE(std::chrono::steady_clock::now() < until);
    std::this_thread::yield();
  }
  CHECK(logs.durable({kRun, 1}, 0).value() <= size);
}

TEST_CASE("tail of a console that has lost its end is an error") {
  TempDir dir;
  const Home home(dir.path());
  LogStore logs{home};
  REQUIRE(print(logs, kRun, 0, std::string(100'000, 'x')).has_value());
  REQUIRE(logs.size(kRun, 0, View::both).value() == 100'000);
  fs::resize_file(home.run(kRun) / "console-0.log", 50'000);
  CHECK_FALSE(logs.tail(kRun, 0, View::both, 5).has_value());
}

TEST_CASE("tail finds where the last lines begin") {
  struct Row {
    std::string text;
    int lines;
    size_t expected;
  };
  const std::string block(70'000, 'x');
  const Row rows[] = {
      {"a\nb\nc\n", 1, 4},
      {"a\nb\nc\n", 2, 2},
      {"a\nb\nc\n", 3, 0},
      {"a\nb\nc\n", 9, 0},
      {"a\nb\nc", 1, 4},
      {"a\nb\nc", 0, 5},
      {"\n\n\n", 2, 1},
      {"abc", 1, 0},
      {"a\n" + block + "\nb\n", 2, 2},
      {"a\n" + block + "\nb\n", 1, 70'003},
  };
  for (const Row& row : rows) {
    CAPTURE(row.lines);
    CAPTURE(row.expected);
    TempDir dir;
    LogStore logs{Home(dir.path())};
    REQUIRE(print(logs, kRun, 0, row.text).has_value());
    CHECK(logs.tail(kRun, 0, View::both, row.lines).value() == row.expected);
    CHECK(logs.tail(kRun, 0, View::out, row.lines).value() == row.expected);
    CHECK(logs.tail(kRun, 0, View::err, row.lines).value() == 0);
  }
}

TEST_CASE("a log file takes what is new and begins anew when told") {
  TempDir dir;
  LogStore logs{Home(dir.path())};
  const auto append = [&](uint64_t from, std::string_view bytes,
                          LogStore::Reset reset = LogStore::Reset::no) {
    return logs.append_file(kRun, 3, from, bytes, reset).value();
  };
  CHECK(append(0, "hello ") == 6);
  CHECK(append(7, "gap") == 6);
  CHECK(append(4, "o world") == 11);
  CHECK(append(0, "hel") == 11);
  CHECK(read_file(Home(dir.path()).run(kRun) / "files" / "3").value() == "hello world");
  CHECK(append(0, "new", LogStore::Reset::yes) == 3);
  CHECK(read_file(Home(dir.path()).run(kRun) / "files" / "3").value() == "new");
  CHECK(logs.file_size(kRun, 3).value() == 3);
  CHECK(logs.seal(kRun).has_value());
}

TEST_CASE("many consoles cost few descriptors and stay right when closed and opened again") {
  TempDir dir;
  LogStore logs{Home(dir.path()), {.consoles_max = 4}};
  const size_t before = open_descriptors();
  for (int round = 0; round < 3; ++round) {
    for (int run = 0; run < 20; ++run) {
      const RunId id{"run-" + std::to_string(run)};
      const auto from = static_cast<uint64_t>(round) * 5;
      REQUIRE(print(logs, id, from, "line\n", run % 2 ? Stream::out : Stream::err).value() ==
              from + 5);
    }
  }
  CHECK(open_descriptors() <= before + 8);
  for (int run = 0; run < 20; ++run) {
    const RunId id{"run-" + std::to_string(run)};
    CHECK(logs.read(id, 0, run % 2 ? View::out : View::err, 0, 100)->bytes == "line\nline\nline\n");
    CHECK(logs.check(id).value().empty());
  }
}

TEST_CASE("check names a console whose bytes are gone") {
  TempDir dir;
  LogStore logs{Home(dir.path()), {.consoles_max = 1}};
  REQUIRE(print(logs, kRun, 0, "x").has_value());
  REQUIRE(print(logs, RunId{"other"}, 0, "x").has_value());
  fs::remove(Home(dir.path()).run(kRun) / "console-0.log");
  const std::vector<std::string> findings = logs.check(kRun).value();
  REQUIRE(findings.size() == 1);
  CHECK(findings[0] == "console-0.log: is missing");
}

TEST_CASE("a removed run leaves nothing, and its neighbours everything") {
  TempDir dir;
  LogStore logs{Home(dir.path())};
  const RunId neighbour{"calm-finch-22"};
  REQUIRE(print(logs, kRun, 0, "x").has_value());
  REQUIRE(print(logs, neighbour, 0, "y").has_value());
  REQUIRE(logs.remove(kRun).has_value());
  CHECK_FALSE(fs::exists(Home(dir.path()).run(kRun)));
  CHECK(logs.size(kRun, 0, View::both).value() == 0);
  CHECK(logs.read(neighbour, 0, View::both, 0, 10)->bytes == "y");
  CHECK(logs.remove(kRun).has_value());
}

TEST_CASE("writers and readers side by side see only prefixes of the truth") {
  TempDir dir;
  LogStore logs{Home(dir.path()), {.consoles_max = 2}};
  constexpr int kRuns = 6;
  constexpr int kLines = 300;
  std::atomic<int> writing = kRuns;
  std::atomic<int> wrong = 0;
  const auto line = [](int i) { return "line " + std::to_string(i) + "\n"; };
  std::vector<std::jthread> threads;
  for (int run = 0; run < kRuns; ++run) {
    const RunId id{"run-" + std::to_string(run)};
    threads.emplace_back([&, id] {
      uint64_t from = 0;
      for (int i = 0; i < kLines; ++i) {
        from = print(logs, id, from, line(i), i % 3 ? Stream::out : Stream::err).value_or(0);
      }
      --writing;
    });
    threads.emplace_back([&, id] {
      std::string seen;
      bool last_round = false;
      while (!last_round) {
        last_round = writing == 0;
        for (;;) {
          const Result<FramedRead> read = logs.read_framed(id, 0, seen.size(), 64);
          if (!read) {
            ++wrong;
            return;
          }
          if (read->bytes.empty()) break;
          seen += read->bytes;
        }
      }
      std::string truth;
      for (int i = 0; i < kLines; ++i) truth += line(i);
      if (seen != truth) ++wrong;
    });
  }
  threads.clear();
  CHECK(wrong == 0);
}

// Not a bar (a sanitizer build is slow, a shared machine slower), only against a blunder of scale.
TEST_CASE("large and small appends go at the speed of the disk cache") {
  TempDir dir;
  LogStore logs{Home(dir.path())};
  const std::string piece(1 << 20, 'x');
  const auto started = std::chrono::steady_clock::now();
  uint64_t from = 0;
  for (int i = 0; i < 64; ++i) from = print(logs, kRun, from, piece).value();
  const auto large = std::chrono::steady_clock::now() - started;
  CHECK(from == 64u << 20);
  const auto small_started = std::chrono::steady_clock::now();
  from = 0;
  for (int i = 0; i < 10'000; ++i) from = print(logs, RunId{"small"}, from, "epoch 1\n").value();
  const auto small = std::chrono::steady_clock::now() - small_started;
  using std::chrono::duration;
  MESSAGE("64 MB in 1 MB pieces: " << duration<double>(large).count() << " s; a line: "
                                   << duration<double, std::micro>(small).count() / 10'000
                                   << " us");
  CHECK(large < std::chrono::seconds(10));
  CHECK(small < std::chrono::seconds(10));
}

}  // namespace
}  // namespace trainyard::logs
