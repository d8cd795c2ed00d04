#include "container/oci.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "container/image_file.h"
#include "container/oci_test_layout.h"

namespace trainyard::container {
namespace {

TEST_CASE("a layout's image is read with its configuration and layers") {
  const TempDir folder;
  TestLayout layout(folder.path() / "layout");
  const std::string id = layout.image("v1", {"lower", "upper"});
  const ImageFiles image = read_oci_layout(layout.folder(), "").value();
  CHECK(image.id == id);
  CHECK(image.config == ImageConfig{.entrypoint = {"/bin/tool"},
                                    .command = {"--help"},
                                    .variables = {"PATH=/bin", "A=b=c"},
                                    .folder = "/work",
                                    .user = "1000"});
  REQUIRE(image.layers.size() == 2);
  CHECK(read_document(image.layers[0].file, "layer").value() == "lower");
}

TEST_CASE("of several images the tag decides, and of several machines ours") {
  const TempDir folder;
  TestLayout layout(folder.path() / "layout");
  layout.image("v1", {"1"});
  const std::string second = layout.image("v2", {"2"});
  CHECK(read_oci_layout(layout.folder(), "v2").value().id == second);
  CHECK(read_oci_layout(layout.folder(), "").error().message ==
        "the layout has several images: v1, v2");
  CHECK(read_oci_layout(layout.folder(), "v3").error().message ==
        "the layout has no image 'v3', but v1, v2");
  TestLayout machines(folder.path() / "machines");
  machines.image("v1", {"s390x"}, "s390x");
  CHECK(read_oci_layout(machines.folder(), "")
            .error()
            .message.starts_with("the image is not for this machine"));
}

TEST_CASE("a layout with a damaged or missing file is refused") {
  const TempDir folder;
  TestLayout layout(folder.path() / "layout");
  CHECK(read_oci_layout(layout.folder(), "").error().kind == ErrorKind::not_found);
  layout.image("v1", {"layer"});
  const fs::path file = layout.folder() / "blobs/sha256" / sha256("layer").hex();
  REQUIRE(write_file(file, "other"));
  CHECK(read_oci_layout(layout.folder(), "").error().message ==
        file.string() + " is damaged: its hash is another");
  fs::remove(file);
  CHECK(read_oci_layout(layout.folder(), "").error().kind == ErrorKind::not_found);
  REQUIRE(write_file(layout.folder() / "index.json", "{"));
  CHECK(read_oci_layout(layout.folder(), "").error().kind == ErrorKind::invalid);
  REQUIRE(write_file(layout.folder() / "index.json",
                     R"({"manifests":[{"digest":"sha256:../../../etc/passwd"}]})"));
  CHECK(read_oci_layout(layout.folder(), "").error().kind == ErrorKind::invalid);
}

TEST_CASE("an archive of docker's names its files itself, and none outside") {
  const TempDir folder;
  REQUIRE(write_file(folder.path() / "config.json", R"({"config":{"Cmd":["sh"]}})"));
  REQUIRE(write_file(folder.path() / "manifest.json",
                     R"([{"Config":"config.json","Layers":["a/layer.tar","../../etc/passwd"]}])"));
  CHECK(read_docker_archive(folder.path()).error().kind == ErrorKind::not_found);
  for (const char* path : {"a/layer.tar", "etc/passwd"}) {
    REQUIRE(make_dirs((folder.path() / path).parent_path()));
    REQUIRE(write_file(folder.path() / path, "layer"));
  }
  const ImageFiles image = read_docker_archive(folder.path()).value();
  CHECK(image.config.command == std::vector<std::string>{"sh"});
  CHECK(image.id == "sha256:" + sha256(R"({"config":{"Cmd":["sh"]}})").hex());
  REQUIRE(image.layers.size() == 2);
  CHECK(image.layers[0].path == folder.path() / "a/layer.tar");
  CHECK(image.layers[1].path == folder.path() / "etc/passwd");
  REQUIRE(write_file(folder.path() / "manifest.json", "[]"));
  CHECK(read_docker_archive(folder.path()).error().kind == ErrorKind::invalid);
}

TEST_CASE(
    "a layout or an archive with a FIFO or a link out in place of a file is refused at once") {
  const TempDir folder;
  TestLayout layout(folder.path() / "layout");
  layout.image("v1", {"layer"});
  const fs::path file = layout.folder() / "blobs/sha256" / sha256("layer").hex();
  fs::remove(file);
  REQUIRE(mkfifo(file.c_str(), 0600) == 0);
  CHECK(read_oci_layout(layout.folder(), "").error().kind == ErrorKind::invalid);
  fs::remove(file);
  REQUIRE(write_file(folder.path() / "outside", "layer"));
  fs::create_symlink(folder.path() / "outside", file);
  CHECK(read_oci_layout(layout.folder(), "").error().kind == ErrorKind::denied);

  const fs::path archive = folder.path() / "archive";
  REQUIRE(make_dirs(archive));
  REQUIRE(write_file(archive / "config.json", "{}"));
  REQUIRE(write_file(archive / "manifest.json", R"([{"Config":"config.json","Layers":["fifo"]}])"));
  REQUIRE(mkfifo((archive / "fifo").c_str(), 0600) == 0);
  CHECK(read_docker_archive(archive).error().kind == ErrorKind::invalid);
}

TEST_CASE("an index that names its image by anything but a SHA-256 is refused") {
  const auto digest_of = [](const std::string& digest) {
    return manifest_digest(R"({"manifests":[{"digest":")" + digest + R"("}]})", "");
  };
  const std::string hex(64, 'a');
  CHECK(digest_of("sha256:" + hex) == "sha256:" + hex);
  for (const std::string& bad : {"sha25@:" + hex, hex, std::string("sha256:../../etc/passwd"),
                                 std::string("sha256:"), std::string()}) {
    INFO(bad);
    const auto found = digest_of(bad);
    REQUIRE(!found);
    CHECK(found.error().kind == ErrorKind::invalid);
  }
}

}  // namespace
}  // namespace trainyard::container
