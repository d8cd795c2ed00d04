// What a job script does on a node, run here as it is: by bash, against a server of its own.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/process.h"
#include "base/text.h"
#include "engine/slurm/job_script.h"
#include "engine/slurm/program.h"

using namespace trainyard;
using namespace trainyard::engine::slurm;

namespace {

// Answers as the server does, and writes down who asked for what. FOLDER/trouble holds a status for
// assignments, once or (with a '!') for good.
constexpr const char* kJobServer = R"(
import hashlib, http.server, os, sys
folder = sys.argv[1]
tokens = ["none"]  # The attempt's newest, as a hand-over made it.
class Answer(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        agent = self.headers.get("User-Agent", "bash").split("/")[0]
        if not self.path.endswith("/handover"):
            open(folder + "/posted", "ab").write(f"{agent} {self.path}\n".encode() + body + b"\n")
        bearer = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if self.path.endswith("/handover") and bearer.startswith("tyh_secret."):
            tokens.append("tya_" + hashlib.sha256(bearer.encode()).hexdigest())
            bearer = tokens[-1]
        self.send_response(200 if bearer == tokens[-1] else 401)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")
    def do_GET(self):
        agent = self.headers.get("User-Agent", "bash").split("/")[0]
        open(folder + "/asked", "a").write(f"{agent} {self.path}\n")
        status, body, trouble = 200, b"", folder + "/trouble"
        if self.path == "/api/v1/node/program":
            body = open(folder + "/program", "rb").read()
        elif self.headers.get("Authorization") != "Bearer " + tokens[-1]:
            status = 401
        elif os.path.exists(trouble):
            word = open(trouble).read()
            status = int(word.rstrip("!"))
            if not word.endswith("!"): os.remove(trouble)
        else:
            body = b'{"run": "fox"}'
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *words): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
open(folder + "/port.new", "w").write(str(server.server_address[1]))
os.rename(folder + "/port.new", folder + "/port")
server.serve_forever()
)";

constexpr const char* kCoreutils =
    "bash cat chmod head mkdir mv readlink rm sha256sum sleep tail touch tr wc env ls";

bool eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 20'000; ++i) {
    if (condition()) return true;
    poll(nullptr, 0, 1);
  }
  return false;
}

// A node with bash, coreutils and what a test puts there; a server; a supervisor that is a script.
struct JobNode {
  TempDir dir;
  Child server;
  std::string path = (dir.path() / "bin").string();

  explicit JobNode(const std::string& program = "echo \"$@\" > ../../../said") {
    REQUIRE(make_dirs(dir.path() / "bin"));
    REQUIRE(make_dirs(dir.path() / "tmp"));
    for (const std::string& name : split(kCoreutils, ' ')) add(name);
    set_program(program);
    SpawnOptions options;
    options.command = {"/usr/bin/env", "python3", "-c", kJobServer, dir.path().string()};
    server = spawn(options).value();
    REQUIRE(eventually([&] { return fs::exists(dir.path() / "port"); }));
  }
  ~JobNode() {
    ::kill(server.pid, SIGKILL);
    waitpid(server.pid, nullptr, 0);
  }
  void add(const std::string& name) {
    fs::create_symlink(find_program(name, "/usr/bin:/bin").value(), dir.path() / "bin" / name);
  }
  bool has(const std::string& name) { return find_program(name, "/usr/bin:/bin").has_value(); }
  // It starts in the folder it is given.
  void set_program(const std::string& text) {
    REQUIRE(write_file(dir.path() / "program", "#!/bin/bash\ncd \"$3\"\n" + text + "\n"));
  }
  std::string read(const char* name) { return read_file(dir.path() / name).value_or(""); }
  JobPlan plan() {
    JobPlan made;
    made.attempt = {RunId{"fox"}, 2};
    made.owner = "srv1/3";
    made.server_url = "http://127.0.0.1:" + read("port");
    made.ticket = "tyh_secret";
    made.program_sha256 = sha256(read("program")).hex();
    made.keep = (dir.path() / "keep").string();
    made.reach_patience = seconds(0);
    return made;
  }
  ProgramOptions options(const JobPlan& plan) {
    std::string script = job_script(plan);
    // Only what the node has: the script itself would look in the usual places too.
    const std::string usual = ":/usr/local/bin:/usr/bin:/bin";
    REQUIRE(script.find(usual) != std::string::npos);
    script.replace(script.find(usual), usual.size(), "");
    REQUIRE(write_file(dir.path() / "script", script));
    ProgramOptions made;
    made.command = {"/bin/bash", (dir.path() / "script").string()};
    made.environment = {{"PATH", path}, {"TMPDIR", (dir.path() / "tmp").string()}, {"USER", "u"}};
    made.timeout = seconds(60);
    return made;
  }
  ProgramEnd run(const JobPlan& plan) { return run_program(options(plan)).value(); }
  bool clean() { return fs::is_empty(dir.path() / "tmp"); }
};

