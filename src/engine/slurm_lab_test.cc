// The engine with a real Slurm, of three nodes, that this test starts (tests/support/slurm_lab.py).
#include <doctest/doctest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <map>
#include <mutex>

#include "base/hash.h"
#include "base/process.h"
#include "base/text.h"
#include "engine/slurm.h"
#include "engine/slurm/job_script.h"
#include "engine/slurm/program.h"
#include "wire/json.h"

using namespace trainyard;
using namespace trainyard::engine;

namespace {

// Carries the lab, does what it is told line by line, and is the server of its nodes: program and
// assignments, and what supervisors (GET /said/…) tell.
constexpr const char* kDriver = R"(
import http.server, json, os, shutil, sys, threading, unittest
folder, support = sys.argv[1:]
sys.path.insert(0, support)
import slurm_lab
class Answer(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        ticket = self.headers.get("Authorization", "").startswith("Bearer tyh_secret.")
        if not self.path.endswith("/handover") or not ticket: return self.send_error(404)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def do_GET(self):
        status, body = 200, b""
        if self.path.startswith("/said/"):
            with open(folder + "/said", "a") as said: said.write(self.path[6:] + "\n")
        elif self.path == "/api/v1/node/program":
            body = open(folder + "/program", "rb").read()
        elif not self.headers.get("Authorization", "").startswith("Bearer tya_"):
            status = 401
        else:
            body = self.path.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        try: self.wfile.write(body)
        except OSError: pass  # A supervisor that was killed.
    def log_message(self, *words): pass
def say(**words): print(json.dumps(words), flush=True)
try:
    lab = slurm_lab.SlurmLab(nodes=3, cpus=2).up()
except unittest.SkipTest as skipped:
    say(skipped=str(skipped)); sys.exit()
server = http.server.ThreadingHTTPServer((lab.address, 0), Answer)
threading.Thread(target=server.serve_forever, daemon=True).start()
say(url=f"http://{lab.address}:{server.server_address[1]}", **lab.env)
try:
    state = lab.folder / "state"
    for line in sys.stdin:
        word, *rest = line.split()
        said = ""
        if word == "stop_controller":
            lab.controller.terminate(); lab.controller.wait()
        elif word == "keep_memory":
            shutil.copytree(state, folder + "/state")
        elif word == "lose_memory":  # As after a kill: what was not written down yet is forgotten.
            lab.kill_controller(); owner = os.stat(state)
            shutil.rmtree(state); shutil.copytree(folder + "/state", state)
            for path in [state, *state.rglob("*")]: os.chown(path, owner.st_uid, owner.st_gid)
            lab.start_controller()
        elif word == "run":
            said = lab.run(*rest, check=False)
        elif word == "left":
            look = ("bash", "-c", "echo /tmp/trainyard-??????????")
            said = lab.exec_on(rest[0], *look).stdout if lab.isolated else ""
        elif word == "clear":  # The test before may have left jobs, and nodes drained.
            lab.run("scancel", "--me", check=False)
            def idle():
                for name, state in lab.states().items():
                    if state.startswith(("drain", "down")):
                        lab.run("scontrol", "update", "NodeName=" + name, "State=RESUME",
                                check=False)
                return lab.idle() == set(lab.names)
            lab.wait_for(idle, "all nodes to be idle")
        else:
            said = getattr(lab, word)(*rest)
        say(said=said)
finally:
    lab.down()
)";

// Tells where it is and that it is told to stop; ends at once, or with a `hold` in its setup after
// that word.
constexpr const char* kSupervisor = R"(#!/bin/bash
say() {
  exec 3<>"/dev/tcp/$LAB_HOST/$LAB_PORT"
  printf 'GET /said/%s HTTP/1.0\r\n\r\n' "$1" >&3
  read -r -t 5 <&3
  exec 3>&-
}
node=$5
read -r path <"$3/assignment.json" || :
run=${path#/api/v1/runs/} run=${run%%/*}
stop() {
  trap '' TERM  # Slurm tells all processes of a job, and the job script its child.
  say "stop:$run:$node"
  kill $!
  exit 0
}
trap stop TERM
say "start:$run:$node"
if [ -n "$HOLD" ]; then sleep 300 & wait; fi
)";

struct Lab {
  TempDir dir;
  Child driver;
  Fd talk;
  std::string skipped;
  std::map<std::string, std::string> words;

