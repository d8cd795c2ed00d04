#include "container/image_digest.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>

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

// Waits for the thread that reads.
struct DigestReader {
  std::atomic<int> read = 0;
  ImageDigests digests{[this](const std::string&) {
    ++read;
    read.notify_all();
  }};

  std::string find(const std::string& reference, std::vector<std::string> folders = {}) {
    const int before = read;
    auto found = digests.find(reference, folders);
    if (!found) {
      read.wait(before);
      found = digests.find(reference, folders);
    }
    REQUIRE(found);
    return *found;
  }
};

TEST_CASE("a file is read once, and not by who asks") {
  const TempDir dir;
  const fs::path file = dir.path() / "root.tar";
  REQUIRE(write_file(file, "one"));
  REQUIRE(::truncate(file.c_str(), 256 << 20) == 0);  // All but three bytes of it are a hole.
  const std::string reference = "rootfs:" + file.string();
  DigestReader reader;
  CHECK_FALSE(reader.digests.find(reference));
  CHECK(reader.find(reference).starts_with("sha256:"));
  CHECK(reader.digests.find(reference));
  CHECK(reader.read == 1);
}

TEST_CASE("a tar is known by its bytes") {
  const TempDir dir;
  const fs::path file = dir.path() / "root.tar";
  REQUIRE(write_file(file, "one"));
  const std::string reference = "rootfs:" + file.string();
  DigestReader reader;
  CHECK(reader.find(reference) == "sha256:" + sha256("one").hex());
  REQUIRE(write_file(file, "two"));
  CHECK(reader.find(reference) == "sha256:" + sha256("two").hex());
  CHECK(reader.find("debian:12").empty());
  CHECK(reader.find("rootfs:/no/such.tar").empty());
}

TEST_CASE("what is no plain file, or lies outside of the folders, has no digest, at once") {
  const TempDir dir;
  const fs::path folder = dir.path() / "images";
  REQUIRE(make_dirs(folder));
  REQUIRE(write_file(dir.path() / "secret", "secret"));
  REQUIRE(write_file(folder / "good.tar", "good"));
  REQUIRE(::mkfifo((folder / "fifo").c_str(), 0600) == 0);
  fs::create_symlink("../secret", folder / "link");
  DigestReader reader;
  CHECK(reader.find("rootfs:" + (folder / "good.tar").string(), {folder}).size() > 60);
  for (const fs::path& path : {folder / "fifo", folder / "link", dir.path() / "secret",
                               folder / "../secret", fs::path("/dev/zero")}) {
    CAPTURE(path);
    CHECK(reader.digests.find("rootfs:" + path.string(), std::vector<std::string>{folder}) == "");
    CHECK_FALSE(image_digest("docker-archive:" + path.string(), std::vector<std::string>{folder}));
  }
  CHECK(reader.digests.find("rootfs:" + (folder / "fifo").string()) == "");
}

}  // namespace
}  // namespace trainyard::container
