#include "container/unpack_layer.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "base/command.h"
#include "container/unpack_test_tar.h"

namespace trainyard::container {
namespace {

// A root beside which stands something that no image may touch.
struct LayerRoot {
  TempDir folder;
  fs::path path = folder.path() / "root";
  fs::path outside = folder.path() / "outside";
  LayerWriter writer{path, [] { return Status(); }};
  LayerRoot() {
    REQUIRE(make_dirs(path));
    REQUIRE(make_dirs(outside));
    REQUIRE(write_file(outside / "file", "safe"));
  }
  Status apply(const TestTar& layer) {
    TarReader tar = read_tar(layer.text());
    return writer.apply(tar);
  }
  std::string text(const char* name) const { return read_file(path / name).value_or("none"); }
};

TEST_CASE("layers lie over each other, and a later one takes away what it hides") {
  LayerRoot root;
  REQUIRE(root.apply(TestTar()
                         .folder("etc")
                         .file("etc/kept", "1")
                         .file("etc/gone", "1")
                         .folder("opt/deep")
                         .file("opt/deep/file", "1")
                         .file("opt/other", "1")
                         .file("turned", "file")));
  REQUIRE(root.apply(TestTar()
                         .file("etc/.wh.gone", "")
                         .file("opt/new", "2")
                         .file("opt/.wh..wh..opq", "")
                         .file("turned/into/folder", "2")
                         .file("etc/kept", "2")));
  CHECK(root.text("etc/kept") == "2");
  CHECK_FALSE(fs::exists(root.path / "etc/gone"));
  CHECK_FALSE(fs::exists(root.path / "opt/deep"));
  CHECK_FALSE(fs::exists(root.path / "opt/other"));
  CHECK(root.text("opt/new") == "2");  // Of this very layer, though the mark came after it.
  CHECK(root.text("turned/into/folder") == "2");
}

TEST_CASE("no link leads out of the root while layers are written") {
  LayerRoot root;
  const std::string outside = root.outside;
  REQUIRE(root.apply(TestTar()
                         .symlink("absolute", outside)
                         .symlink("climbing", "../outside")
                         .symlink("file", outside + "/file")
                         .folder("usr/lib")
                         .symlink("lib", "/usr/lib")));
  REQUIRE(root.apply(TestTar()
                         .file("absolute/file", "bad")
                         .file("climbing/file", "bad")
                         .file("file", "bad")
                         .file("lib/x.so", "good")
                         .file("absolute/.wh.file", "")));
  CHECK(read_file(root.outside / "file").value() == "safe");
  CHECK(root.text("usr/lib/x.so") == "good");
  CHECK(root.text("file") == "bad");  // In the link's own place.
  CHECK(root.apply(TestTar().file("../outside/file", "bad")).error().kind == ErrorKind::invalid);
  CHECK_FALSE(root.apply(TestTar().add('1', "hard", {}, "../outside/file")).has_value());
  CHECK_FALSE(root.apply(TestTar().add('1', "hard", {}, "absolute/no-such")).has_value());
}

TEST_CASE("files are ours, readable and never setuid; devices are left out") {
  LayerRoot root;
  REQUIRE(root.apply(TestTar()
                         .file("su", "x", 04755)
                         .file("secret", "x", 0)
                         .folder("closed", 0)
                         .file("closed/in", "x")
                         .folder("tmp", 01777)
                         .add('3', "null")
                         .add('1', "hard", {}, "./su")));
  const auto mode = [&](const char* name) {
    struct stat found{};
    REQUIRE(lstat((root.path / name).c_str(), &found) == 0);
    return found.st_mode & 07777;
  };
  CHECK(mode("su") == 0755);
  CHECK(mode("secret") == 0600);
  CHECK(mode("closed") == 0700);
  CHECK(mode("tmp") == 01777);
  CHECK_FALSE(fs::exists(root.path / "null"));
  CHECK(fs::hard_link_count(root.path / "hard") == 2);
  struct stat found{};
  REQUIRE(stat((root.path / "su").c_str(), &found) == 0);
  CHECK(found.st_mtime == 1'600'000'000);
}

TEST_CASE("a layer's file may be compressed, and a damaged one is refused") {
  LayerRoot root;
  const fs::path file = root.folder.path() / "layer";
  REQUIRE(write_file(file, TestTar().file("a", std::string(100'000, 'a')).text()));
  REQUIRE(apply_layer_file(root.writer, open_regular(file).value(), file));
  REQUIRE(output_of({"gzip", "-k", file}, seconds(10)));
  const fs::path packed = file.string() + ".gz";
  REQUIRE(apply_layer_file(root.writer, open_regular(packed).value(), packed));
  CHECK(root.text("a").size() == 100'000);
  const std::string whole = read_file(packed).value();
  REQUIRE(write_file(packed, whole.substr(0, whole.size() - 6)));
  CHECK(apply_layer_file(root.writer, open_regular(packed).value(), packed).error().kind ==
        ErrorKind::invalid);
}

}  // namespace
}  // namespace trainyard::container