int code(ScriptExit exit) { return static_cast<int>(exit); }

}  // namespace

TEST_CASE("a node gets program and assignment by whatever it has, and leaves nothing behind") {
  for (const char* way : {"bash", "curl", "wget", "python3"}) {
    CAPTURE(way);
    JobNode node(
        "echo \"$@\" > ../../../said; cat assignment.json > ../../../assignment; "
        "env > ../../../env; ls -ld . > ../../../mode; cat > ../../../token; "
        "cat $(find .. -type f) > ../../../files; cat /proc/$PPID/environ >> ../../../env");
    node.add("find");
    JobPlan plan = node.plan();
    std::string agent = "bash";
    if (way != agent) {
      if (!node.has(way)) continue;
      node.add(way);
      agent = way == std::string("python3") ? "Python-urllib" : way;
    }
    ProgramOptions options = node.options(plan);
    if (way != std::string("bash")) {  // As where bash was built without sockets.
      std::string script = node.read("script");
      script.replace(script.find("ty_ways=bash ;;"), 12, "true        ");
      REQUIRE(write_file(node.dir.path() / "script", script));
    }
    const ProgramEnd end = run_program(options).value();
    CHECK_MESSAGE(end.exit_code == 0, end.errors);
    CHECK(end.errors.empty());
    CHECK(node.read("said").starts_with("supervise --folder " + node.dir.path().string()));
    CHECK(node.read("said").ends_with("/node --node 0 --token-stdin\n"));
    CHECK(node.read("assignment") == "{\"run\": \"fox\"}");
    CHECK(node.read("mode").starts_with("drwx------"));
    // The token is in nobody's files or environment, and the ticket is not the token.
    const std::string token = node.read("token");
    CHECK_MESSAGE((token.starts_with("tya_") && token.size() == 4 + 64 + 1), token);
    CHECK(node.read("script").find("tya_") == node.read("script").rfind("tya_"));
    for (const char* readable : {"env", "files", "script", "asked", "posted"}) {
      CHECK_MESSAGE(node.read(readable).find(token.substr(4, 64)) == std::string::npos, readable);
    }
    const std::string lower = node.read("asked");
    CHECK(lower.find("/api/v1/node/program\n") != std::string::npos);
    CHECK(lower.find("/api/v1/runs/fox/attempts/2/assignment?node=0&token=0\n") !=
          std::string::npos);
    for (const std::string& line : split(std::string(trim(lower)), '\n')) {
      CHECK_MESSAGE((line.starts_with(agent) || line.starts_with("Wget")), line);
    }
    CHECK(node.clean());
  }
}

TEST_CASE("the program is kept for the next job, and another version is fetched anew") {
  JobNode node("exit 0");
  REQUIRE(node.run(node.plan()).exit_code == 0);
  REQUIRE(node.run(node.plan()).exit_code == 0);
  const auto downloads = [&] {
    const std::string text = node.read("asked");
    size_t count = 0;
    for (size_t at = 0; (at = text.find("node/program", at)) != std::string::npos; ++at) ++count;
    return count;
  };
  CHECK(downloads() == 1);
  node.set_program("exit 0 # newer");
  REQUIRE(node.run(node.plan()).exit_code == 0);
  CHECK(downloads() == 2);
}

TEST_CASE("a program that lies on the node is used if it is the right one") {
  JobNode node("touch ../../../served");
  const fs::path there = node.dir.path() / "there";
  REQUIRE(write_file(there, node.read("program"), 0755));
  JobPlan plan = node.plan();
  plan.program_path = there.string();
  REQUIRE(node.run(plan).exit_code == 0);
  CHECK(node.read("asked").find("node/program") == std::string::npos);
  REQUIRE(write_file(there, "#!/bin/bash\nexit 9\n", 0755));
  REQUIRE(node.run(plan).exit_code == 0);
  CHECK(node.read("asked").find("node/program") != std::string::npos);
}