  Lab() {
    REQUIRE(write_file(dir.path() / "program", kSupervisor));
    std::array<int, 2> ends{};
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
    talk = Fd(ends[0]);
    Fd theirs(ends[1]);
    SpawnOptions options;
    options.command = {"/usr/bin/env", "python3",           "-c",
                       kDriver,        dir.path().string(), TRAINYARD_SOURCE_DIR "/tests/support"};
    options.stdin_fd = options.stdout_fd = theirs.get();
    options.stderr_fd = STDERR_FILENO;
    driver = spawn(options).value();
    theirs.reset();
    const wire::Json first = read_line();
    REQUIRE(first.is_object());
    skipped = first.value("skipped", "");
    for (const auto& [key, value] : first.items()) words[key] = value.get<std::string>();
  }
  ~Lab() {
    talk.reset();
    waitpid(driver.pid, nullptr, 0);
  }
  wire::Json read_line() {
    std::string line;
    for (char c = 0; ::read(talk.get(), &c, 1) == 1 && c != '\n';) line += c;
    return wire::parse(line).value_or(wire::Json());
  }
  // A function of the lab, "set_down n1", or "run sinfo": what it said.
  std::string ask(std::string line) {
    line += "\n";
    const auto size = static_cast<ssize_t>(line.size());
    REQUIRE(send(talk.get(), line.data(), line.size(), MSG_NOSIGNAL) == size);
    const wire::Json answer = read_line();
    REQUIRE(answer.is_object());
    return answer["said"].is_string() ? answer["said"].get<std::string>() : "";
  }
};

struct LabYard {
  Lab& lab;
  MonotoneClock clock;
  NullLog log;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, Engine::Going> gone;
  std::unique_ptr<Engine> engine;

  std::string server_id = "srv1";
  int64_t compute_id = 3;

  explicit LabYard(Lab& one) : lab(one) {
    lab.ask("clear");
    make();
  }
  // Another one beside it, of another home or compute.
  LabYard(Lab& one, std::string server, int64_t compute)
      : lab(one), server_id(std::move(server)), compute_id(compute) {
    make();
  }
  void make(const std::string& partition = "", const std::string& setup = "") {
    engine.reset();
    SlurmOptions options{.compute = {},
                         .server_id = server_id,
                         .compute_id = compute_id,
                         .clock = clock,
                         .log = log};
    options.compute.partition = partition;
    options.compute.slurm_conf = lab.words["SLURM_CONF"];
    const std::string url = lab.words["url"];
    const size_t colon = url.rfind(':');
    options.compute.setup = "export HOLD=1 LAB_HOST=" + url.substr(7, colon - 7) +
                            " LAB_PORT=" + url.substr(colon + 1) + "\n" + setup;
    options.reach_patience = seconds(2);
    options.program_sha256 = sha256(kSupervisor).hex();
    options.patience.orphan = seconds(2);
    options.patience.released = seconds(2);
    options.patience.never = seconds(2);
    options.patience.missing = seconds(2);
    slurm::CommandOptions commands = slurm::command_options(options.compute, {});
    commands.path = lab.words["PATH"];
    options.commands = slurm::make_commands(std::move(commands));
    engine = make_slurm(std::move(options));
    engine->on_gone([this](const AttemptId& attempt, const Engine::Going& going) {
      std::lock_guard lock(mutex);
      gone[attempt.str()] = going;
      changed.notify_all();
    });
  }
  static AttemptId id(const std::string& run) { return {RunId{run}, 1}; }
  void place(const std::string& run, int nodes = 1, int cpus = 1, const std::string& url = "") {
    Assignment assignment;
    assignment.run = run;
    assignment.token = "tyh_secret";
    assignment.server_url = url.empty() ? lab.words["url"] : url;
    assignment.spec.nodes = nodes;
    assignment.spec.resources.cpus = cpus;
    REQUIRE(engine->place(assignment));
  }
  Engine::Going wait_gone(const std::string& run) {
    std::unique_lock lock(mutex);
    const std::string attempt = id(run).str();
    REQUIRE_MESSAGE(changed.wait_for(lock, seconds(60), [&] { return gone.contains(attempt); }),
                    run);
    return gone[attempt];
  }
  bool eventually(const std::function<bool()>& condition) {
    for (int i = 0; i < 3000; ++i) {
      if (condition()) return true;
      poll(nullptr, 0, 10);
    }
    return false;
  }
  bool has_said(const std::string& words) {
    const std::string text = read_file(lab.dir.path() / "said").value_or("");
    return text.find(words + "\n") != std::string::npos;
  }
  bool said(const std::string& words) {
    return eventually([&] { return has_said(words); });
  }
  bool is_gone(const std::string& run) {
    std::lock_guard lock(mutex);
    return gone.contains(id(run).str());
  }
  bool waits_for(const std::string& run, const std::string& words) {
    std::string last;
    const bool seen = eventually([&] {
      last = engine->waits_for(id(run));
      return last.find(words) != std::string::npos;
    });
    CHECK_MESSAGE(seen, last);
    return seen;
  }
  std::string state_of(const std::string& run) {
    return std::string(
        trim(lab.ask("run squeue --noheader --states=all --format=%T --name=ty-" + id(run).str())));
  }
};

// One for all these tests, started by the first; null and said so where there is no Slurm.
Lab* the_lab() {
  static Lab lab;
  if (lab.skipped.empty()) return &lab;
  MESSAGE(lab.skipped);
  return nullptr;
}

}  // namespace

