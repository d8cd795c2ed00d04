#include "container/unpack.h"

#include <doctest/doctest.h>

#include <cstdlib>

#include "base/hash.h"
#include "container/oci_test_layout.h"
#include "container/unpack_skopeo.h"
#include "container/unpack_test_tar.h"

namespace trainyard::container {
namespace {

const std::string kLower = TestTar().file("etc/os", "one").file("etc/gone", "x").text();
const std::string kUpper = TestTar().file("etc/.wh.gone", "").file("etc/os", "two").text();

struct Bench {
  TempDir folder;
  fs::path root = folder.path() / "root";
  std::vector<std::string> lines;
  std::vector<std::string> progress;
  UnpackOptions options{.credentials = {},
                        .line = [this](std::string_view text) { lines.emplace_back(text); },
                        .progress = [this](std::string_view text) { progress.emplace_back(text); }};

  // What is left beside what the test has made.
  bool left_nothing() const { return !fs::exists(root) && !fs::exists(root.string() + ".image"); }
};

TEST_CASE("a layout becomes a folder, layer by layer") {
  Bench bench;
  TestLayout layout(bench.folder.path() / "layout");
  layout.image("v1", {kLower});
  const std::string id = layout.image("v2", {kLower, kUpper});
  const Unpacked unpacked =
      unpack_image("oci:" + layout.folder().string() + ":v2", bench.root, bench.options).value();
  CHECK(unpacked.id == id);
  CHECK(unpacked.config.folder == "/work");
  CHECK(read_file(bench.root / "etc/os").value() == "two");
  CHECK_FALSE(fs::exists(bench.root / "etc/gone"));
  CHECK(bench.progress == std::vector<std::string>{"layer 1 of 2", "layer 2 of 2"});
  CHECK_FALSE(fs::exists(bench.root.string() + ".image"));
  CHECK(unpack_image("oci:" + layout.folder().string() + ":v2", bench.root, bench.options)
            .error()
            .kind == ErrorKind::conflict);
  CHECK(fs::exists(bench.root / "etc/os"));  // Whoever made it keeps it.
}

TEST_CASE("an archive of docker's becomes a folder") {
  Bench bench;
  const fs::path file = bench.folder.path() / "image.tar";
  const std::string config = R"({"config":{"Env":["A=1"]}})";
  REQUIRE(write_file(
      file, TestTar()
                .file("config.json", config)
                .file("one/layer.tar", kLower)
                .folder("two")
                .symlink("two/layer.tar", "../one/layer.tar")
                .file("manifest.json", R"([{"Config":"config.json","Layers":["two/layer.tar"]}])")
                .text()));
  const Unpacked unpacked =
      unpack_image("docker-archive:" + file.string(), bench.root, bench.options).value();
  CHECK(unpacked.id == "sha256:" + sha256(config).hex());
  CHECK(unpacked.config.variables == std::vector<std::string>{"A=1"});
  CHECK(unpacked.files == 2);
  CHECK(read_file(bench.root / "etc/os").value() == "one");
}

TEST_CASE("the tar of a root filesystem is an image without a configuration") {
  Bench bench;
  const fs::path file = bench.folder.path() / "root.tar";
  REQUIRE(write_file(file, kLower));
  CHECK(
      unpack_image("docker-archive:" + file.string(), bench.root, bench.options).error().message ==
      file.string() + " is no archive of an image");
  const Unpacked unpacked =
      unpack_image("rootfs:" + file.string(), bench.root, bench.options).value();
  CHECK(unpacked.id == "sha256:" + sha256(kLower).hex());
  CHECK(read_file(bench.root / "etc/os").value() == "one");
}

TEST_CASE("what fails or is stopped half-way leaves nothing") {
  Bench bench;
  TestLayout layout(bench.folder.path() / "layout");
  layout.image("v1", {kLower, kUpper.substr(0, 700)});
  const std::string reference = "oci:" + layout.folder().string();
  const Error damaged = unpack_image(reference, bench.root, bench.options).error();
  CHECK(damaged.message == "layer 2 of 2: a damaged tar: it ends in the middle");
  CHECK(bench.left_nothing());
  bench.options.stopped = [&] { return bench.progress.size() == 4; };
  CHECK(unpack_image(reference, bench.root, bench.options).error().kind == ErrorKind::cancelled);
  CHECK(bench.left_nothing());
  CHECK(unpack_image("rootfs:/no-such.tar", bench.root, bench.options).error().kind ==
        ErrorKind::not_found);
  CHECK(bench.left_nothing());
}

TEST_CASE("names are completed as docker does") {
  CHECK(skopeo_source("ubuntu:22.04") == "docker://docker.io/library/ubuntu:22.04");
  CHECK(skopeo_source("pytorch/pytorch") == "docker://docker.io/pytorch/pytorch");
  CHECK(skopeo_source("my.azurecr.io/a/b:1") == "docker://my.azurecr.io/a/b:1");
  CHECK(skopeo_source("localhost:5000/a") == "docker://localhost:5000/a");
}

// A PATH of one program for a while.
class FakeSkopeo {
 public:
  explicit FakeSkopeo(const std::string& script) {
    REQUIRE(write_file(folder_.path() / "skopeo", "#!/bin/sh\n" + script, 0755));
    setenv("PATH", (folder_.path().string() + ":" + before_).c_str(), 1);
  }
  ~FakeSkopeo() { setenv("PATH", before_.c_str(), 1); }
  fs::path file(const char* name) const { return folder_.path() / name; }

 private:
  TempDir folder_;
  std::string before_ = std::getenv("PATH");
};

TEST_CASE("an image of a registry comes by skopeo, whose password nobody sees") {
  Bench bench;
  TestLayout layout(bench.folder.path() / "layout");
  layout.image("image", {kLower});
  const FakeSkopeo skopeo(
      "echo \"$@\" >$(dirname $0)/words; cat \"${4#--authfile=}\" "
      ">$(dirname $0)/auth; for last; do :; done; to=${last#oci:}; "
      "cp -r " +
      layout.folder().string() + " ${to%:image}; echo Copying blob");
  bench.options.credentials = {.server = "", .username = "ann", .password = "geheim"};
  REQUIRE(unpack_image("localhost:5000/a", bench.root, bench.options));
  CHECK(read_file(bench.root / "etc/os").value() == "one");
  CHECK(bench.lines.front() == "Copying blob");
  const std::string words = read_file(skopeo.file("words")).value();
  CHECK(words.find("geheim") == std::string::npos);
  CHECK(words.find("--src-tls-verify=false") != std::string::npos);
  CHECK(read_file(skopeo.file("auth")).value() ==
        R"({"auths":{"localhost:5000":{"auth":"YW5uOmdlaGVpbQ=="}}})");
}

TEST_CASE("an image that cannot be had says why, in the registry's words") {
  Bench bench;
  const FakeSkopeo skopeo(
      "echo 'time=\"x\" level=fatal msg=\"reading manifest v9: manifest unknown\"' >&2; exit 1");
  const Error error = unpack_image("r.example/a:v9", bench.root, bench.options).error();
  CHECK(error.kind == ErrorKind::not_found);
  CHECK(error.message == "image r.example/a:v9: reading manifest v9: manifest unknown");
  CHECK(bench.left_nothing());
}

}  // namespace
}  // namespace trainyard::container