TEST_CASE("a node that cannot reach the server says which address it tried") {
  JobNode node;
  JobPlan plan = node.plan();
  plan.server_url = "http://127.0.0.1:1";
  const ProgramEnd end = node.run(plan);
  CHECK(end.exit_code == code(ScriptExit::unreachable));
  CHECK(end.errors.find("cannot reach the server at http://127.0.0.1:1/") != std::string::npos);
  CHECK(end.errors.find("Connection refused") != std::string::npos);
  CHECK(node.clean());
}

TEST_CASE("https needs a program that speaks it, and says so where there is none") {
  JobNode node;
  JobPlan plan = node.plan();
  plan.server_url = "https://127.0.0.1:1";
  const ProgramEnd end = node.run(plan);
  CHECK(end.exit_code == code(ScriptExit::no_tool));
  CHECK(end.errors.find("none of curl, wget, python3") != std::string::npos);
}

TEST_CASE("a server that is away for a moment is waited for") {
  JobNode node("exit 0");
  REQUIRE(write_file(node.dir.path() / "trouble", "503"));
  JobPlan plan = node.plan();
  plan.reach_patience = seconds(20);
  CHECK(node.run(plan).exit_code == 0);
}

TEST_CASE("an assignment that is refused is not asked for again") {
  for (const char* status : {"401!", "404!", "409!"}) {
    CAPTURE(status);
    JobNode node;
    REQUIRE(write_file(node.dir.path() / "trouble", status));
    JobPlan plan = node.plan();
    plan.reach_patience = seconds(20);
    const ProgramEnd end = node.run(plan);
    CHECK(end.exit_code == code(ScriptExit::refused));
    CHECK(end.errors.find(std::string(status, 3)) != std::string::npos);
    CHECK(node.read("said").empty());
    CHECK(node.clean());
  }
}

TEST_CASE("a program with another hash is not run") {
  JobNode node;
  JobPlan plan = node.plan();
  plan.program_sha256 = std::string(64, '0');
  const ProgramEnd end = node.run(plan);
  CHECK(end.exit_code == code(ScriptExit::bad_program));
  CHECK(node.read("said").empty());
  CHECK(fs::is_empty(node.dir.path() / "keep"));
}

TEST_CASE("the target's setup text reaches the supervisor, and what it prints is kept") {
  JobNode node("printf '%s' \"$FOO\" > ../../../foo");
  JobPlan plan = node.plan();
  plan.setup = "set -eu\nexport FOO='it is \"set\"'\n# a comment";
  REQUIRE(node.run(plan).exit_code == 0);
  CHECK(node.read("foo") == "it is \"set\"");
  CHECK(node.read("posted").empty());
  plan.setup = "echo loaded; echo warned >&2";
  REQUIRE(node.run(plan).exit_code == 0);
  CHECK(node.read("posted") ==
        "bash /api/v1/runs/fox/attempts/2/files?path=system_logs/setup.txt&from=0&reset=1\n"
        "loaded\nwarned\n\n");
}

TEST_CASE("a setup that fails is told with its last lines, however it fails") {
  for (const char* way : {"bash", "curl", "wget", "python3"}) {
    CAPTURE(way);
    JobNode node;
    if (way != std::string("bash")) {
      if (!node.has(way)) continue;
      node.add(way);
    }
    JobPlan plan = node.plan();
    plan.setup = "for i in 1 2 3 4 5 6 7; do echo \"line $i\"; done; echo '\"C:\\x\"'; exit 3";
    ProgramOptions options = node.options(plan);
    if (way != std::string("bash")) {
      std::string script = node.read("script");
      script.replace(script.find("ty_ways=bash ;;"), 12, "true        ");
      REQUIRE(write_file(node.dir.path() / "script", script));
    }
    const ProgramEnd end = run_program(options).value();
    CHECK_MESSAGE(end.exit_code == 0, end.errors);  // All is said.
    const std::string posted = node.read("posted");
    CHECK(posted.find("line 1\nline 2\n") != std::string::npos);
    CHECK(posted.find("/api/v1/runs/fox/attempts/2/reports?node=0\n") != std::string::npos);
    CHECK_MESSAGE(
        posted.find("\"cause\":\"prepare_failed\",\"exitCode\":1,\"error\":\"the target's "
                    "setup failed with code 3 (node ") != std::string::npos,
        posted);
    CHECK_MESSAGE(posted.find("; its last lines:\\nline 4\\nline 5\\nline 6\\nline 7\\n"
                              "\\\"C:\\\\x\\\"\"}}]}") != std::string::npos,
                  posted);
    CHECK(node.read("said").empty());
    CHECK(node.clean());
  }
  for (const char* setup : {"false", "set -e; false; true", "set -u; echo $NOT_THERE"}) {
    CAPTURE(setup);
    JobNode node;
    JobPlan plan = node.plan();
    plan.setup = setup;
    CHECK(node.run(plan).exit_code == 0);
    CHECK(node.read("posted").find("the target's setup failed with code") != std::string::npos);
    CHECK(node.read("said").empty());
  }
}

