#include "env/sandbox.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "env/install.h"
#include "env/test_settings.h"

namespace trainyard::env {
namespace {

using Lines = std::vector<std::string>;

struct SandboxPlace {
  TempDir temp;
  fs::path home = temp.path() / "home";
  fs::path own = home / "own";
  fs::path wheels = temp.path() / "wheels";
  std::optional<Sandbox> sandbox;

  SandboxPlace() {
    REQUIRE(make_dirs(own));
    REQUIRE(make_dirs(wheels));
    REQUIRE(write_file(home / "secrets.key", "key"));
    REQUIRE(write_file(wheels / "a.whl", "wheel", 0644));
    auto opened = open_sandbox({home});
    if (opened) sandbox = *std::move(opened);
    if (!sandbox) MESSAGE("skipped: " << opened.error().message);
    if (sandbox) REQUIRE(give_to_build(*sandbox, own));
  }

  Result<std::string> says(const std::string& script, Code code = Code::packages) const {
    Program program{.command = {"/bin/sh", "-c", script},
                    .variables = {{"PATH", "/usr/bin:/bin"}, {"MY_SECRET", "x"}},
                    .folder = own};
    const Access access{.code = code, .readable = {wheels}, .writable = {own}, .scratch = own};
    return output_of(confine(program, *sandbox, access), milliseconds(20'000));
  }
};

TEST_CASE("a confined program sees its own folders and the system, and nothing of the home") {
  SandboxPlace place;
  if (!place.sandbox) return;
  const std::string key = (place.home / "secrets.key").string();
  CHECK(place.says("cat " + key + " 2>/dev/null || echo none").value() == "none\n");
  CHECK(place.says("ls " + place.home.string()).value() == "own\n");
  CHECK(place.says("cat " + (place.wheels / "a.whl").string()).value() == "wheel");
  CHECK(
      place.says("echo x 2>/dev/null > " + (place.wheels / "b").string() + " || echo no").value() ==
      "no\n");
  CHECK(place.says("echo made > file; cat file; echo $HOME; echo \"[$MY_SECRET]\"").value() ==
        "made\n" + place.own.string() + "\n[]\n");
  CHECK(place.says("ls /root /home /run /var/run /srv 2>/dev/null | grep -v : | wc -l").value() ==
        "0\n");
  // Processes are its own, and it has no rights.
  CHECK(place.says("ls -d /proc/[0-9]* | wc -l").value().size() <= 3);
  for (const Code code : {Code::packages, Code::tools}) {
    CHECK(place.says("grep -E 'CapEff|NoNewPrivs' /proc/self/status", code).value() ==
          "CapEff:\t0000000000000000\nNoNewPrivs:\t1\n");
  }
  if (geteuid() == 0) CHECK(place.says("id -u").value() != "0\n");
  REQUIRE(take_over(place.own));
  struct stat about{};
  REQUIRE(lstat((place.own / "file").c_str(), &about) == 0);
  CHECK(about.st_uid == geteuid());
}

TEST_CASE("a home inside of what is shown is hidden all the same") {
  SandboxPlace place;
  if (!place.sandbox) return;
  REQUIRE(chmod(place.temp.path().c_str(), 0755) == 0);  // Another account passes through it.
  const Access access{.code = Code::packages,
                      .readable = {place.temp.path()},
                      .writable = {place.own},
                      .scratch = place.own};
  const Program program{.command = {"/bin/ls", place.home}, .variables = {}, .folder = place.own};
  CHECK(output_of(confine(program, *place.sandbox, access), milliseconds(20'000)).value() ==
        "own\n");
}

TEST_CASE("what a build left is ours again: no FIFO, nothing closed, links as they are") {
  TempDir temp;
  const fs::path folder = temp.path() / "left";
  REQUIRE(make_dirs(folder / "closed"));
  REQUIRE(write_file(folder / "closed" / "file", "x", 0000));
  REQUIRE(write_file(folder / "setuid", "x", 0755));
  REQUIRE(chmod((folder / "setuid").c_str(), 06777) == 0);
  REQUIRE(mkfifo((folder / "fifo").c_str(), 0644) == 0);
  REQUIRE(symlink("/etc/passwd", (folder / "link").c_str()) == 0);
  REQUIRE(symlink("closed", (folder / "inside").c_str()) == 0);
  REQUIRE(chmod((folder / "closed").c_str(), 0000) == 0);
  REQUIRE(take_over(folder));
  CHECK(read_file(folder / "closed" / "file").value() == "x");
  CHECK_FALSE(fs::exists(folder / "fifo"));
  struct stat about{};
  REQUIRE(lstat((folder / "setuid").c_str(), &about) == 0);
  CHECK((about.st_mode & 07777) == 0755);
  CHECK(fs::is_symlink(folder / "link"));
  // Only plain files that lie inside are read.
  CHECK(is_plain_file_inside(folder, folder / "setuid"));
  CHECK(is_plain_file_inside(folder, folder / "inside" / "file"));
  CHECK_FALSE(is_plain_file_inside(folder, folder / "link"));
  REQUIRE(symlink("/etc", (folder / "out").c_str()) == 0);
  CHECK_FALSE(is_plain_file_inside(folder, folder / "out" / "passwd"));
  CHECK_FALSE(is_folder_inside(folder, folder / "out"));
  CHECK(is_folder_inside(folder, folder / "inside"));
  // A link in place of the root leads anywhere.
  REQUIRE(make_dirs(temp.path() / "elsewhere" / "bin"));
  REQUIRE(write_file(temp.path() / "elsewhere" / "file", "x"));
  REQUIRE(symlink("../elsewhere", (folder / "root").c_str()) == 0);
  CHECK_FALSE(is_folder_inside(folder / "root", folder / "root" / "bin"));
  CHECK_FALSE(is_plain_file_inside(folder / "root", folder / "root" / "file"));
}

TEST_CASE("without a sandbox code of packages does not run for those who are no admins") {
  TempDir temp;
  Settings settings = test_settings(temp.path());
  settings.refusal = Error{ErrorKind::denied, "no sandbox", ""};
  const auto apart = Apart::begin(settings, temp.path() / "x");
  REQUIRE(!apart);
  CHECK(apart.error().kind == ErrorKind::denied);
}

TEST_CASE("of a resolver's answer only exact versions are taken") {
  CHECK(parse_exact_lines("a==1 \\\n    --hash=sha256:1 \\\n    --hash=sha256:2\n# x\n\n"
                          "b @ https://x/b.whl \\\n    --hash=sha256:3\n")
            .value() ==
        Lines{"a==1 --hash=sha256:1 --hash=sha256:2", "b @ https://x/b.whl --hash=sha256:3"});
  CHECK(parse_exact_lines("--index-url https://evil\n").error().kind == ErrorKind::invalid);
  CHECK(parse_exact_lines("-e /root\n").error().kind == ErrorKind::invalid);
  CHECK(parse_exact_lines("/etc/x.whl\n").error().kind == ErrorKind::invalid);
  CHECK(parse_exact_lines("/data/x.whl \\\n    --hash=sha256:1\n", {"/data/x.whl  # r.txt:1"})
            .value() == Lines{"/data/x.whl --hash=sha256:1"});
}

}  // namespace
}  // namespace trainyard::env
