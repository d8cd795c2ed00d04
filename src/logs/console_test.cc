#include "logs/console.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>

#include <csignal>
#include <random>

namespace trainyard::logs {
namespace {

// What a console must be, byte for byte.
struct Model {
  std::string bytes;
  std::string streams;  // 'o' or 'e' per byte.

  void add(Stream stream, std::string_view text) {
    bytes += text;
    streams.append(text.size(), stream == Stream::out ? 'o' : 'e');
  }
  std::string view(char stream) const {
    std::string picked;
    for (size_t at = 0; at < bytes.size(); ++at) {
      if (streams[at] == stream) picked += bytes[at];
    }
    return picked;
  }
};

std::string read_whole(Console& console, View view, size_t step) {
  std::string whole;
  for (;;) {
    Result<Read> read = console.read(view, whole.size(), step);
    REQUIRE(read.has_value());
    CHECK(read->next == whole.size() + read->bytes.size());
    whole += read->bytes;
    if (read->next == read->size) return whole;
    REQUIRE(!read->bytes.empty());
  }
}

Model read_framed_whole(Console& console, size_t step) {
  Model model;
  for (;;) {
    Result<FramedRead> read = console.read_framed(model.bytes.size(), step);
    REQUIRE(read.has_value());
    size_t at = 0;
    for (const FramedRead::Part& part : read->parts) {
      model.add(part.stream, std::string_view(read->bytes).substr(at, part.size));
      at += part.size;
    }
    CHECK(at == read->bytes.size());
    if (read->next == read->size) return model;
    REQUIRE(at > 0);
  }
}

void check_is(Console& console, const Model& model, size_t step = 7) {
  CHECK(read_whole(console, View::both, step) == model.bytes);
  CHECK(read_whole(console, View::out, step) == model.view('o'));
  CHECK(read_whole(console, View::err, step) == model.view('e'));
  const Model framed = read_framed_whole(console, step);
  CHECK(framed.bytes == model.bytes);
  CHECK(framed.streams == model.streams);
  CHECK(console.size(View::out).value() == model.view('o').size());
  CHECK(console.check().value().empty());
}

// A supervisor's bytes: pieces of random sizes on random outputs.
struct Script {
  std::vector<std::pair<Stream, std::string>> pieces;