TEST_CASE("a setup that fails where no server answers is Slurm's to tell") {
  JobNode node;
  JobPlan plan = node.plan();
  plan.setup = "ty_server=http://127.0.0.1:1; false";  // It goes away after the hand-over.
  ProgramOptions options = node.options(plan);
  std::string script = node.read("script");
  const std::string patience = "ty_tell_s=20";
  script.replace(script.find(patience), patience.size(), "ty_tell_s=0");
  REQUIRE(write_file(node.dir.path() / "script", script));
  const ProgramEnd end = run_program(options).value();
  CHECK(end.exit_code == code(ScriptExit::setup));
  CHECK(node.clean());
}

TEST_CASE("a supervisor that died is followed by another on its folder, a few times") {
  JobNode node(
      "echo x >> ../../../lives; pwd >> ../../../folders; "
      "[ $(wc -l < ../../../lives) = 3 ] && exit 0; kill -9 $$");
  CHECK(node.run(node.plan()).exit_code == 0);
  CHECK(node.read("lives") == "x\nx\nx\n");
  const std::vector<std::string> folders = split(std::string(trim(node.read("folders"))), '\n');
  REQUIRE(folders.size() == 3);
  CHECK(folders[0] == folders[2]);

  node.set_program("echo x >> ../../../lives; exit 1");
  CHECK(node.run(node.plan()).exit_code == 1);
  CHECK(node.read("lives") == "x\nx\nx\nx\nx\nx\nx\n");
  CHECK(node.clean());
}

TEST_CASE("Slurm's word to stop reaches the supervisor, whose end is waited for") {
  JobNode node(
      "trap 'touch ../../../told; kill $!; exit 0' TERM; touch ../../../ready; "
      "sleep 60 & wait");
  ProgramOptions options = node.options(node.plan());
  SpawnOptions spawned;
  spawned.command = options.command;
  spawned.environment = options.environment;
  const Child child = spawn(spawned).value();
  REQUIRE(eventually([&] { return fs::exists(node.dir.path() / "ready"); }));
  ::kill(child.pid, SIGTERM);
  int status = 0;
  REQUIRE(waitpid(child.pid, &status, 0) == child.pid);
  CHECK(WEXITSTATUS(status) == code(ScriptExit::stopped));
  CHECK(fs::exists(node.dir.path() / "told"));
  CHECK(node.clean());
}

TEST_CASE("a word to stop ends a setup soon, and all that it has started") {
  for (const std::string& setup : {
           std::string("echo $BASHPID >> pids; touch ready; sleep 60; touch went_on"),
           std::string("set -e; trap 'touch went_on' EXIT; trap '' TERM; echo $BASHPID >> pids; "
                       "touch ready; while :; do sleep 60 || :; done"),
           // Deaf and in a group of its own, as are those below it.
           std::string("timeout 60 bash -c 'trap \"\" TERM; echo $$ >> pids; sleep 61 & "
                       "echo $! >> pids; touch ready; sleep 62; touch went_on'; touch went_on"),
       }) {
    CAPTURE(setup);
    JobNode node;
    node.add("timeout");
    JobPlan plan = node.plan();
    plan.setup = "cd " + node.dir.path().string() + "; " + setup;
    ProgramOptions options = node.options(plan);
    SpawnOptions spawned;
    spawned.command = options.command;
    spawned.environment = options.environment;
    const Child child = spawn(spawned).value();
    REQUIRE(eventually([&] { return fs::exists(node.dir.path() / "ready"); }));
    MonotoneClock clock;
    const SteadyTime from = clock.steady();
    ::kill(child.pid, SIGTERM);
    int status = 0;
    REQUIRE(waitpid(child.pid, &status, 0) == child.pid);
    CHECK(clock.steady() - from < seconds(10));  // None of these ends before a minute is over.
    CHECK(WEXITSTATUS(status) == code(ScriptExit::stopped));
    for (const std::string& pid : split(std::string(trim(node.read("pids"))), '\n')) {
      CHECK(eventually([&] { return ::kill(std::stoi(pid), 0) != 0; }));
    }
    CHECK_FALSE(fs::exists(node.dir.path() / "went_on"));
    CHECK(node.read("said").empty());
    CHECK(node.read("posted").empty());
    CHECK(node.clean());
  }
}

