#include "supervisor/alive_lock.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace trainyard;
using namespace trainyard::supervisor;

namespace {

// The kind of error another process gets, or -1 when it gets the lock.
int take_elsewhere(const fs::path& path) {
  const pid_t pid = fork();
  if (pid == 0) {
    const Result<AliveLock> lock = AliveLock::take(path);
    _exit(lock ? 0 : lock.error().kind == ErrorKind::conflict ? 1 : 2);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WEXITSTATUS(status);
}

}  // namespace

TEST_CASE("one process at a time is at work in a folder") {
  const TempDir folder;
  const fs::path path = folder.path() / "lock";
  {
    const Result<AliveLock> lock = AliveLock::take(path);
    REQUIRE(lock);
    CHECK(take_elsewhere(path) == 1);
  }
  CHECK(take_elsewhere(path) == 0);
}

TEST_CASE("the file holds the mark, and the word that all is done") {
  const TempDir folder;
  const fs::path path = folder.path() / "lock";
  Result<AliveLock> lock = AliveLock::take(path);
  REQUIRE(lock);
  lock->describe("mark_x");
  CHECK(read_file(path).value() == "mark_x\n");
  REQUIRE(lock->mark_done());
  CHECK(read_file(path).value() == "mark_x\ndone\n");
}
