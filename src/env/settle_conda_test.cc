#include "env/settle_conda.h"

#include <doctest/doctest.h>

namespace trainyard::env {
namespace {

constexpr std::string_view kList = R"({
  "name": "thing", "version": "1", "build": "0",
  "paths_data": {"paths": [
    {"_path": "etc/thing.conf", "file_mode": "text", "prefix_placeholder": "/opt/placeholder"},
    {"_path": "lib/thing.so", "file_mode": "binary", "prefix_placeholder": "/opt/placeholder"},
    {"_path": "lib/gone.so", "file_mode": "binary", "prefix_placeholder": "/opt/placeholder"},
    {"_path": "share/plain"}
  ]}
})";

struct SettlePlace {
  TempDir temp;
  fs::path root = temp.path() / "built" / "root";

  SettlePlace() {
    for (const char* name : {"conda-meta", "etc", "lib", "bin", "share"}) {
      REQUIRE(make_dirs(root / name));
    }
    REQUIRE(write_file(root / "conda-meta" / "thing.json", kList));
    REQUIRE(write_file(root / "etc/thing.conf", "at = " + root.string() + "/x\n"));
    REQUIRE(write_file(root / "share/plain", root.string()));
    // As conda leaves it: zeros up to the length of its placeholder.
    REQUIRE(write_file(root / "lib/thing.so", "a" + root.string() + "/lib:" + root.string() +
                                                  std::string(20, '\0') + "end"));
  }
  std::string read(const std::string& name) const { return read_file(root / name).value(); }
};

TEST_CASE("files of conda's packages get the path they will have; no byte of a binary moves") {
  const SettlePlace place;
  const size_t size = place.read("lib/thing.so").size();
  REQUIRE(settle_conda(place.root, "/short/root"));
  CHECK(place.read("etc/thing.conf") == "at = /short/root/x\n");
  CHECK(place.read("lib/thing.so").size() == size);
  CHECK(place.read("lib/thing.so").starts_with(std::string("a/short/root/lib:/short/root\0", 29)));
  CHECK(place.read("lib/thing.so").ends_with(std::string("\0end", 4)));
  CHECK(place.read("share/plain") == place.root.string());
}

TEST_CASE("it can be settled again elsewhere, as far as there is room") {
  const SettlePlace place;
  REQUIRE(settle_conda(place.root, "/short/root"));
  REQUIRE(settle_conda(place.root, "/not/so/short/root"));
  CHECK(place.read("etc/thing.conf") == "at = /not/so/short/root/x\n");
  CHECK(place.read("lib/thing.so").starts_with("a/not/so/short/root/lib:/not/so/short/root"));
  const auto too_long = settle_conda(place.root, "/" + std::string(200, 'x'));
  REQUIRE(!too_long);
  CHECK(too_long.error().kind == ErrorKind::invalid);
  CHECK(too_long.error().hint == "Use a home with a shorter path.");
}

TEST_CASE("what is not conda's is left as it is") {
  const TempDir temp;
  REQUIRE(make_dirs(temp.path() / "bin"));
  CHECK(settle_conda(temp.path(), "/x"));
  CHECK(!fs::exists(temp.path() / "conda-meta"));
}

}  // namespace
}  // namespace trainyard::env