TEST_CASE("a setup whose shell is killed has failed") {
  JobNode node;
  JobPlan plan = node.plan();
  plan.setup = "echo so far; kill -9 $BASHPID";
  const ProgramEnd end = node.run(plan);
  CHECK_MESSAGE(end.exit_code == 0, end.errors);  // All is said.
  const std::string posted = node.read("posted");
  CHECK_MESSAGE(posted.find("setup failed with code 137") != std::string::npos, posted);
  CHECK(posted.find("its last lines:\\nso far") != std::string::npos);
  CHECK(node.clean());
}

TEST_CASE("what a supervisor could not send goes to the shared folder, or its loss is told") {
  JobNode node(
      "mkdir -p spool work/outputs work/logs work/code; echo j > journal; echo c > "
      "spool/console-0.log;"
      "echo o > work/outputs/o; echo big > work/code/data; ln -s /etc/passwd work/outputs/link; "
      "exit 76");
  for (const char* name : {"cp", "sync", "ln"}) node.add(name);
  JobPlan plan = node.plan();
  CHECK(node.run(plan).exit_code == code(ScriptExit::unsent));
  plan.shared = (node.dir.path() / "none").string();
  CHECK(node.run(plan).exit_code == code(ScriptExit::unsent));
  plan.shared = (node.dir.path() / "shared").string();
  REQUIRE(make_dirs(plan.shared));
  const ProgramEnd end = node.run(plan);
  CHECK_MESSAGE(end.exit_code == code(ScriptExit::shelved), end.errors);
  const fs::path shelf = fs::path(plan.shared) / shelf_of(plan.owner, plan.attempt, 0);
  CHECK(read_file(shelf / "journal").value_or("") == "j\n");
  CHECK(read_file(shelf / "spool" / "console-0.log").value_or("") == "c\n");
  CHECK(read_file(shelf / "work" / "outputs" / "o").value_or("") == "o\n");
  CHECK(fs::is_symlink(shelf / "work" / "outputs" / "link"));  // The collector leaves it out.
  CHECK_FALSE(fs::exists(shelf / "work" / "code"));
  CHECK_FALSE(fs::exists(shelf / "assignment.json"));
  const auto entries = std::distance(fs::directory_iterator(shelf.parent_path()), {});
  CHECK(entries == 1);  // Nothing half done.
  CHECK((fs::status(shelf.parent_path()).permissions() & fs::perms::all) == fs::perms::owner_all);
  CHECK(node.clean());
}

TEST_CASE("what a killed job left on a node goes with the next one") {
  JobNode node("exit 0");
  const std::string space = fs::read_symlink("/proc/self/ns/pid").string();
  const auto leave = [&](const char* name, const std::string& owner) {
    const fs::path folder = node.dir.path() / "tmp" / name;
    REQUIRE(make_dirs(folder));
    REQUIRE(write_file(folder / "owner", owner + "\n"));
    return folder;
  };
  const fs::path dead = leave("trainyard-dead", space + " 999999999");
  const fs::path live = leave("trainyard-live", space + " " + std::to_string(getpid()));
  const fs::path elsewhere = leave("trainyard-elsewhere", "pid:[1] 999999999");
  REQUIRE(node.run(node.plan()).exit_code == 0);
  CHECK_FALSE(fs::exists(dead));
  CHECK(fs::exists(live));
  CHECK(fs::exists(elsewhere));
}

TEST_CASE("several nodes without an srun are a clear error") {
  JobNode node;
  JobPlan plan = node.plan();
  plan.nodes = 2;
  const ProgramEnd end = node.run(plan);
  CHECK(end.exit_code == code(ScriptExit::no_srun));
  CHECK(end.errors.find("no srun") != std::string::npos);
}
