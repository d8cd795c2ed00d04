#include "client/blobs.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <atomic>
#include <latch>
#include <map>

#include "blob/pack.h"
#include "http/test_server.h"
#include "wire/json.h"

namespace trainyard::client {
namespace {

// The blob routes of a server, with a place to put faults.
struct BlobServer {
  http::TestServer http;
  fs::path root = http.dir.path() / "blobs";
  std::unique_ptr<blob::Store> store = *blob::open_folder(root, http.dir.path() / "tmp");
  int questions = 0;
  std::atomic<int> packs = 0;
  std::function<void()> before_pack;

  struct Sink : http::BodySink {
    explicit Sink(blob::Store& blobs) : reader(blobs) {}
    Status write(std::string_view bytes) override { return reader.write(bytes); }
    blob::PackReader reader;
  };

  BlobServer() {
    http.on(http::Method::post, "/api/v1/blobs/missing", [this](const http::Request& request) {
      ++questions;
      wire::Json missing = wire::Json::array();
      const wire::Json body = *wire::parse(request.body);
      for (const auto& item : body["digests"]) {
        if (!store->has(*Digest::from_hex(item.get<std::string>()))) missing.push_back(item);
      }
      return http::Response::json(wire::dump({{"missing", missing}}));
    });
    http.on_upload("/api/v1/blobs", [this](const http::Request&) {
      ++packs;
      if (before_pack) before_pack();
      auto sink = std::make_unique<Sink>(*store);
      blob::PackReader& reader = sink->reader;
      return http::Upload{
          std::move(sink), [&reader](const http::Request&) {
            const auto outcome = reader.finish();
            REQUIRE(outcome);
            wire::Json bad = wire::Json::array();
            for (const Digest& digest : outcome->bad) bad.push_back(digest.hex());
            return http::Response::json(wire::dump({{"kept", outcome->kept}, {"bad", bad}}));
          }};
    });
    http.on(http::Method::get, "/api/v1/blobs/{digest}", [this](const http::Request& request) {
      auto fd = store->open(*Digest::from_hex(request.param("digest")));
      if (!fd) return http::Response::json(wire::dump(wire::error_to_json(fd.error())), 404);
      http::Response response;
      const uint64_t size = *file_size(fd->get(), "blob");
      response.file = http::FileBody{*std::move(fd), 0, size};
      return response;
    });
    http.start();
  }
  // A request that its client gave up may still be read: before the store goes, the server does.
  ~BlobServer() { http.server.reset(); }
};

struct Bench {
  BlobServer server;
  TempDir dir;
  fs::path code = dir.path() / "code";
  fs::path out = dir.path() / "out";
  http::Client client = server.http.client();

  Bench() { REQUIRE(make_dirs(code)); }
  void write(std::string_view path, std::string_view bytes) {
    REQUIRE(make_dirs((code / path).parent_path()));
    REQUIRE(write_file(code / path, bytes));
  }
  snapshot::Captured capture() { return *snapshot::capture(code, {}); }
};

size_t count_partial(const fs::path& folder) {
  size_t count = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    count += entry.path().filename().string().starts_with(".trainyard-partial") ? 1 : 0;
  }
  return count;
}

}  // namespace

TEST_CASE("a folder goes up and comes back byte for byte") {
  Bench bench;
  for (int i = 0; i < 200; ++i) {
    bench.write("d" + std::to_string(i % 9) + "/f" + std::to_string(i), std::string(i * 100u, 'x'));
  }
  bench.write("large", std::string(5'000'000, 'l'));
  bench.write("odd\n\xff", "odd");
  fs::permissions(bench.code / "large", fs::perms(0755));
  fs::create_symlink("../nowhere", bench.code / "link");
  REQUIRE(make_dirs(bench.code / "empty"));
  const auto captured = bench.capture();
  std::vector<Transfer> seen;
  const auto uploaded = upload_missing(bench.client, bench.code, captured,
                                       [&](const Transfer& now) { seen.push_back(now); });
  REQUIRE(uploaded);
  CHECK(uploaded->files == 202);
  CHECK(uploaded->bytes == captured.tree.bytes());
  REQUIRE(seen.size() > 2);
  CHECK(seen.front().bytes_total == captured.tree.bytes());
  CHECK(seen.back().bytes_done == captured.tree.bytes());
  CHECK(seen.back().files_done == 202);
  CHECK(fetch_text(bench.client, captured.id) == captured.text);

  seen.clear();
  REQUIRE(download_tree(bench.client, captured.tree, bench.out,
                        [&](const Transfer& now) { seen.push_back(now); }));
  CHECK(seen.back().bytes_done == seen.back().bytes_total);
  CHECK(snapshot::capture(bench.out, {})->text == captured.text);
  CHECK(fs::read_symlink(bench.out / "link") == "../nowhere");
}

