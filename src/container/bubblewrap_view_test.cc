#include "container/bubblewrap_view.h"

#include <doctest/doctest.h>

#include "base/file.h"
#include "base/text.h"

namespace trainyard::container {
namespace {

// A root with the links of a merged /usr, and one that would leave it.
struct Root {
  TempDir folder;
  std::string path = folder.path() / "root";
  Root() {
    for (const char* name : {"/usr/lib/deep", "/etc", "/mnt", "/home/ann"}) {
      REQUIRE(make_dirs(path + name));
    }
    REQUIRE(write_file(path + "/etc/passwd", "inside"));
    fs::create_directory_symlink("usr/lib", path + "/lib");
    fs::create_symlink("/etc/passwd", path + "/mnt/absolute");
    fs::create_symlink("../../../../etc/passwd", path + "/mnt/climbing");
    fs::create_symlink("loop", path + "/mnt/loop");
  }
};

TEST_CASE("a link means inside what it says there, and never leaves the root") {
  const Root root;
  const View view(root.path, {});
  for (const char* path : {"/mnt/absolute", "/mnt/climbing", "/mnt/../../etc/./passwd"}) {
    const Place place = view.find(path).value();
    CHECK(place.inside == "/etc/passwd");
    CHECK(place.outside == root.path + "/etc/passwd");
    CHECK(place.exists);
  }
  CHECK(view.find("/lib/deep").value().inside == "/usr/lib/deep");
  CHECK(view.find("/").value().outside == root.path);
  CHECK(view.find("/mnt/loop").error().kind == ErrorKind::invalid);
}

TEST_CASE("a path that is not there ends where it would be made") {
  const Root root;
  const Place place = View(root.path, {}).find("/lib/new/../newer").value();
  CHECK(place.inside == "/usr/lib/newer");
  CHECK_FALSE(place.exists);
}

TEST_CASE("a bind is looked into where it is on the machine, the innermost first") {
  const Root root;
  const std::string outer = root.folder.path() / "outer";
  const std::string inner = root.folder.path() / "inner";
  REQUIRE(make_dirs(outer));
  REQUIRE(make_dirs(inner));
  REQUIRE(write_file(inner + "/program", ""));
  const View view(root.path, {{outer, "/data"}, {inner, "/data/inner"}});
  CHECK(view.find("/data/x").value().outside == outer + "/x");
  CHECK(view.find("/data/inner/program").value().outside == inner + "/program");
  CHECK(view.find("/data/inner/program").value().exists);
  CHECK(view.find("/database").value().outside == root.path + "/database");
}

TEST_CASE("a folder that gets a new entry is made in memory, with all that it had") {
  const Root root;
  const std::string r = root.path;
  const auto text = [&](const std::vector<std::string>& targets) {
    return join(root_words(r, targets, "--ro-bind").value(), " ");
  };
  const std::string rest = "--symlink usr/lib /lib --ro-bind " + r + "/mnt /mnt";
  CHECK(text({"/data", "/etc/passwd"}) == "--ro-bind " + r + "/etc /etc --ro-bind " + r +
                                              "/home /home " + rest + " --ro-bind " + r +
                                              "/usr /usr");
  CHECK(text({"/home/bob/work"}) == "--ro-bind " + r + "/etc /etc --perms 0755 --dir /home " +
                                        "--ro-bind " + r + "/home/ann /home/ann " + rest +
                                        " --ro-bind " + r + "/usr /usr");
  // In another bind, which is no affair of the root.
  CHECK(text({"/mnt", "/mnt/new"}).ends_with(rest + " --ro-bind " + r + "/usr /usr"));
}

TEST_CASE("a folder with too many entries is not opened") {
  const Root root;
  for (int i = 0; i < 1001; ++i) {
    REQUIRE(write_file(root.path + "/usr/lib/" + std::to_string(i), ""));
  }
  const Error error = root_words(root.path, {"/usr/lib/new"}, "--ro-bind").error();
  CHECK(error.kind == ErrorKind::invalid);
  CHECK(error.message == "nothing new can be shown in /usr/lib: it has 1002 entries");
}

}  // namespace
}  // namespace trainyard::container
