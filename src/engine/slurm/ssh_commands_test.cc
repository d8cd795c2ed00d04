// Commands over a real ssh, to an sshd that this test starts.
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/process.h"
#include "engine/slurm/commands.h"
#include "engine/slurm/program.h"

using namespace trainyard;
using namespace trainyard::engine::slurm;

namespace {

constexpr const char* kPath = "/usr/sbin:/usr/bin:/sbin:/bin";

ProgramEnd run(std::vector<std::string> command) {
  command.front() = find_program(command.front(), kPath).value();
  return run_program({.command = std::move(command), .environment = {{"PATH", kPath}}}).value();
}

int free_port() {
  const Fd socket(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof address;
  REQUIRE(bind(socket.get(), generic, size) == 0);
  REQUIRE(getsockname(socket.get(), generic, &size) == 0);
  return ntohs(address.sin_port);
}

// A login node: this machine, with Slurm's programs in a folder that a session has in its PATH.
struct LoginNode {
  TempDir dir;
  Child sshd;
  CommandOptions options;

  LoginNode() {
    const std::string folder = dir.path().string();
    for (const char* key : {"host", "user"}) {
      run({"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder + "/" + key});
    }
    for (const char* bin : {"here", "there"}) REQUIRE(make_dirs(dir.path() / bin));
    const std::string port = std::to_string(free_port());
    REQUIRE(
        write_file(dir.path() / "sshd", "Port " + port + "\nListenAddress 127.0.0.1\nHostKey " +
                                            folder + "/host\nAuthorizedKeysFile " + folder +
                                            "/user.pub\nStrictModes no\nUsePAM no\nPidFile none\n"
                                            "SetEnv PATH=" +
                                            folder + "/there:/usr/bin:/bin\n"));
    REQUIRE(
        write_file(dir.path() / "ssh", "Host login\n  HostName 127.0.0.1\n  Port " + port +
                                           "\n  IdentityFile " + folder +
                                           "/user\n  IdentitiesOnly yes\n"
                                           "  StrictHostKeyChecking no\n"
                                           "  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n"));
    // What a user's ~/.ssh/config would say.
    add("here/ssh", "exec /usr/bin/ssh -F " + folder + "/ssh \"$@\"");
    SpawnOptions spawned;
    spawned.command = {
        find_program("sshd", kPath).value(), "-D", "-f", folder + "/sshd", "-E", folder + "/log"};
    sshd = spawn(spawned).value();
    options.ssh = "login";
    options.ssh_folder = dir.path() / "kept";
    options.path = folder + "/here:" + kPath;
  }
  ~LoginNode() {
    ::kill(sshd.pid, SIGTERM);
    waitpid(sshd.pid, nullptr, 0);
  }
  void add(const std::string& name, const std::string& text) {
    REQUIRE(write_file(dir.path() / name, "#!/bin/bash\n" + text + "\n", 0755));
  }
  int logins() {
    const std::string log = read_file(dir.path() / "log").value_or("");
    int count = 0;
    for (size_t at = 0; (at = log.find("Accepted publickey", at)) != std::string::npos; ++at)
      ++count;
    return count;
  }
};

}  // namespace

TEST_CASE("all commands go over one ssh connection, and it ends with us") {
  if (!find_program("sshd", kPath) || !find_program("ssh-keygen", kPath)) {
    MESSAGE("skipped: no sshd");
    return;
  }
  if (geteuid() == 0) REQUIRE(make_dirs("/run/sshd"));  // Where it goes to have less power.
  LoginNode login;
  login.add("there/sbatch", "[ \"$(cat)\" = \"#!/bin/bash 'x'\" ] && echo 41");
  login.add("there/squeue",
            "sleep 0.1; echo \"7|RUNNING|None|1|$SLURM_TIME_FORMAT|N/A|1:00|n1|n1|0|p|x|c\"");
  login.add("there/scancel", "sleep 300");
  std::unique_ptr<Commands> commands = make_commands(login.options);
  // The daemon may need a moment.
  Result<int64_t> number = commands->submit("#!/bin/bash 'x'");
  for (int i = 0; i < 1000 && !number; ++i) number = commands->submit("#!/bin/bash 'x'");
  REQUIRE_MESSAGE(number, number.error().message);
  CHECK(*number == 41);
  for (int i = 0; i < 5; ++i) CHECK(commands->queue().value().size() == 1);
  CHECK(login.logins() == 1);
  CHECK_FALSE(fs::is_empty(login.dir.path() / "kept"));
  CHECK(commands->ask({"snone"}).error().message == "snone is not on login");
  commands.reset();
  CHECK(fs::is_empty(login.dir.path() / "kept"));

  login.options.timeout = seconds(1);
  login.options.ssh_folder = login.dir.path() / std::string(200, 'x');  // Too long for a socket.
  commands = make_commands(login.options);
  CHECK(commands->cancel("ty-fox.1").error().message == "scancel: no answer in 1 s");
  login.options.timeout = seconds(30);
  commands = make_commands(login.options);
  CHECK(commands->queue().value().size() == 1);
  CHECK(login.logins() == 3);
}

TEST_CASE(
    "a program that takes its time is ended on the login node when nobody wants it any more") {
  if (!find_program("sshd", kPath) || !find_program("ssh-keygen", kPath)) {
    MESSAGE("skipped: no sshd");
    return;
  }
  if (geteuid() == 0) REQUIRE(make_dirs("/run/sshd"));
  LoginNode login;
  const std::string ended = (login.dir.path() / "ended").string();
  login.add("there/squeue", "true");
  login.add("there/srun",
            "[ \"$1\" = long ] || { echo \"srun: error: no\" >&2; exit 255; }; "
            "trap 'echo ended > " +
                ended +
                "; kill $!; exit 143' TERM; echo up; "
                "sleep 300 & wait");
  std::unique_ptr<Commands> commands = make_commands(login.options);
  for (int i = 0; i < 1000 && !commands->queue(); ++i) {
  }
  std::string printed;
  Commands::Stream stream{.print = [&](std::string_view text) { printed += text; },
                          .wanted = [&] { return printed.empty(); }};
  static_cast<void>(commands->stream({"srun", "long"}, stream));
  CHECK(printed == "up\n");
  for (int i = 0; i < 500 && !fs::exists(ended); ++i) poll(nullptr, 0, 10);
  CHECK(fs::exists(ended));
  // 255 is ssh's code, and here the program's own.
  stream.wanted = [] { return true; };
  const auto own = commands->stream({"srun", "short"}, stream);
  REQUIRE(own);
  CHECK(own->exit_code == 255);
}
