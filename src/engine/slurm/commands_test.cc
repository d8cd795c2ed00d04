#include "engine/slurm/commands.h"

#include <doctest/doctest.h>
#include <poll.h>
#include <signal.h>

#include <thread>

#include "base/text.h"
#include "engine/slurm/program.h"

using namespace trainyard;
using namespace trainyard::engine::slurm;

namespace {

// A folder of programs that are scripts of the test.
struct Programs {
  TempDir dir;
  CommandOptions options;

  Programs() {
    options.path = (dir.path() / "bin").string() + ":/usr/bin:/bin";
    options.slurm_conf = (dir.path() / "slurm.conf").string();
    REQUIRE(write_file(options.slurm_conf, ""));
    options.timeout = seconds(20);
    REQUIRE(make_dirs(dir.path() / "bin"));
  }
  void add(const std::string& name, const std::string& text) {
    REQUIRE(write_file(dir.path() / "bin" / name,
                       "#!/bin/bash\nlab=" + dir.path().string() + "\n" + text + "\n", 0755));
  }
  std::string read(const char* name) { return read_file(dir.path() / name).value_or(""); }
  std::unique_ptr<Commands> make() { return make_commands(options); }
};

}  // namespace

TEST_CASE("a job script goes to sbatch's standard input, and its number comes back") {
  Programs programs;
  programs.add("sbatch", "echo \"$@\" > $lab/arguments; cat > $lab/script; echo '77;lab'");
  const std::string script = "#!/bin/bash\n" + std::string(500'000, 'x');
  CHECK(programs.make()->submit(script).value() == 77);
  CHECK(programs.read("arguments") == "--parsable\n");
  CHECK(programs.read("script") == script);
}

TEST_CASE("a slurm.conf that is not there is told at once, before Slurm looks for it") {
  Programs programs;
  programs.add("squeue", "touch $lab/asked; sleep 60");
  programs.options.slurm_conf = (programs.dir.path() / "gone.conf").string();
  const Error error = programs.make()->queue().error();
  CHECK(error.kind == ErrorKind::not_found);
  CHECK(error.message == "SLURM_CONF: there is no " + programs.options.slurm_conf);
  CHECK_FALSE(error.hint.empty());
  CHECK_FALSE(fs::exists(programs.dir.path() / "asked"));
}

TEST_CASE("an sbatch that still looks for its configuration has handed in nothing") {
  Programs programs;
  programs.options.timeout = seconds(1);
  programs.add("sbatch",
               "echo 'sbatch: error: s_p_parse_file: cannot stat file /x/slurm.conf: No such file "
               "or directory, retrying in 1sec up to 60sec' >&2; sleep 60");
  const Error error = programs.make()->submit("x").error();
  CHECK(error.kind == ErrorKind::not_found);
  CHECK(error.message.find("/x/slurm.conf") != std::string::npos);
}

TEST_CASE("nothing of our environment reaches Slurm or a job") {
  setenv("SBATCH_PARTITION", "ours", 1);
  setenv("SLURM_JOB_ID", "7", 1);
  Programs programs;
  programs.add("sbatch", "env > $lab/env; echo 1");
  programs.add("squeue", "env > $lab/env_of_squeue");
  REQUIRE(programs.make()->submit("x"));
  REQUIRE(programs.make()->queue());
  unsetenv("SBATCH_PARTITION");
  unsetenv("SLURM_JOB_ID");
  const std::string env = programs.read("env");
  CHECK(env.find("SBATCH_PARTITION") == std::string::npos);
  CHECK(env.find("SLURM_JOB_ID") == std::string::npos);
  CHECK(env.find("SLURM_TIME_FORMAT") == std::string::npos);
  CHECK(env.find("SLURM_CONF=" + programs.options.slurm_conf + "\n") != std::string::npos);
  CHECK(programs.read("env_of_squeue").find("SLURM_TIME_FORMAT=%s\n") != std::string::npos);
}

TEST_CASE("a refusal, a full queue and a controller that is away are told apart") {
  Programs programs;
  const auto submit_with = [&](const std::string& text) {
    programs.add("sbatch", text);
    return programs.make()->submit("x").error();
  };
  const Error refused =
      submit_with("echo 'sbatch: error: invalid partition specified: x' >&2; exit 1");
  CHECK(refused.kind == ErrorKind::invalid);
  CHECK(refused.message == "invalid partition specified: x");
  CHECK(submit_with("echo 'sbatch: error: AssocMaxSubmitJobLimit' >&2; exit 1").kind ==
        ErrorKind::conflict);
  CHECK(submit_with("echo 'sbatch: error: Batch job submission failed: Unable to contact slurm "
                    "controller (connect failure)' >&2; exit 1")
            .kind == ErrorKind::not_found);
  CHECK(submit_with("echo 'sbatch: error: Batch job submission failed: Socket timed out on "
                    "send/recv operation' >&2; exit 1")
            .kind == ErrorKind::unavailable);
  CHECK(submit_with("exit 1").kind == ErrorKind::unavailable);
  CHECK(submit_with("kill -9 $$").kind == ErrorKind::unavailable);
  CHECK(submit_with("echo nonsense").kind == ErrorKind::unavailable);
}

TEST_CASE("a program that hangs is killed with all it started, and said so") {
  Programs programs;
  programs.options.timeout = seconds(1);
  programs.add("squeue", "echo 'squeue: error: slow' >&2; sleep 300 & echo $! > $lab/pid; wait");
  const Error error = programs.make()->queue().error();
  CHECK(error.kind == ErrorKind::unavailable);
  CHECK(error.message == "squeue: no answer in 1 s: slow");
  const auto pid = static_cast<pid_t>(std::stoi(programs.read("pid")));
  bool dead = false;
  for (int i = 0; i < 5000 && !dead; ++i) {
    const std::string state = read_file("/proc/" + std::to_string(pid) + "/stat").value_or("");
    dead = state.empty() || state.find(") Z") != std::string::npos;
    poll(nullptr, 0, 1);
  }
  CHECK(dead);
}

TEST_CASE("a stop ends what is under way") {
  Programs programs;
  programs.add("squeue", "touch $lab/ready; sleep 300");
  const std::unique_ptr<Commands> commands = programs.make();
  std::jthread stopper([&] {
    while (!fs::exists(programs.dir.path() / "ready")) poll(nullptr, 0, 1);
    commands->stop();
  });
  CHECK(commands->queue().error().kind == ErrorKind::cancelled);
}

TEST_CASE("a cancel names the job, and one that is over already is fine") {
  Programs programs;
  programs.add("scancel", "echo \"$@\" >> $lab/arguments");
  REQUIRE(programs.make()->cancel("ty-fox.1"));
  REQUIRE(programs.make()->cancel("ty-fox.1", 7));
  CHECK(programs.read("arguments") == "--me --name=ty-fox.1\n--me --name=ty-fox.1 7\n");
  programs.add("scancel",
               "echo 'scancel: error: Kill job error on job id 7: Invalid job id specified' >&2; "
               "exit 1");
  CHECK(programs.make()->cancel("ty-fox.1", 7));
  programs.add("scancel", "echo 'scancel: error: Unable to contact slurm controller' >&2; exit 1");
  CHECK_FALSE(programs.make()->cancel("ty-fox.1", 7));
}

TEST_CASE("nodes are asked of the target's partition") {
  Programs programs;
  programs.options.partition = "gpu";
  programs.add(
      "sinfo",
      "echo \"$@\" > $lab/arguments; echo 'n1|gpu|idle|4|4000|gpu:2|infinite|10.0.0.1|none'");
  const std::vector<Node> nodes = programs.make()->nodes().value();
  REQUIRE(nodes.size() == 1);
  CHECK(nodes[0].gpus == 2);
  CHECK(programs.read("arguments").find("--partition=gpu") != std::string::npos);
}

TEST_CASE("without Slurm's programs one is told what to install or set") {
  Programs programs;
  programs.options.path = (programs.dir.path() / "bin").string();
  const Error error = programs.make()->queue().error();
  CHECK(error.kind == ErrorKind::not_found);
  CHECK(error.message == "squeue is not on this machine");
  CHECK(error.hint.find("slurm-client") != std::string::npos);
  CHECK(error.hint.find("--ssh") != std::string::npos);
}

TEST_CASE("on a login node the same programs run over one kept ssh") {
  Programs programs;
  programs.options.ssh = "me@login";
  programs.options.ssh_folder = programs.dir.path();
  // As sshd does: the words become one line for the user's shell.
  programs.add("ssh",
               "[ \"$1\" != -O ] || exit 0; echo \"$@\" > $lab/ssh; while [ \"$1\" != -- ]; do "
               "shift; done; shift; "
               "PATH=$lab/bin:$PATH SBATCH_X=1 exec sh -c \"$*\"");
  programs.add("sbatch", "cat > $lab/script; env > $lab/env; echo 12");
  programs.add("squeue", "printf '%s\\n' \"$@\" > $lab/arguments; env > $lab/env_of_squeue");
  CHECK(programs.make()->submit("#!/bin/bash\n'quoted'").value() == 12);
  CHECK(programs.read("script") == "#!/bin/bash\n'quoted'");
  CHECK(programs.read("env").find("SBATCH_X") == std::string::npos);
  CHECK(programs.read("env").find("SLURM_CONF=" + programs.options.slurm_conf + "\n") !=
        std::string::npos);
  for (const char* option :
       {"BatchMode=yes", "ControlMaster=auto", "ControlPath=", "me@login --"}) {
    CAPTURE(option);
    CHECK(programs.read("ssh").find(option) != std::string::npos);
  }
  REQUIRE(programs.make()->queue());
  CHECK(programs.read("arguments").find("--Format=" + std::string(kQueueFormat) + "\n") !=
        std::string::npos);
  CHECK(programs.read("env_of_squeue").find("SLURM_TIME_FORMAT=%s\n") != std::string::npos);
}

TEST_CASE("trouble of ssh, and a login node without Slurm, are told as such") {
  Programs programs;
  programs.options.ssh = "me@login";
  programs.add("ssh", "echo 'Permission denied (publickey).' >&2; exit 255");
  Error error = programs.make()->queue().error();
  CHECK(error.kind == ErrorKind::unavailable);
  CHECK(error.message == "ssh me@login: Permission denied (publickey).");
  CHECK(error.hint.find("ssh-copy-id me@login") != std::string::npos);
  programs.add("ssh", "echo 'Host key verification failed.' >&2; exit 255");
  CHECK(programs.make()->check().error().hint.find("by hand") != std::string::npos);
  programs.add("ssh", "echo 'Connection refused' >&2; exit 255");
  CHECK(programs.make()->check().error().hint.find("BatchMode") != std::string::npos);
  programs.add("ssh", "exit 127");
  error = programs.make()->submit("x").error();
  CHECK(error.kind == ErrorKind::not_found);
  CHECK(error.message == "sbatch is not on me@login");
}

TEST_CASE("what an ssh leaves open behind it is not waited for") {
  ProgramOptions options;
  options.command = {"/bin/sh", "-c", "sleep 300 & echo $! >&2; echo done"};
  options.environment = {{"PATH", "/usr/bin:/bin"}};
  const ProgramEnd end = run_program(options).value();
  CHECK(end.output == "done\n");
  CHECK_FALSE(end.timed_out);
  ::kill(std::stoi(end.errors), SIGKILL);
}