TEST_CASE(
    "real Slurm: supervisors start on all nodes of a job, are told to stop, and leave nothing") {
  Lab* const found = the_lab();
  if (found == nullptr) return;
  Lab& lab = *found;
  LabYard yard(lab);
  yard.place("wide", 3);
  for (const char* node : {"0", "1", "2"}) CHECK(yard.said("start:wide:" + std::string(node)));
  CHECK(yard.waits_for("wide", "Slurm started it on n[1-3]"));
  // Slurm's word comes to the first node's script alone, which passes it on.
  lab.ask("run scancel --me --batch --signal=TERM --name=ty-wide.1");
  for (const char* node : {"0", "1", "2"}) CHECK(yard.said("stop:wide:" + std::string(node)));
  const Engine::Going going = yard.wait_gone("wide");
  CHECK_MESSAGE(going.evicted, going.why);
  for (const char* node : {"n1", "n2", "n3"}) {
    CHECK(yard.eventually([&] {
      const std::string left = lab.ask("left " + std::string(node));
      return left.empty() || left == "/tmp/trainyard-??????????\n";
    }));
  }
}

TEST_CASE("real Slurm: a job that waits for nodes says how many are free") {
  Lab* const found = the_lab();
  if (found == nullptr) return;
  Lab& lab = *found;
  LabYard yard(lab);
  yard.place("first", 3, 2);
  CHECK(yard.said("start:first:0"));
  yard.place("second", 2, 2);
  CHECK(yard.waits_for("second", "waits for 2 nodes: 0 idle of 3, 3 in use"));
  REQUIRE(yard.engine->kill(LabYard::id("second")));
  CHECK(yard.wait_gone("second").why.ends_with("was cancelled"));
  CHECK_FALSE(yard.wait_gone("second").refused);
  REQUIRE(yard.engine->release(LabYard::id("first")));
  CHECK(yard.eventually([&] { return yard.state_of("first") == "CANCELLED"; }));
}

TEST_CASE("real Slurm: what Slurm refuses is told in its own words") {
  Lab* const found = the_lab();
  if (found == nullptr) return;
  Lab& lab = *found;
  LabYard yard(lab);
  yard.place("many", 9);
  const Engine::Going many = yard.wait_gone("many");
  CHECK(many.refused);
  CHECK_MESSAGE(many.why.starts_with("asks for"), many.why);
  CHECK(yard.eventually([&] { return yard.state_of("many") == "CANCELLED"; }));
  yard.make("nope");
  yard.place("lost");
  const Engine::Going going = yard.wait_gone("lost");
  CHECK(going.refused);
  CHECK(going.why.find("invalid partition specified: nope") != std::string::npos);
}

