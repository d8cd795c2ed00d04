#include "container/bubblewrap.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "base/command.h"
#include "base/process.h"
#include "base/text.h"
#include "container/bubblewrap_rank.h"

namespace trainyard::container {
namespace {

constexpr size_t kSaidMax = 4096;

// What bwrap says when it is asked to do next to nothing; empty when it could.
Result<std::string> ask_bwrap(const std::string& bwrap) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return fail_errno(errno, "make a pipe");
  const Fd reading(ends[0]);
  Fd writing(ends[1]);
  TRY_SET(const pid_t pid, spawn_unwatched({.command = {bwrap, "--dev-bind", "/", "/", "--bind",
                                                        "/proc", "/proc", "--", bwrap, "--version"},
                                            .stderr_fd = writing.get()}));
  writing.reset();
  std::string said(kSaidMax, '\0');
  size_t size = 0;
  for (ssize_t got = 1; got > 0 && size < said.size(); size += static_cast<size_t>(got)) {
    got = std::max<ssize_t>(read(reading.get(), said.data() + size, said.size() - size), 0);
  }
  said.resize(size);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return std::string();
  const std::string first = split(std::string(trim(said)), '\n').front();
  return first.empty() ? "bwrap failed" : first;
}

}  // namespace

Result<Submitter> find_bubblewrap() {
  Account own = own_account();
  Submitter submitter{
      .bwrap = find_program("bwrap"), .uid = own.uid, .gid = own.gid, .name = std::move(own.name)};
  if (submitter.bwrap.empty()) {
    return fail(ErrorKind::unavailable, "there is no bubblewrap on " + host_name(),
                "Install the package bubblewrap there. Where docker or podman run, containers need "
                "none.");
  }
  return submitter;
}

Status try_bubblewrap(const std::string& bwrap) {
  TRY_SET(const std::string said, ask_bwrap(bwrap));
  if (said.empty()) return {};
  return fail(ErrorKind::unavailable,
              "bubblewrap may not make a container on " + host_name() + ": " + said,
              "Allow user namespaces there: sysctl user.max_user_namespaces=65536, and where they "
              "exist kernel.unprivileged_userns_clone=1 and "
              "kernel.apparmor_restrict_unprivileged_userns=0; or install bwrap setuid root.");
}

Result<std::unique_ptr<Runtime>> Bubblewrap::open(std::string program) {
  TRY_SET(Submitter submitter, find_bubblewrap());
  return std::unique_ptr<Runtime>(new Bubblewrap(std::move(program), std::move(submitter)));
}

Result<std::vector<std::string>> Bubblewrap::command(const Plan& plan, const fs::path& file) {
  TRY_SET(const Carried carried, plan_bubblewrap(plan, submitter_, file));
  TRY(write_carried(carried, file));
  return std::vector<std::string>{program_, std::string(kBubblewrapProgram), file.string()};
}

}  // namespace trainyard::container
