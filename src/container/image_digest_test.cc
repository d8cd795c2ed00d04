#include "container/image_digest.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <chrono>

#include "base/hash.h"
#include "container/oci_test_layout.h"
#include "container/unpack_test_tar.h"

namespace trainyard::container {
namespace {

// What `docker save` writes of one layer; `id` is what the configuration says of it.
std::string saved_image(const std::string& layer, const std::string& id) {
  const wire::Json config{{"config", {{"Cmd", {"true"}}}}, {"rootfs", {{"diff_ids", {id}}}}};
  const wire::Json manifest{
      {{"Config", "config.json"}, {"RepoTags", {"tiny:1"}}, {"Layers", {"1/layer.tar"}}}};
  return TestTar()
      .folder("1/")
      .file("1/layer.tar", layer)
      .file("config.json", wire::dump(config))
      .file("./manifest.json", wire::dump(manifest))
      .text();
}

std::string digest_now(const std::string& reference) {
  const auto found = image_digest(reference);
  REQUIRE_MESSAGE(found.has_value(), (found ? "" : found.error().message));
  return *found;
}

TEST_CASE("an image's name says where it comes from") {
  using enum ImageSource::Form;
  CHECK(image_source("debian:12").form == named);
  CHECK(image_source("rootfs:").form == named);
  CHECK(image_source("rootfs:/a.tar").path == "/a.tar");
  CHECK(image_source("docker-archive:/a.tar").form == archive);
  CHECK(image_source("oci-archive:/a.tar").form == archive);
  const ImageSource tagged = image_source("oci:/no/such:1.0");
  CHECK(tagged.form == layout);
  CHECK(tagged.path == "/no/such");
  CHECK(tagged.tag == "1.0");
  CHECK(image_digest("debian:12").value().empty());
}

TEST_CASE("a layout is known by the digest of the image that is meant") {
  const TempDir dir;
  TestLayout layout(dir.path() / "layout");
  layout.image("a", {"layer"});
  const std::string folder = "oci:" + layout.folder().string();
  const std::string first = digest_now(folder + ":a");
  CHECK(first.starts_with("sha256:"));
  layout.image("b", {"other"});
  CHECK(digest_now(folder + ":a") == first);
  CHECK(digest_now(folder + ":b") != first);
  CHECK_FALSE(image_digest(folder).has_value());  // Which of the two?
}

TEST_CASE("an archive is known by its configuration and layers, not by when it was written") {
  const TempDir dir;
  const fs::path file = dir.path() / "image.tar";
  const std::string reference = "docker-archive:" + file.string();
  REQUIRE(write_file(file, saved_image("one", "sha256:1")));
  const std::string first = digest_now(reference);
  CHECK(first != "sha256:" + sha256(saved_image("one", "sha256:1")).hex());
  REQUIRE(write_file(file, saved_image("one", "sha256:1") + std::string(512, '\0')));
  CHECK(digest_now(reference) == first);
  REQUIRE(write_file(file, saved_image("two", "sha256:2")));
  CHECK(digest_now(reference) != first);
  // One that does not say what its layers are is known by its bytes.
  const std::string odd = TestTar().file("manifest.json", R"([{"Config":"none"}])").text();
  REQUIRE(write_file(file, odd));
  CHECK(digest_now(reference) == "sha256:" + sha256(odd).hex());
  REQUIRE(write_file(file, "no tar at all"));
  CHECK(digest_now(reference) == "sha256:" + sha256("no tar at all").hex());
}

TEST_CASE("an archive of the other form is known as its layout is") {
  const TempDir dir;
  const TestLayout layout(dir.path() / "layout");
  TestLayout(layout).image("a", {"layer"});
  const std::string index = read_file(layout.folder() / "index.json").value();
  const fs::path file = dir.path() / "image.tar";
  REQUIRE(write_file(file, TestTar().file("index.json", index).text()));
  CHECK(digest_now("oci-archive:" + file.string()) ==
        digest_now("oci:" + layout.folder().string()));
}

TEST_CASE("a large file is read once") {
  const TempDir dir;
  const fs::path file = dir.path() / "root.tar";
  REQUIRE(write_file(file, "one"));
  REQUIRE(::truncate(file.c_str(), 256 << 20) == 0);  // All but three bytes of it are a hole.
  const std::string reference = "rootfs:" + file.string();
  ImageDigests digests;
  const auto took = [&] {
    const auto begin = std::chrono::steady_clock::now();
    CHECK(digests.of(reference).has_value());
    return std::chrono::steady_clock::now() - begin;
  };
  const auto first = took();
  CHECK(took() * 10 < first);
}

TEST_CASE("a tar is known by its bytes") {
  const TempDir dir;
  const fs::path file = dir.path() / "root.tar";
  REQUIRE(write_file(file, "one"));
  const std::string reference = "rootfs:" + file.string();
  ImageDigests digests;
  CHECK(digests.of(reference).value() == "sha256:" + sha256("one").hex());
  REQUIRE(write_file(file, "two"));
  CHECK(digests.of(reference).value() == "sha256:" + sha256("two").hex());
  Recipe recipe;
  recipe.image = reference;
  digests.settle(recipe);
  CHECK(recipe.image_digest == "sha256:" + sha256("two").hex());
  recipe.image = "debian:12";
  digests.settle(recipe);
  CHECK(recipe.image_digest.empty());
  recipe.image = "rootfs:/no/such.tar";
  digests.settle(recipe);
  CHECK(recipe.image_digest.empty());
}

}  // namespace
}  // namespace trainyard::container