TEST_CASE("real Slurm: a job that is preempted or whose node fails was evicted") {
  Lab* const found = the_lab();
  if (found == nullptr) return;
  Lab& lab = *found;
  LabYard yard(lab);
  yard.place("preempted", 3, 2);
  CHECK(yard.said("start:preempted:2"));
  lab.ask("run sbatch --partition=prod --nodes=3 --exclusive --output=/dev/null --wrap=true");
  for (const char* node : {"0", "1", "2"}) {
    CHECK(yard.said("stop:preempted:" + std::string(node)));
  }
  const Engine::Going preempted = yard.wait_gone("preempted");
  CHECK_MESSAGE(preempted.evicted, preempted.why);

  yard.place("failed");
  CHECK(yard.said("start:failed:0"));
  lab.ask("set_down n1");
  const Engine::Going failed = yard.wait_gone("failed");
  CHECK_MESSAGE(failed.evicted, failed.why);
  CHECK(failed.why.find("NODE_FAIL") != std::string::npos);
}

TEST_CASE("real Slurm: a controller that is away for a while loses nothing") {
  Lab* const found = the_lab();
  if (found == nullptr) return;
  Lab& lab = *found;
  LabYard yard(lab);
  yard.place("before");
  CHECK(yard.said("start:before:0"));
  lab.ask("stop_controller");
  yard.place("during");
  CHECK(yard.waits_for("during", "Slurm does not answer"));
  CHECK(yard.gone.empty());
  lab.ask("start_controller");
  CHECK(yard.said("start:during:0"));
  CHECK(yard.engine->inspect(LabYard::id("before")) == Placement::live);
  CHECK(yard.gone.empty());
}

TEST_CASE(
    "real Slurm: a job that a killed controller forgot is gone, and its number used again harms "
    "nobody") {
  Lab* const found = the_lab();
  if (found == nullptr) return;
  Lab& lab = *found;
  LabYard yard(lab);
  lab.ask("keep_memory");
  yard.place("forgotten");
  CHECK(yard.said("start:forgotten:0"));
  lab.ask("lose_memory");
  CHECK(yard.wait_gone("forgotten").why.starts_with("Slurm has no job of it"));
  // With the number of the one before, whose processes still run. Slurm ends these when it sees
  // them, and with them a new job of that number: that one is told to be gone, too.
  std::string next;
  for (int i = 0; i < 5 && next.empty(); ++i) {
    const std::string run = "next" + std::to_string(i);
    yard.place(run);
    REQUIRE(
        yard.eventually([&] { return yard.has_said("start:" + run + ":0") || yard.is_gone(run); }));
    if (!yard.is_gone(run)) next = run;
  }
  REQUIRE_FALSE(next.empty());
  REQUIRE(yard.engine->release(LabYard::id("forgotten")));
  CHECK(yard.engine->inspect(LabYard::id("forgotten")) == Placement::unknown);
}

TEST_CASE(
    "real Slurm: a new engine finds the jobs of the one before, and cancels what nobody knows") {
  Lab* const found = the_lab();
  if (found == nullptr) return;
  Lab& lab = *found;
  LabYard yard(lab);
  yard.place("known");
  CHECK(yard.said("start:known:0"));
  yard.place("orphan");
  CHECK(yard.said("start:orphan:0"));
  yard.make();
  REQUIRE(yard.engine->recover(LabYard::id("known")));
  REQUIRE(yard.engine->recover(LabYard::id("never-was")));
  CHECK(yard.wait_gone("never-was").why == "Slurm has no job of it");
  CHECK(yard.eventually([&] { return yard.state_of("orphan") == "CANCELLED"; }));
  CHECK(yard.state_of("known") == "RUNNING");
  CHECK(yard.engine->inspect(LabYard::id("known")) == Placement::live);
}

