#include "supervisor/log_files.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "supervisor/test_yard.h"

using namespace trainyard;
using namespace trainyard::supervisor;

namespace {

struct Bench {
  FakeServer server;
  TempDir dir;
  fs::path logs = dir.path() / "logs";
  LogFiles files;
  http::Client client{{.unix_socket = server.socket}, "t"};
  client::AttemptApi attempt{client, {RunId{"r"}, 1}};
  std::string buffer;

  explicit Bench(std::vector<std::string> hidden = {})
      : files({.folder = logs,
               .system_log = dir.path() / "system.txt",
               .system_name = "system_logs/supervisor.txt",
               .hidden = std::move(hidden)}) {
    server.start();
    REQUIRE(make_dirs(logs));
  }
  void write(const std::string& name, std::string_view text) {
    // In place, as a script writes: write_file() would make another file.
    const Fd fd = open_file(logs / name, O_WRONLY | O_CREAT | O_TRUNC).value();
    REQUIRE(write_all(fd.get(), text, name));
  }
  void append(const std::string& name, std::string_view text) {
    const Fd fd = open_file(logs / name, O_WRONLY | O_APPEND).value();
    REQUIRE(write_all(fd.get(), text, name));
  }
  // One pass; how many requests it took.
  int pass(LogFiles::Last last = LogFiles::Last::no) {
    const int before = server.seen().requests;
    files.scan(last);
    while (files.pending()) REQUIRE(files.send_next(attempt, buffer));
    return server.seen().requests - before;
  }
  FakeServer::File at(const std::string& name) { return server.seen().files[name]; }
};

}  // namespace

TEST_CASE("files are sent as they grow, in folders too, and nothing when they do not") {
  Bench bench;
  REQUIRE(make_dirs(bench.logs / "tb" / "run1"));
  bench.write("a.txt", "one");
  bench.write("tb/run1/events", "e");
  bench.write("empty", "");
  CHECK(bench.pass() == 3);
  CHECK(bench.at("logs/a.txt").bytes == "one");
  CHECK(bench.at("logs/tb/run1/events").bytes == "e");
  CHECK(bench.at("logs/empty").bytes.empty());
  CHECK(bench.pass() == 0);
  bench.append("a.txt", " two");
  CHECK(bench.pass() == 1);
  CHECK(bench.at("logs/a.txt").bytes == "one two");
  CHECK(bench.at("logs/a.txt").resets == 1);  // The first sending only.
}

TEST_CASE("a file that was cut, written anew or replaced is sent anew") {
  Bench bench;
  bench.write("a", "first version");
  bench.pass();
  SUBCASE("shorter") { bench.write("a", "short"); }
  SUBCASE("longer, from the beginning") { bench.write("a", "another version, longer"); }
  SUBCASE("of the same size") { bench.write("a", "FIRST VERSION"); }
  SUBCASE("another file under its name") {
    REQUIRE(write_file(bench.logs / "a", "first version and on"));
  }
  bench.pass();
  CHECK(bench.at("logs/a").bytes == read_file(bench.logs / "a").value());
  CHECK(bench.at("logs/a").resets == 2);
}

TEST_CASE("a large file goes in pieces, and others between them") {
  Bench bench;
  std::string large(5 << 20, 'x');
  large.back() = 'y';
  bench.write("a-large", large);
  bench.write("b-small", "s");
  bench.files.scan();
  REQUIRE(bench.files.send_next(bench.attempt, bench.buffer));
  REQUIRE(bench.files.send_next(bench.attempt, bench.buffer));
  CHECK(bench.at("logs/b-small").bytes == "s");
  bench.pass();
  CHECK(bench.at("logs/a-large").bytes == large);
}

TEST_CASE("links, pipes and what lies behind them are left alone") {
  Bench bench;
  REQUIRE(write_file(bench.dir.path() / "secret", "secret"));
  fs::create_symlink(bench.dir.path() / "secret", bench.logs / "link");
  fs::create_directory_symlink(bench.dir.path(), bench.logs / "folder");
  REQUIRE(mkfifo((bench.logs / "pipe").c_str(), 0600) == 0);
  CHECK(bench.pass() == 0);
  fs::remove_all(bench.logs);
  fs::create_directory_symlink(bench.dir.path(), bench.logs);
  CHECK(bench.pass() == 0);
}

TEST_CASE("a file that vanishes before it is sent is passed over") {
  Bench bench;
  bench.write("a", "x");
  bench.write("b", "y");
  bench.files.scan();
  fs::remove(bench.logs / "a");
  while (bench.files.pending()) REQUIRE(bench.files.send_next(bench.attempt, bench.buffer));
  CHECK(bench.at("logs/b").bytes == "y");
}

TEST_CASE("our own log is sent when it is wanted") {
  Bench bench;
  REQUIRE(write_file(bench.dir.path() / "system.txt", "did this\n"));
  CHECK(bench.pass() == 0);
  bench.files.want_system_log();
  CHECK(bench.pass() == 1);
  CHECK(bench.at("system_logs/supervisor.txt").bytes == "did this\n");
}

TEST_CASE("secrets are hidden in files, however they are written and cut into pieces") {
  Bench bench({"hunter22", "sesame-open"});
  bench.write("a.txt", "the key is hunter22, and again hunter22\n");
  bench.pass();
  CHECK(bench.at("logs/a.txt").bytes == "the key is ********, and again ********\n");
  // Half of one is not sent before it is known what it becomes.
  bench.append("a.txt", "hunt");
  bench.pass();
  CHECK(bench.at("logs/a.txt").bytes.ends_with("********\n"));
  CHECK(bench.pass() == 0);
  bench.append("a.txt", "er22 sesame");
  bench.pass();
  CHECK(bench.at("logs/a.txt").bytes.ends_with("\n******** "));
  bench.append("a.txt", "-oil");
  bench.pass();
  CHECK(bench.at("logs/a.txt").bytes.ends_with(" sesame-oil"));
  bench.append("a.txt", " hunter2");
  bench.pass();
  CHECK(bench.at("logs/a.txt").bytes.ends_with(" sesame-oil "));
  bench.pass(LogFiles::Last::yes);
  CHECK(bench.at("logs/a.txt").bytes.ends_with(" sesame-oil hunter2"));
  CHECK(bench.pass(LogFiles::Last::yes) == 0);
}

TEST_CASE("a secret across the border of two pieces is hidden") {
  Bench bench({"hunter22"});
  std::string text((1 << 20) - 3, 'x');
  text += "hunter22 and more";
  bench.write("big.txt", text);
  bench.pass();
  CHECK(bench.at("logs/big.txt").bytes.size() == text.size());
  CHECK(bench.at("logs/big.txt").bytes.ends_with("xx******** and more"));
}
