#include "blob/pack.h"

#include <doctest/doctest.h>

#include <random>

namespace trainyard::blob {
namespace {

struct PackBench {
  TempDir dir;
  std::unique_ptr<Store> store = *open_folder(dir.path() / "blobs", dir.path() / "tmp");
};

std::string packed(std::string_view bytes) {
  return pack_head({sha256(bytes), bytes.size()}) + std::string(bytes);
}

}  // namespace

TEST_CASE("a pack cut into pieces of any size gives the same blobs") {
  const std::vector<std::string> blobs = {"", "a", std::string(100'000, 'b'),
                                          "", "c", std::string(300'000, 'd')};
  std::string pack;
  for (const std::string& bytes : blobs) pack += packed(bytes);
  const unsigned seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (const size_t piece_max : {1ul, 7ul, 40ul, 41ul, 4096ul, 1'000'000ul}) {
    PackBench bench;
    PackReader reader(*bench.store);
    for (size_t at = 0; at < pack.size();) {
      const size_t piece = piece_max == 1 ? 1 : 1 + random() % piece_max;
      REQUIRE(reader.write(std::string_view(pack).substr(at, piece)));
      at += piece;
    }
    const auto outcome = reader.finish();
    REQUIRE(outcome);
    CHECK(outcome->kept == blobs.size());
    CHECK(outcome->bad.empty());
    for (const std::string& bytes : blobs) CHECK(*bench.store->size(sha256(bytes)) == bytes.size());
    bench.store.reset();
    CHECK(fs::is_empty(bench.dir.path() / "tmp"));
  }
}

TEST_CASE("a blob with wrong bytes is listed, and those around it are kept") {
  PackBench bench;
  PackReader reader(*bench.store);
  REQUIRE(reader.write(packed("one") + pack_head({sha256("two"), 3}) + "TWO" + packed("three")));
  const auto outcome = reader.finish();
  REQUIRE(outcome);
  CHECK(outcome->kept == 2);
  REQUIRE(outcome->bad.size() == 1);
  CHECK(outcome->bad[0] == sha256("two"));
  CHECK(bench.store->has(sha256("three")));
  CHECK(!bench.store->has(sha256("two")));
}

TEST_CASE("a blob that is here already is skipped and counts as kept") {
  PackBench bench;
  REQUIRE(bench.store->put(sha256("one"), "one"));
  PackReader reader(*bench.store);
  REQUIRE(reader.write(packed("one") + packed("two")));
  CHECK(reader.finish()->kept == 2);
}

TEST_CASE("a pack that stops inside a blob or a head is invalid") {
  for (const size_t cut : {1ul, 39ul, 41ul, 44ul}) {
    PackBench bench;
    PackReader reader(*bench.store);
    REQUIRE(reader.write(packed("hello").substr(0, cut)));
    CHECK(reader.finish().error().kind == ErrorKind::invalid);
  }
}

TEST_CASE("an empty pack is a pack") {
  PackBench bench;
  PackReader reader(*bench.store);
  CHECK(reader.finish()->kept == 0);
}

TEST_CASE("what is not a pack is refused at its first head, and stays refused") {
  PackBench bench;
  PackReader reader(*bench.store);
  CHECK(reader.write(std::string(100, '\xff')).error().kind == ErrorKind::invalid);
  CHECK(reader.write(packed("one")).error().kind == ErrorKind::invalid);
  CHECK(!reader.finish());
  CHECK(!bench.store->has(sha256("one")));
}

TEST_CASE("a reader dropped inside a blob leaves nothing") {
  PackBench bench;
  {
    PackReader reader(*bench.store);
    REQUIRE(reader.write(pack_head({sha256("x"), 5'000'000}) + std::string(1'000'000, 'x')));
  }
  bench.store.reset();
  CHECK(fs::is_empty(bench.dir.path() / "tmp"));
}

}  // namespace trainyard::blob