TEST_CASE("real Slurm: computes of one home and of several leave each other's jobs alone") {
  Lab* const found = the_lab();
  if (found == nullptr) return;
  Lab& lab = *found;
  LabYard yard(lab);
  LabYard sibling(lab, "srv1", 4);
  LabYard stranger(lab, "srv2", 3);
  yard.place("mine");
  sibling.place("beside");
  stranger.place("elsewhere");
  CHECK(yard.said("start:mine:0"));
  CHECK(yard.said("start:beside:0"));
  CHECK(yard.said("start:elsewhere:0"));
  // What it does with a job of its own that it does not know shows that it has looked for longer
  // than its patience.
  for (LabYard* one : {&yard, &sibling, &stranger}) {
    const std::string run = "orphan-" + one->server_id + "-" + std::to_string(one->compute_id);
    one->place(run);
    CHECK(yard.said("start:" + run + ":0"));
    one->make();
    const std::string kept = one == &yard ? "mine" : one == &sibling ? "beside" : "elsewhere";
    REQUIRE(one->engine->recover(LabYard::id(kept)));
    CHECK(yard.eventually([&] { return yard.state_of(run) == "CANCELLED"; }));
  }
  for (const char* run : {"mine", "beside", "elsewhere"}) {
    CHECK_MESSAGE(yard.state_of(run) == "RUNNING", run);
  }
  // A kill is of the own job, though another home has a run of the same id.
  yard.place("twice");
  stranger.place("twice");
  CHECK(yard.eventually([&] { return yard.state_of("twice") == "RUNNING\nRUNNING"; }));
  REQUIRE(stranger.engine->kill(LabYard::id("twice")));
  stranger.wait_gone("twice");
  CHECK_FALSE(yard.is_gone("twice"));
  CHECK(yard.state_of("twice").find("RUNNING") != std::string::npos);
}

TEST_CASE("real Slurm: a node that cannot reach the server says where it looked for it") {
  Lab* const found = the_lab();
  if (found == nullptr) return;
  Lab& lab = *found;
  LabYard yard(lab);
  const std::string url = lab.words["url"];
  const std::string nobody = url.substr(0, url.rfind(':')) + ":1";
  yard.place("astray", 1, 1, nobody);
  const std::string why = yard.wait_gone("astray").why;
  CHECK_MESSAGE(why.find("could not reach the server at " + nobody) != std::string::npos, why);
}

TEST_CASE(
    "real Slurm: of several nodes, one that cannot begin ends all, soon and by its own word") {
  Lab* const found = the_lab();
  if (found == nullptr) return;
  Lab& lab = *found;
  LabYard yard(lab);
  yard.make("", "[ \"$SLURMD_NODENAME\" != n2 ] || exit 3");
  yard.place("broken", 3);
  const std::string why = yard.wait_gone("broken").why;
  CHECK_MESSAGE(why.find("setup text failed") != std::string::npos, why);
}

TEST_CASE("real Slurm: a job that somebody else cancels is not to be tried again") {
  Lab* const found = the_lab();
  if (found == nullptr) return;
  Lab& lab = *found;
  LabYard yard(lab);
  yard.place("unwanted", 2);
  CHECK(yard.said("start:unwanted:1"));
  lab.ask("run scancel --me --name=ty-unwanted.1");
  const Engine::Going going = yard.wait_gone("unwanted");
  CHECK_MESSAGE(going.refused, going.why);
  CHECK(going.why.find("cancelled in Slurm") != std::string::npos);
}

// ---- arrays ----