  Script(std::mt19937& random, int count, int size_max) {
    for (int i = 0; i < count; ++i) {
      std::string text(random() % static_cast<unsigned>(size_max), ' ');
      for (char& c : text) c = "ab\n"[random() % 3];
      pieces.emplace_back(random() % 2 == 0 ? Stream::out : Stream::err, text);
    }
  }
  Model model() const {
    Model model;
    for (const auto& [stream, text] : pieces) model.add(stream, text);
    return model;
  }
  // The pieces of bytes [from, to).
  static std::vector<Piece> cut(const Model& model, size_t from, size_t to) {
    std::vector<Piece> cut;
    for (size_t at = from; at < to;) {
      size_t end = at;
      while (end < to && model.streams[end] == model.streams[at]) ++end;
      cut.push_back({model.streams[at] == 'o' ? Stream::out : Stream::err,
                     std::string_view(model.bytes).substr(at, end - at)});
      at = end;
    }
    return cut;
  }
};

constexpr const char* kEndings[] = {"seams", "idx", "log"};  // In the order of writing.

std::string slurp(const fs::path& folder, const char* ending) {
  return read_file(folder / Console::file_name(0, ending)).value_or("");
}

TEST_CASE("random pieces, sent again and in overlaps, are kept byte for byte") {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    TempDir dir;
    const Model model = Script(random, 40, 30).model();
    Console console(dir.path() / "run", 0);
    uint64_t have = 0;
    while (have < model.bytes.size()) {
      const size_t from = random() % (have + 1);
      const size_t to = std::min(model.bytes.size(), from + random() % 60);
      const auto pieces = Script::cut(model, from, to);
      const Result<uint64_t> size = console.append(1, from, pieces);
      REQUIRE(size.has_value());
      CHECK(*size == std::max<uint64_t>(have, to));
      have = *size;
    }
    check_is(console, model, 1 + random() % 50);
    Console reopened(dir.path() / "run", 0);
    check_is(reopened, model, 1 + random() % 50);
  }
}

TEST_CASE("nothing beyond a gap is taken") {
  TempDir dir;
  Console console(dir.path() / "run", 0);
  const Piece piece{Stream::out, "abc"};
  CHECK(console.append(1, 5, {&piece, 1}).value() == 0);
  CHECK_FALSE(fs::exists(dir.path() / "run"));
  CHECK(console.append(1, 0, {&piece, 1}).value() == 3);
  CHECK(console.append(1, 4, {&piece, 1}).value() == 3);
  CHECK(console.append(1, 3, {}).value() == 3);
  CHECK(console.append(1, UINT64_MAX, {&piece, 1}).value() == 3);
  CHECK(read_whole(console, View::both, 10) == "abc");
}

TEST_CASE("attempts follow each other after a seam line of their own") {
  TempDir dir;
  Console console(dir.path(), 0);
  const Piece first{Stream::out, "no newline"};
  const Piece second{Stream::out, "again\n"};
  CHECK(console.append(1, 0, {&first, 1}).value() == 10);
  CHECK(console.append(2, 0, {&second, 1}).value() == 6);
  CHECK(console.append(2, 0, {&second, 1}).value() == 6);
  CHECK(console.append(3, 0, {}).value() == 0);  // Nothing written: no seam yet.
  Model model;
  model.add(Stream::out, "no newline");
  model.add(Stream::err, "\n--- attempt 2 ---\n");
  model.add(Stream::out, "again\n");
  check_is(console, model);

  CHECK(console.append(4, 0, {&first, 1}).value() == 10);
  model.add(Stream::err, "--- attempt 4 ---\n");
  model.add(Stream::out, "no newline");
  Console reopened(dir.path(), 0);
  check_is(reopened, model);
  CHECK(reopened.append(4, 10, {&second, 1}).value() == 16);

  const auto bytes_of = [&](int attempt) {
    const Range range = reopened.attempt(attempt).value();
    return reopened.read(View::both, range.begin, range.end - range.begin)->bytes;
  };
  CHECK(bytes_of(1) == "no newline");
  CHECK(bytes_of(2) == "again\n");
  CHECK(bytes_of(3) == "");
  CHECK(bytes_of(4) == "no newlineagain\n");
  CHECK(bytes_of(5) == "");
}

TEST_CASE("where a sender has lost bytes a line says so, and the rest follows at its own offset") {
  TempDir dir;
  const Piece first{Stream::out, "abc"};
  const Piece later{Stream::out, "xyz\n"};
  Model model;
  model.add(Stream::out, "abc");
  model.add(Stream::err, "\n--- 97 bytes were lost with the disk of the server ---\n");
  model.add(Stream::out, "xyz\n");
  {
    Console console(dir.path(), 0);
    REQUIRE(console.append(1, 0, {&first, 1}));
    CHECK(console.append(1, 100, {&later, 1}, Console::Gap::lost).value() == 104);
    CHECK(console.append(1, 100, {&later, 1}, Console::Gap::lost).value() == 104);
    check_is(console, model);
  }
  Console reopened(dir.path(), 0);
  CHECK(reopened.append(1, 104, {&first, 1}).value() == 107);
  model.add(Stream::out, "abc");
  check_is(reopened, model);
  // Of an attempt that has written nothing yet too.
  CHECK(reopened.append(2, 5, {&later, 1}, Console::Gap::lost).value() == 9);
  model.add(Stream::err, "\n--- attempt 2 ---\n");
  model.add(Stream::err, "\n--- 5 bytes were lost with the disk of the server ---\n");
  model.add(Stream::out, "xyz\n");
  Console again(dir.path(), 0);
  check_is(again, model);
  CHECK(again.append(2, 0, {}).value() == 9);
  const Range range = again.attempt(1).value();
  CHECK(range.begin == 0);
  CHECK(range.end == 3 + 56 + 4 + 3);
  CHECK(again.check()->empty());
}

TEST_CASE("a console that was cut under us goes on where it is left, without zeros") {
  TempDir dir;
  Console console(dir.path(), 0);
  const Piece first{Stream::out, "first line\n"};
  const Piece second{Stream::err, "second line\n"};
  REQUIRE(console.append(1, 0, {&first, 1}));
  REQUIRE(console.append(2, 0, {&second, 1}));
  fs::resize_file(dir.path() / "console-0.log", 4);
  // The second attempt's seam is gone with its line, and the first is the newest again.
  CHECK(console.append(2, 12, {&first, 1}).value() == 0);
  CHECK(console.append(1, 0, {&first, 1}).value() == 11);
  CHECK(console.append(2, 0, {&second, 1}).value() == 12);
  Model model;
  model.add(Stream::out, "first line\n");
  model.add(Stream::err, "--- attempt 2 ---\nsecond line\n");
  check_is(console, model);
  CHECK(console.check()->empty());
}

TEST_CASE("what is synced is durable, and nothing else") {
  TempDir dir;
  Console console(dir.path() / "run", 0);
  const Piece piece{Stream::out, "abc"};
  CHECK(console.durable(1).value() == 0);
  REQUIRE(console.append(1, 0, {&piece, 1}));
  CHECK(console.durable(1).value() == 0);
  CHECK(console.unsynced() == 3);
  REQUIRE(console.sync());
  CHECK(console.durable(1).value() == 3);
  REQUIRE(console.append(1, 3, {&piece, 1}));
  CHECK(console.durable(1).value() == 3);
  CHECK(console.unsynced() == 3);
  REQUIRE(console.append(2, 0, {&piece, 1}));
  CHECK(console.durable(2).value() == 0);
  REQUIRE(console.sync());
  CHECK(console.durable(2).value() == 3);
}

TEST_CASE("an older attempt may no longer write") {
  TempDir dir;
  Console console(dir.path(), 0);
  const Piece piece{Stream::out, "x"};
  REQUIRE(console.append(2, 0, {&piece, 1}).has_value());
  const Result<uint64_t> refused = console.append(1, 0, {&piece, 1});
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().kind == ErrorKind::conflict);
}