TEST_CASE("what the server has is not sent, and a known tree costs one question") {
  Bench bench;
  bench.write("a", "one");
  bench.write("b", "two");
  bench.write("same as a", "one");
  REQUIRE(bench.server.store->put(sha256("two"), "two"));
  const auto first = upload_missing(bench.client, bench.code, bench.capture());
  REQUIRE(first);
  CHECK(first->files == 1);
  CHECK(first->bytes == 3);
  CHECK(bench.server.packs == 2);
  bench.server.questions = 0;
  const auto second = upload_missing(bench.client, bench.code, bench.capture());
  REQUIRE(second);
  CHECK(second->files == 0);
  CHECK(bench.server.packs == 2);
  CHECK(bench.server.questions == 1);
}

TEST_CASE("more digests than one question takes are asked for in several") {
  Bench bench;
  snapshot::Captured captured;
  for (int i = 0; i < 8'500; ++i) {
    const std::string bytes = std::to_string(i);
    REQUIRE(bench.server.store->put(sha256(bytes), bytes));
    captured.tree.entries.push_back(
        {.path = "f" + std::to_string(100'000 + i), .size = bytes.size(), .digest = sha256(bytes)});
  }
  captured.text = encode(captured.tree);
  captured.id = sha256(captured.text);
  const auto uploaded = upload_missing(bench.client, bench.code, captured);
  REQUIRE(uploaded);
  CHECK(uploaded->files == 0);
  CHECK(bench.server.questions == 3);
  CHECK(bench.server.store->has(captured.id));
}

TEST_CASE("large folders go in several packs, the tree after all of them") {
  Bench bench;
  bench.write("a", std::string(65u << 20, 'a'));
  bench.write("b", "b");
  const auto captured = bench.capture();
  bool early = false;
  bench.server.before_pack = [&] { early = early || bench.server.store->has(captured.id); };
  REQUIRE(upload_missing(bench.client, bench.code, captured));
  CHECK(bench.server.packs == 3);
  CHECK(!early);
  CHECK(bench.server.store->has(captured.id));
}

TEST_CASE("two connections send packs at the same time") {
  Bench bench;
  for (int i = 0; i < 20; ++i)
    bench.write("f" + std::to_string(i), std::string(1 << 20, static_cast<char>('a' + i)));
  const auto captured = bench.capture();
  // Nobody passes before a second one has come.
  std::latch both(2);
  bench.server.before_pack = [&] {
    if (bench.server.packs <= 2) both.arrive_and_wait();
  };
  uint64_t bytes = 0;
  const auto uploaded =
      upload_missing(bench.client, bench.code, captured,
                     [&](const Transfer& transfer) { bytes = transfer.bytes_done; });
  REQUIRE(uploaded);
  CHECK(uploaded->files == 20);
  CHECK(bytes == 20u << 20);
  for (const auto& entry : captured.tree.entries) CHECK(bench.server.store->has(entry.digest));
}

TEST_CASE("what one connection cannot send is the error of the upload") {
  for (const char* gone : {"f0", "f9"}) {
    Bench bench;
    for (int i = 0; i < 20; ++i) {
      bench.write("f" + std::to_string(i), std::string(1 << 20, static_cast<char>('a' + i)));
    }
    const auto captured = bench.capture();
    fs::remove(bench.code / gone);
    const auto uploaded = upload_missing(bench.client, bench.code, captured);
    REQUIRE(!uploaded);
    CHECK(uploaded.error().kind == ErrorKind::conflict);
    CHECK(uploaded.error().message.find(gone) != std::string::npos);
    CHECK(!bench.server.store->has(captured.id));
  }
}

TEST_CASE("an interrupt ends both connections") {
  Bench bench;
  for (int i = 0; i < 20; ++i)
    bench.write("f" + std::to_string(i), std::string(1 << 20, static_cast<char>('a' + i)));
  const auto captured = bench.capture();
  bench.server.before_pack = [&] { bench.client.interrupt(); };
  const auto uploaded = upload_missing(bench.client, bench.code, captured);
  REQUIRE(!uploaded);
  CHECK(uploaded.error().kind == ErrorKind::cancelled);
}

TEST_CASE("a file changed since its capture is a conflict with its name, and the tree stays away") {
  for (const char* bytes : {"after", "longer than before", ""}) {
    Bench bench;
    bench.write("sub/x", "before"), bench.write("y", "y");
    const auto captured = bench.capture();
    bench.write("sub/x", bytes);
    const auto uploaded = upload_missing(bench.client, bench.code, captured);
    REQUIRE(!uploaded);
    CHECK(uploaded.error().kind == ErrorKind::conflict);
    CHECK(uploaded.error().message.find("sub/x") != std::string::npos);
    CHECK(!bench.server.store->has(captured.id));
    CHECK(bench.server.store->has(sha256("y")));
  }
}

TEST_CASE("a file that is itself again at the second reading is sent again") {
  Bench bench;
  bench.write("x", "right");
  const auto captured = bench.capture();
  bench.write("x", "wrong");
  bench.server.before_pack = [&] {
    if (bench.server.packs == 2) bench.write("x", "right");
  };
  REQUIRE(upload_missing(bench.client, bench.code, captured));
  CHECK(bench.server.store->has(sha256("right")));
  CHECK(bench.server.store->has(captured.id));
}

TEST_CASE("a file that is gone, or has become a symlink, is not sent") {
  Bench bench;
  bench.write("x", "x");
  const auto captured = bench.capture();
  fs::remove(bench.code / "x");
  CHECK(upload_missing(bench.client, bench.code, captured).error().kind == ErrorKind::conflict);
  REQUIRE(write_file(bench.dir.path() / "secret", "x"));
  fs::create_symlink("../secret", bench.code / "x");
  CHECK(upload_missing(bench.client, bench.code, captured).error().kind == ErrorKind::conflict);
  CHECK(!bench.server.store->has(sha256("x")));
}

TEST_CASE("a download replaces files, follows no symlink and leaves nothing half-made") {
  Bench bench;
  const auto entry = [&](std::string path, std::string_view bytes) {
    REQUIRE(bench.server.store->put(sha256(bytes), bytes));
    return snapshot::Entry{.path = std::move(path), .size = bytes.size(), .digest = sha256(bytes)};
  };
  snapshot::Tree tree;
  tree.entries = {entry("a", "new"), entry("sub/b", "inner")};
  REQUIRE(make_dirs(bench.out));
  REQUIRE(write_file(bench.dir.path() / "outside", "untouched"));
  fs::create_symlink(bench.dir.path() / "outside", bench.out / "a");
  REQUIRE(download_tree(bench.client, tree, bench.out));
  CHECK(*read_file(bench.out / "a") == "new");
  CHECK(fs::is_regular_file(fs::symlink_status(bench.out / "a")));
  CHECK(*read_file(bench.dir.path() / "outside") == "untouched");

  fs::remove_all(bench.out / "sub");
  fs::create_directory_symlink(bench.dir.path(), bench.out / "sub");
  CHECK(download_tree(bench.client, tree, bench.out).error().kind == ErrorKind::conflict);
  CHECK(!fs::exists(bench.dir.path() / "b"));
  fs::remove(bench.out / "sub");
  REQUIRE(make_dirs(bench.out / "sub/b"));
  CHECK(download_tree(bench.client, tree, bench.out).error().kind == ErrorKind::conflict);
  CHECK(count_partial(bench.out) == 0);
}

TEST_CASE("wrong or missing bytes get no name") {
  Bench bench;
  REQUIRE(bench.server.store->put(sha256("good"), "good"));
  REQUIRE(bench.server.store->sync());
  const std::string hex = sha256("good").hex();
  REQUIRE(write_file(bench.server.root / hex.substr(0, 2) / hex.substr(2), "evil"));
  snapshot::Tree tree;
  tree.entries = {{.path = "a", .size = 4, .digest = sha256("good")}};
  CHECK(download_tree(bench.client, tree, bench.out).error().kind == ErrorKind::internal);
  CHECK(fetch_blob(bench.client, sha256("good"), bench.out).error().kind == ErrorKind::internal);
  tree.entries[0].digest = sha256("nowhere");
  const auto missing = download_tree(bench.client, tree, bench.out);
  CHECK(missing.error().kind == ErrorKind::not_found);
  CHECK(missing.error().message.find("/a") != std::string::npos);
  CHECK(fs::is_empty(bench.out));
}

TEST_CASE("a fetched blob has no name and is read from its start") {
  Bench bench;
  const std::string bytes(1'000'000, 'q');
  REQUIRE(bench.server.store->put(sha256(bytes), bytes));
  const auto fd = fetch_blob(bench.client, sha256(bytes), bench.dir.path() / "tmp");
  REQUIRE(fd);
  std::string got(2'000'000, '\0');
  CHECK(::read(fd->get(), got.data(), got.size()) == 1'000'000);
  CHECK(fs::is_empty(bench.dir.path() / "tmp"));
  CHECK(fetch_text(bench.client, sha256(bytes), {}, 10).error().kind == ErrorKind::invalid);
}

TEST_CASE("a server that is not there is unavailable") {
  TempDir dir;
  http::Client client({.unix_socket = dir.path() / "none"}, "");
  const auto captured = *snapshot::capture(dir.path(), {});
  CHECK(upload_missing(client, dir.path(), captured).error().kind == ErrorKind::unavailable);
}

}  // namespace trainyard::client