TEST_CASE("real Slurm: many at once are one array, of which each place is an attempt of its own") {
  Lab* const found = the_lab();
  if (found == nullptr) return;
  Lab& lab = *found;
  LabYard yard(lab);
  constexpr int kMany = 40;  // Six have room.
  const auto run = [](int i) { return "place" + std::to_string(i); };
  const auto in_slurm = [&](int count) {
    return yard.eventually([&] {
      const auto text =
          lab.ask("run squeue --noheader --array --states=RUNNING,PENDING --format=%i");
      return std::ranges::count(text, '\n') == count;
    });
  };
  for (int i = 0; i < kMany; ++i) yard.place(run(i));
  CHECK(in_slurm(kMany));
  for (int i = 0; i < 6; ++i) CHECK(yard.said("start:" + run(i) + ":0"));
  const std::string queue = lab.ask("run squeue --noheader --format=%F");
  CHECK(yard.has_said("start:" + run(5) + ":0"));
  std::vector<std::string> arrays = split(trim(queue), '\n');
  std::ranges::sort(arrays);
  CHECK(std::ranges::unique(arrays).begin() - arrays.begin() <= 3);
  // One that waits, and one that runs.
  for (const int i : {20, 2}) {
    REQUIRE(yard.engine->kill(LabYard::id(run(i))));
    CHECK(yard.wait_gone(run(i)).why.ends_with("was cancelled"));
  }
  CHECK(yard.said("stop:" + run(2) + ":0"));
  CHECK(yard.said("start:" + run(6) + ":0"));

  yard.make();  // It knows of each what Slurm shows, and of one nobody knows.
  for (int i = 0; i < kMany; ++i) {
    if (i != 20 && i != 2 && i != 30) REQUIRE(yard.engine->recover(LabYard::id(run(i))));
  }
  CHECK(yard.waits_for(run(25), "waits for"));
  CHECK(yard.waits_for(run(3), "Slurm started it on"));
  CHECK(in_slurm(kMany - 3));
  REQUIRE(yard.engine->kill(LabYard::id(run(21))));
  CHECK(yard.wait_gone(run(21)).why.ends_with("was cancelled"));
  CHECK(in_slurm(kMany - 4));
  CHECK(yard.gone.size() == 3);  // Of both engines.
  for (int i = 0; i < kMany; ++i) REQUIRE(yard.engine->release(LabYard::id(run(i))));
  CHECK(in_slurm(0));
}

TEST_CASE(
    "real Slurm: an array is still known to a controller that was killed, or lost as a whole") {
  Lab* const found = the_lab();
  if (found == nullptr) return;
  Lab& lab = *found;
  LabYard yard(lab);
  fs::remove_all(lab.dir.path() / "state");
  lab.ask("keep_memory");
  const auto run = [](int i) { return "kept" + std::to_string(i); };
  for (int i = 0; i < 10; ++i) yard.place(run(i));
  CHECK(yard.said("start:" + run(5) + ":0"));
  CHECK(yard.waits_for(run(9), "waits for"));
  // Somebody cancels one that waits: of that Slurm shows nothing any more.
  const std::string waiting = lab.ask("run squeue --noheader --array --states=PENDING --format=%i");
  lab.ask("run scancel " + std::string(trim(split(trim(waiting), '\n').back())));
  CHECK(yard.wait_gone(run(9)).refused);

  lab.ask("kill_controller");
  lab.ask("start_controller");
  CHECK(yard.waits_for(run(8), "waits for"));
  CHECK(yard.gone.size() == 1);
  lab.ask("lose_memory");
  for (int i = 0; i < 9; ++i) {
    const Engine::Going going = yard.wait_gone(run(i));
    CHECK_MESSAGE(going.why.starts_with("Slurm has no job of it"), going.why);
    CHECK_FALSE(going.refused);
  }
}

TEST_CASE("real Slurm: odd text arrives in Slurm as it is") {
  Lab* const found = the_lab();
  if (found == nullptr) return;
  Lab& lab = *found;
  const std::unique_ptr<slurm::Commands> commands =
      slurm::make_commands({.slurm_conf = lab.words["SLURM_CONF"], .path = lab.words["PATH"]});
  for (const std::string text :
       {"a b", "it's", "say \"hi\"", "back\\slash", "$HOME `id` #x", "ü|x"}) {
    CAPTURE(text);
    const Result<int64_t> number = commands->submit(
        "#!/bin/bash\n#SBATCH --output=/dev/null\n#SBATCH --comment=" + slurm::sbatch_quoted(text) +
        "\ntrue\n");
    REQUIRE(number);
    bool arrived = false;
    const std::vector<slurm::Job> jobs = commands->queue().value();
    for (const slurm::Job& job : jobs) {
      if (job.number == *number) arrived = job.comment == text;
    }
    CHECK(arrived);
  }
}
