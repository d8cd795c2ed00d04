#include "runtime/program.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

using namespace trainyard;
using namespace trainyard::runtime;

namespace {

rlimit file_limit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return limit;
}

struct Outcome {
  StartFailure failure;
  int exit_code = -1;
  std::string output;
};

Outcome start(const std::vector<std::string>& command, const fs::path& folder,
              std::map<std::string, std::string> environment = {{"PATH", "/usr/bin:/bin"}}) {
  const Program program(command, environment, folder);
  const Fd null = open_file("/dev/null", O_RDONLY).value();
  const fs::path file = folder.empty() ? fs::path() : folder.parent_path() / "out.txt";
  const Fd out = open_file(file, O_RDWR | O_CREAT | O_TRUNC).value();
  const Program::Started started =
      program.start({null.get(), out.get(), out.get()}, file_limit(), Program::OnParentDeath::live);
  Outcome outcome{started.failure, -1, {}};
  if (started.pid > 0) {
    int status = 0;
    waitpid(started.pid, &status, 0);
    outcome.exit_code = WEXITSTATUS(status);
    outcome.output = read_file(file).value();
  }
  return outcome;
}

struct Folder {
  TempDir temp;
  fs::path path = temp.path() / "work";
  Folder() { fs::create_directory(path); }
  void write(const std::string& name, std::string_view text, unsigned mode) {
    REQUIRE(write_file(path / name, text, mode));
  }
};

}  // namespace

TEST_CASE("a program is looked for in each folder of PATH, and by its path when it has a slash") {
  CHECK(program_candidates("python", "/a:/b") ==
        std::vector<std::string>{"/a/python", "/b/python"});
  CHECK(program_candidates("python", ":/b") == std::vector<std::string>{"./python", "/b/python"});
  CHECK(program_candidates("./x", "/a:/b") == std::vector<std::string>{"./x"});
  CHECK(program_candidates("", "/a").empty());
}

TEST_CASE("a program that is nowhere is 127 and one that cannot be executed 126, in plain words") {
  Folder folder;
  const Outcome missing = start({"pyhton"}, folder.path);
  CHECK(exit_code_of(missing.failure) == 127);
  CHECK(explain(missing.failure, "pyhton") == "program 'pyhton' was not found in PATH");

  const Outcome no_file = start({"./x"}, folder.path);
  CHECK(exit_code_of(no_file.failure) == 127);
  CHECK(explain(no_file.failure, "./x") == "program './x' was not found");

  folder.write("plain.txt", "hello", 0644);
  const Outcome plain = start({"./plain.txt"}, folder.path);
  CHECK(exit_code_of(plain.failure) == 126);
  CHECK(explain(plain.failure, "./plain.txt") ==
        "program './plain.txt' cannot be executed: permission denied");

  folder.write("noshebang", "echo hello", 0755);
  const Outcome noshebang = start({"./noshebang"}, folder.path);
  CHECK(exit_code_of(noshebang.failure) == 126);
  CHECK(explain(noshebang.failure, "x").find("#!") != std::string::npos);

  folder.write("badinterpreter", "#!/no/such/thing\n", 0755);
  const Outcome interpreter = start({"./badinterpreter"}, folder.path);
  CHECK(exit_code_of(interpreter.failure) == 126);
  CHECK(explain(interpreter.failure, "x").find("interpreter") != std::string::npos);

  CHECK(start({""}, folder.path).failure.step == StartStep::exec);
}

TEST_CASE("a file of that name that is not executable does not hide the one further on") {
  Folder folder;
  folder.write("true", "not me", 0644);
  const Outcome outcome =
      start({"true"}, folder.path, {{"PATH", folder.path.string() + ":/usr/bin:/bin"}});
  CHECK(outcome.failure.step == StartStep::none);
  CHECK(outcome.exit_code == 0);
}

TEST_CASE("a folder that is gone is said so") {
  Folder folder;
  fs::remove(folder.path);
  const Outcome outcome = start({"true"}, folder.path);
  CHECK(outcome.failure.step == StartStep::folder);
  CHECK(explain(outcome.failure, "true").find("folder") != std::string::npos);
}

TEST_CASE("a rank has its folder, its variables, three descriptors and a session of its own") {
  Folder folder;
  const Outcome outcome =
      start({"sh", "-c",
             "pwd; echo $COLOR; ls /proc/self/fd; [ $(ps -o sid= -p $$) = $$ ] && echo leader"},
            folder.path, {{"PATH", "/usr/bin:/bin"}, {"COLOR", "red"}});
  // The fourth is ls's own look at the folder.
  CHECK(outcome.output == folder.path.string() + "\nred\n0\n1\n2\n3\nleader\n");
}

TEST_CASE("a rank's signals are as new, whatever ours are") {
  Folder folder;
  signal(SIGPIPE, SIG_IGN);
  const Outcome outcome =
      start({"sh", "-c", "grep -E 'Sig(Ign|Blk)' /proc/self/status"}, folder.path);
  signal(SIGPIPE, SIG_DFL);
  CHECK(outcome.output == "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
}