TEST_CASE("killed at any byte of any write, nothing kept is wrong and sending on completes it") {
  std::mt19937 random(7);
  TempDir dir;
  const Model first = Script(random, 6, 8).model();
  const Model second = Script(random, 8, 8).model();
  const fs::path whole = dir.path() / "whole";
  {
    Console console(whole, 0);
    REQUIRE(console.append(1, 0, Script::cut(first, 0, first.bytes.size())).has_value());
  }
  std::string before[3];
  for (int i = 0; i < 3; ++i) before[i] = slurp(whole, kEndings[i]);
  Model model = first;
  {
    Console console(whole, 0);
    REQUIRE(console.append(2, 0, Script::cut(second, 0, second.bytes.size())).has_value());
    const Range range = console.attempt(2).value();
    const std::string line =
        console.read(View::both, first.bytes.size(), range.begin - first.bytes.size())->bytes;
    model.add(Stream::err, line);
    model.bytes += second.bytes;
    model.streams += second.streams;
    check_is(console, model);
  }
  std::string after[3];
  for (int i = 0; i < 3; ++i) after[i] = slurp(whole, kEndings[i]);

  int kill_points = 0;
  for (int file = 0; file < 3; ++file) {
    for (size_t cut = before[file].size(); cut <= after[file].size(); ++cut) {
      CAPTURE(file);
      CAPTURE(cut);
      const fs::path folder = dir.path() / std::to_string(kill_points++);
      REQUIRE(make_dirs(folder).has_value());
      for (int i = 0; i < 3; ++i) {
        const std::string bytes = i < file    ? after[i]
                                  : i == file ? after[i].substr(0, cut)
                                              : before[i];
        REQUIRE(write_file(folder / Console::file_name(0, kEndings[i]), bytes).has_value());
      }
      Console console(folder, 0);
      const Model found = read_framed_whole(console, 1000);
      CHECK(found.bytes == model.bytes.substr(0, found.bytes.size()));
      CHECK(found.streams == model.streams.substr(0, found.streams.size()));
      CHECK(found.bytes.size() >= first.bytes.size());
      const uint64_t have = console.append(2, 0, {}).value();
      REQUIRE(have <= second.bytes.size());
      const auto rest = Script::cut(second, have, second.bytes.size());
      REQUIRE(console.append(2, have, rest).value() == second.bytes.size());
      check_is(console, model, 1000);
    }
  }
  CHECK(kill_points > 100);
}

TEST_CASE("a write that the file system refuses leaves the console as it was") {
  TempDir dir;
  Console console(dir.path(), 0);
  const Piece small{Stream::out, "kept\n"};
  REQUIRE(console.append(1, 0, {&small, 1}).has_value());
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit tight{4096, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &tight) == 0);
  const std::string large(10'000, 'x');
  const Piece pieces[] = {{Stream::err, "half"}, {Stream::out, large}};
  const Result<uint64_t> refused = console.append(2, 0, pieces);
  REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
  std::signal(SIGXFSZ, old_handler);
  CHECK_FALSE(refused.has_value());
  Model model;
  model.add(Stream::out, "kept\n");
  check_is(console, model);
  Console reopened(dir.path(), 0);
  check_is(reopened, model);
  CHECK(console.append(1, 5, {&small, 1}).value() == 10);
}

TEST_CASE("a view far apart is read in bounded steps") {
  TempDir dir;
  Console console(dir.path(), 0);
  const std::string noise(300'000, '.');
  uint64_t from = 0;
  for (int i = 0; i < 40; ++i) {
    const Piece pieces[] = {{Stream::err, noise}, {Stream::out, "o"}};
    from = console.append(1, from, pieces).value();
  }
  CHECK(read_whole(console, View::out, 1 << 20) == std::string(40, 'o'));
  CHECK(console.read(View::out, 0, 1 << 20)->bytes.size() < 40);
}

TEST_CASE("check finds an index that does not fit") {
  TempDir dir;
  {
    Console console(dir.path(), 0);
    const Piece pieces[] = {{Stream::out, "one"}, {Stream::err, "two"}, {Stream::out, "three"}};
    REQUIRE(console.append(1, 0, pieces).has_value());
    CHECK(console.check().value().empty());
  }
  std::string index = slurp(dir.path(), "idx");
  index[SwitchIndex::kRecordSize] = 1;
  REQUIRE(write_file(dir.path() / Console::file_name(0, "idx"), index).has_value());
  Console console(dir.path(), 0);
  CHECK(console.check().value().size() == 1);
}

}  // namespace
}  // namespace trainyard::logs
