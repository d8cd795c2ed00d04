#include "snapshot/capture.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <utime.h>

#include <functional>
#include <thread>

#include "snapshot/stat_cache.h"

namespace trainyard::snapshot {
namespace {

struct Bench {
  TempDir dir;
  fs::path code = dir.path() / "code";
  fs::path cache = dir.path() / "cache";
  Bench() { REQUIRE(make_dirs(code)); }

  void write(std::string_view path, std::string_view bytes = "x") {
    REQUIRE(make_dirs((code / path).parent_path()));
    REQUIRE(write_file(code / path, bytes));
  }
  Captured take(bool is_code = true) {
    auto captured = capture(code, {.code = is_code, .cache = cache});
    REQUIRE(captured);
    return *captured;
  }
  std::vector<std::string> paths(bool is_code = true) {
    std::vector<std::string> found;
    for (const Entry& entry : take(is_code).tree.entries) found.push_back(entry.path);
    return found;
  }
};

using Paths = std::vector<std::string>;

// Waits until the kernel's file clock has moved on, so that what was written is no longer racy. By
// two ticks: a stamp may lie a little beyond the tick that the clock shows.
void pass_tick() {
  for (int64_t last = stamp_now_ns(), ticks = 0; ticks < 2;) {
    const int64_t now = stamp_now_ns();
    ticks += now != last ? 1 : 0;
    last = now;
  }
}

// Root reads everything; so where we are root a child that is nobody looks instead.
bool as_nobody(const std::function<bool()>& holds) {
  if (geteuid() != 0) return holds();
  const pid_t child = fork();
  if (child == 0) _exit(setgid(65534) == 0 && setuid(65534) == 0 && holds() ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

TEST_CASE("files, executables, symlinks and empty folders are captured, in order") {
  Bench bench;
  bench.write("b.txt", "hello");
  bench.write("a/run.sh", "#!/bin/sh\n");
  fs::permissions(bench.code / "a/run.sh", fs::perms(0755));
  REQUIRE(make_dirs(bench.code / "empty/inner"));
  fs::create_symlink("../outside", bench.code / "a/link");
  fs::create_symlink("a", bench.code / "to_folder");
  const Captured captured = bench.take();
  const auto& entries = captured.tree.entries;
  REQUIRE(entries.size() == 5);
  CHECK(entries[0] == Entry{.kind = EntryKind::symlink, .path = "a/link", .target = "../outside"});
  CHECK(entries[1].kind == EntryKind::executable);
  CHECK(entries[1].path == "a/run.sh");
  CHECK(entries[2] ==
        Entry{.kind = EntryKind::file, .path = "b.txt", .size = 5, .digest = sha256("hello")});
  CHECK(entries[3] == Entry{.kind = EntryKind::folder, .path = "empty/inner"});
  CHECK(entries[4] == Entry{.kind = EntryKind::symlink, .path = "to_folder", .target = "a"});
  CHECK(captured.text == encode(captured.tree));
  CHECK(captured.id == sha256(captured.text));
  CHECK(captured.files_hashed == 2);
  CHECK(captured.bytes_hashed == 15);
  CHECK(captured.warnings.empty());
}

TEST_CASE("an empty folder is an empty tree") { CHECK(Bench().take().tree.entries.empty()); }

TEST_CASE("the same folder elsewhere, written at another time, has the same id") {
  Bench one;
  Bench two;
  for (Bench* bench : {&one, &two}) {
    bench->write("a/b", "1");
    bench->write("c", "2");
  }
  utimbuf times{.actime = 1, .modtime = 1};
  utime((two.code / "c").c_str(), &times);
  CHECK(one.take().id == two.take().id);
}

TEST_CASE("git's folders, outputs and logs at the top stay out of code, and only of code") {
  Bench bench;
  for (const char* path : {".git/config", "outputs/x", "logs/y", "sub/outputs/x", "sub/logs/y",
                           "sub/.git", "gitfile"}) {
    bench.write(path);
  }
  CHECK(bench.paths() == Paths{"gitfile", "sub/logs/y", "sub/outputs/x"});
  CHECK(bench.paths(false).size() == 7);
}

TEST_CASE(".amlignore wins over .gitignore, which holds with those below it") {
  Bench bench;
  bench.write(".gitignore", "*.o\n/data/\n");
  bench.write("sub/.gitignore", "!keep.o\n/local\n");
  for (const char* path :
       {"a.o", "data/x", "sub/keep.o", "sub/b.o", "sub/local", "sub/data/y", "z"}) {
    bench.write(path);
  }
  CHECK(bench.paths() == Paths{".gitignore", "sub/.gitignore", "sub/data/y", "sub/keep.o", "z"});
  bench.write(".amlignore", "z\nsub\n");
  CHECK(bench.paths() == Paths{".amlignore", ".gitignore", "a.o", "data/x"});
  CHECK(bench.paths(false).size() == 10);
}

TEST_CASE("a folder whose content is all ignored is kept as an empty one") {
  Bench bench;
  bench.write(".amlignore", "data/*\n");
  bench.write("data/x");
  CHECK(bench.paths() == Paths{".amlignore", "data"});
}

TEST_CASE("excluded paths stay out, however the folder is reached") {
  Bench bench;
  bench.write("home/db");
  bench.write("a");
  fs::create_directory_symlink(bench.code, bench.dir.path() / "alias");
  const auto captured =
      capture(bench.dir.path() / "alias", {.excluded = {bench.code / "home", "/nowhere"}});
  REQUIRE(captured);
  REQUIRE(captured->tree.entries.size() == 1);
  CHECK(captured->tree.entries[0].path == "a");
}

TEST_CASE("names of any bytes are captured and come back") {
  Bench bench;
  const Paths names = {"\n", " ", "#x", "-rf", "\\", "a\tb", "\xff\xfe", "\xc3\xa9", "*", "t/\r\n"};
  for (const std::string& name : names) bench.write(name, name);
  CHECK(bench.paths().size() == names.size());
  CHECK(*decode(bench.take().text) == bench.take().tree);
}

TEST_CASE("sockets and pipes are left out with a warning") {
  Bench bench;
  bench.write("a");
  REQUIRE(mkfifo((bench.code / "pipe").c_str(), 0600) == 0);
  const Fd fd(socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  const std::string path = (bench.code / "x.sock").string();
  REQUIRE(path.size() < sizeof address.sun_path);
  path.copy(address.sun_path, path.size());
  REQUIRE(bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  const Captured captured = bench.take();
  CHECK(captured.tree.entries.size() == 1);
  CHECK(captured.warnings == Paths{"pipe: a named pipe, left out", "x.sock: a socket, left out"});
}

TEST_CASE("an unchanged folder is not read again") {
  Bench bench;
  for (int i = 0; i < 50; ++i) bench.write("f" + std::to_string(i), std::to_string(i));
  pass_tick();
  const Captured first = bench.take();
  CHECK(first.files_hashed == 50);
  const Captured second = bench.take();
  CHECK(second.files_hashed == 0);
  CHECK(second.id == first.id);
  // A move keeps inode and times but for ctime; a change of mode is seen without reading.
  bench.write("f7", "changed");
  pass_tick();
  const Captured third = bench.take();
  CHECK(third.files_hashed == 1);
  CHECK(third.id != first.id);
}

TEST_CASE("a change that keeps size and mtime is seen") {
  Bench bench;
  bench.write("a", "one");
  utimbuf times{.actime = 1'000'000, .modtime = 1'000'000};
  utime((bench.code / "a").c_str(), &times);
  pass_tick();
  const Digest before = bench.take().id;
  {
    const Fd fd = *open_file(bench.code / "a", O_WRONLY);
    REQUIRE(write_all(fd.get(), "two", "a"));
  }
  utime((bench.code / "a").c_str(), &times);
  const Captured after = bench.take();
  CHECK(after.id != before);
  CHECK(after.tree.entries[0].digest == sha256("two"));
}

TEST_CASE("a change in the very tick of the capture is seen by the next one") {
  Bench bench;
  for (int i = 0; i < 200; ++i) {
    const std::string bytes = std::to_string(1000 + i);
    {
      const Fd fd = *open_file(bench.code / "a", O_WRONLY | O_CREAT);
      REQUIRE(write_all(fd.get(), bytes, "a"));
    }
    REQUIRE(bench.take().tree.entries[0].digest == sha256(bytes));
  }
}

TEST_CASE("a change of mode alone is seen without a cache's help") {
  Bench bench;
  bench.write("a");
  pass_tick();
  CHECK(bench.take().tree.entries[0].kind == EntryKind::file);
  fs::permissions(bench.code / "a", fs::perms(0744));
  CHECK(bench.take().tree.entries[0].kind == EntryKind::executable);
}

TEST_CASE("a damaged cache changes nothing but the time") {
  Bench bench;
  bench.write("a", "one");
  pass_tick();
  const Digest id = bench.take().id;
  const fs::path file = fs::directory_iterator(bench.cache)->path();
  REQUIRE(write_file(file, "rubbish"));
  const Captured again = bench.take();
  CHECK(again.id == id);
  CHECK(again.files_hashed == 1);
  CHECK(bench.take().files_hashed == 0);
}

TEST_CASE("a cache that cannot be written is a warning") {
  Bench bench;
  bench.write("a");
  pass_tick();
  REQUIRE(write_file(bench.cache, "a file in its place"));
  const Captured captured = bench.take();
  REQUIRE(captured.warnings.size() == 1);
  CHECK(captured.warnings[0].find("slower") != std::string::npos);
}

TEST_CASE("captures of one folder at the same time agree") {
  Bench bench;
  for (int i = 0; i < 100; ++i) bench.write("d" + std::to_string(i % 7) + "/f" + std::to_string(i));
  const Digest id = bench.take().id;
  std::atomic<int> others{0};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 5; ++i) {
          const auto captured = capture(bench.code, {.cache = bench.cache, .threads = 3});
          if (!captured || captured->id != id) ++others;
        }
      });
    }
  }
  CHECK(others == 0);
}

TEST_CASE("a file that changes while it is read is read again") {
  Bench bench;
  bench.write("log", std::string(3'000'000, 'a'));
  bool changed = false;
  const auto once = [&](uint64_t, uint64_t) {
    if (!std::exchange(changed, true)) {
      const Fd fd = *open_file(bench.code / "log", O_WRONLY | O_APPEND);
      REQUIRE(write_all(fd.get(), "b", "log"));
    }
  };
  const auto captured = capture(bench.code, {.threads = 1, .progress = once});
  REQUIRE(captured);
  CHECK(captured->tree.entries[0].size == 3'000'001);
  CHECK(captured->tree.entries[0].digest == sha256(std::string(3'000'000, 'a') + "b"));
}

TEST_CASE("a file that never holds still is a conflict with its name") {
  Bench bench;
  bench.write("sub/log", std::string(3'000'000, 'a'));
  const auto always = [&](uint64_t, uint64_t) {
    const Fd fd = *open_file(bench.code / "sub/log", O_WRONLY | O_APPEND);
    REQUIRE(write_all(fd.get(), "b", "log"));
  };
  const auto captured = capture(bench.code, {.threads = 1, .progress = always});
  REQUIRE(!captured);
  CHECK(captured.error().kind == ErrorKind::conflict);
  CHECK(captured.error().message.find("sub/log") != std::string::npos);
  CHECK(captured.error().hint.find(".amlignore") != std::string::npos);
}

TEST_CASE("a file removed after it was listed is as if it had never been") {
  Bench bench;
  for (const char* path : {"a", "b", "c"}) bench.write(path);
  const auto remove_c = [&](uint64_t, uint64_t) { fs::remove(bench.code / "c"); };
  const auto captured = capture(bench.code, {.threads = 1, .progress = remove_c});
  REQUIRE(captured);
  CHECK(captured->tree.entries.size() == 2);
}

TEST_CASE("what cannot be read is an error with its path and what to do") {
  for (const char* path : {"dir/x", "file"}) {
    CAPTURE(path);
    Bench bench;
    bench.write(path);
    const std::string top = *fs::path(path).begin();
    fs::permissions(bench.dir.path(), fs::perms(0755));
    fs::permissions(bench.code / top, fs::perms::none);
    CHECK(as_nobody([&] {
      const auto captured = capture(bench.code, {});
      return !captured && captured.error().kind == ErrorKind::denied &&
             captured.error().message.find((bench.code / top).string()) != std::string::npos &&
             captured.error().hint.find(".amlignore") != std::string::npos;
    }));
    CHECK(as_nobody([&] {
      const auto captured = capture(bench.code, {.code = false});
      return !captured && captured.error().hint.find(".amlignore") == std::string::npos;
    }));
    bench.write(".amlignore", top);
    CHECK(as_nobody([&] { return capture(bench.code, {}).has_value(); }));
    fs::permissions(bench.code / top, fs::perms::owner_all);
  }
}

TEST_CASE("what is no folder is not found") {
  CHECK(capture("/nonexistent/folder", {}).error().kind == ErrorKind::not_found);
  Bench bench;
  bench.write("file");
  CHECK(capture(bench.code / "file", {}).error().kind == ErrorKind::not_found);
}

TEST_CASE("progress counts every file and byte, one call at a time") {
  Bench bench;
  for (int i = 0; i < 64; ++i) bench.write("f" + std::to_string(i), std::string(1000, 'x'));
  uint64_t files = 0;
  uint64_t bytes = 0;
  const auto captured = capture(bench.code, {.threads = 4, .progress = [&](uint64_t f, uint64_t b) {
                                               CHECK(f + b >= files + bytes);
                                               files = f;
                                               bytes = b;
                                             }});
  REQUIRE(captured);
  CHECK(files == 64);
  CHECK(bytes == 64'000);
}

TEST_CASE("ignored folders are neither opened nor listed") {
  Bench bench;
  bench.write(".amlignore", "data/\n");
  bench.write("data/x/y");
  bench.write("a");
  struct stat before{};
  // A relatime mount moves atime on the first read after a change.
  utimbuf times{.actime = 1, .modtime = 2};
  utime((bench.code / "data").c_str(), &times);
  stat((bench.code / "data").c_str(), &before);
  CHECK(bench.paths() == Paths{".amlignore", "a"});
  struct stat after{};
  stat((bench.code / "data").c_str(), &after);
  CHECK(after.st_atim.tv_sec == before.st_atim.tv_sec);
}

TEST_CASE("a password in a run configuration is in no tree of code, cached or not") {
  Bench bench;
  const std::string file = "environment:\n  password: s3cret\n";
  const std::string kept = "environment:\n  password: null\n";
  bench.write(".azureml/a.runconfig", file);
  bench.write("a.txt", file);
  pass_tick();
  for (int time = 0; time < 2; ++time) {
    const Captured captured = bench.take();
    REQUIRE(captured.tree.entries.size() == 2);
    CHECK(captured.tree.entries[0].digest == sha256(kept));
    CHECK(captured.tree.entries[0].size == kept.size());
    CHECK(captured.tree.entries[1].digest == sha256(file));
    CHECK(captured.replaced.at(".azureml/a.runconfig") == kept);
    CHECK(captured.id == sha256(encode(captured.tree)));
    CHECK(captured.warnings.size() == 1);
  }
  // Outputs are kept as they are.
  CHECK(bench.take(false).tree.entries[0].digest == sha256(file));
}

}  // namespace trainyard::snapshot
