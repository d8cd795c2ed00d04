#include "cli/findings.h"

#include <doctest/doctest.h>

using namespace trainyard;
using namespace trainyard::cli;

TEST_CASE("a disk is judged by what is free, and a bad one says what to do") {
  CHECK(judge_disk(kDiskWarn, 1'000'000, "/h").grade == Grade::ok);
  CHECK(judge_disk(kDiskWarn - 1, 1'000'000, "/h").grade == Grade::warn);
  CHECK(judge_disk(kDiskFail - 1, 1'000'000, "/h").grade == Grade::fail);
  CHECK(judge_disk(kDiskWarn, 5, "/h").grade == Grade::warn);
  CHECK_FALSE(judge_disk(kDiskFail - 1, 1'000'000, "/h").advice.empty());
  CHECK(judge_disk(kDiskWarn, 1'000'000, "/h").advice.empty());
}

TEST_CASE("programs are found in PATH and only there") {
  CHECK(find_program("sh").ends_with("/sh"));
  CHECK(find_program("no-such-program-anywhere").empty());
  const Finding absent = look_at_program("x", "no-such-program-anywhere", "there", "absent");
  CHECK(absent.words == "absent");
  CHECK(absent.grade == Grade::ok);
}

TEST_CASE("every warning comes with advice") {
  const TempDir dir;
  const Home home(dir.path() / "not" / "there");
  for (const Finding& finding :
       {look_at_machine(), look_at_home(home), look_at_disk(home), look_at_namespaces(),
        look_at_fuse(), look_at_python(), look_at_container_engine(), look_at_bubblewrap(),
        look_at_clock(WallTime{})}) {
    CHECK_FALSE(finding.words.empty());
    CHECK((finding.grade == Grade::ok) == finding.advice.empty());
  }
}
