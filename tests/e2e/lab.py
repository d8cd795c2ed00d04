"""The Slurm lab itself: that its nodes are machines apart, that they die and come back as told, and that
nothing is left of it. And the program that such nodes are given: it starts where there is nothing."""
import contextlib
import hashlib
import os
import pathlib
import pwd
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import slurm_lab
from slurm_lab import SlurmLab
from yard import ROOT, TRAINYARD, YardTest, alive, main, processes_with, wait_until

START_MAX_S = 15  # Some 0.8 s on a quiet machine.


class Listener:
    """Says hello to whoever connects."""

    def __init__(self, address):
        self.socket = socket.create_server((address, 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self.socket.accept()
                with peer:
                    peer.sendall(b"hello\n")

    def close(self):
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


def hear(lab, name, address, port):
    """What a node hears at an address; empty when it does not get there."""
    done = lab.exec_on(name, "timeout", "2", "bash", "-c", f"read -r said < /dev/tcp/{address}/{port}; echo $said",
                       check=False)
    return done.stdout.strip()


class TheLab(unittest.TestCase):
    """One lab for all: each test leaves its nodes idle."""

    @classmethod
    def setUpClass(cls):
        cls.lab = SlurmLab(nodes=4, bare="n4", shared=True, slurmd_timeout=5)
        cls.addClassCleanup(cls.lab.down)
        began = time.monotonic()
        cls.lab.up()
        cls.took = time.monotonic() - began

    def tearDown(self):
        self.lab.run("scancel", "--user", self.lab.user, check=False)
        self.lab.start_nodes(self.lab.names, wait=False)
        # A controller that was killed comes back with what it had written down, an old drain too.
        for name, state in self.lab.states().items():
            if state.startswith("drain"):
                self.lab.resume(name)
        self.lab.wait_for(lambda: self.lab.idle() == set(self.lab.names), "all nodes to be idle again", 60)

    def srun(self, *words, **more):
        return self.lab.run("srun", "--ntasks-per-node=1", *words, **more)

    def listen(self, address):
        listener = Listener(address)
        self.addCleanup(listener.close)
        return listener.port

    def start_sleeper(self, name):
        """A job on that node -> the pid of its sleep, as we see it."""
        self.job = self.lab.run("sbatch", "--parsable", "-w", name, "-o", "/dev/null", "--no-requeue", "--wrap",
                                "exec sleep 1234").strip()
        self.lab.wait_for(lambda: self.sleepers(name), f"the job on {name} to start")
        return self.sleepers(name)[0]

    def sleepers(self, name):
        return [pid for pid in self.lab.processes_on(name) if slurm_lab.name_of(pid) == "sleep"
                and b"1234" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()]

    def test_its_nodes_are_idle_within_seconds(self):
        self.assertEqual(self.lab.states(), {name: "idle" for name in self.lab.names})
        self.assertLess(self.took, START_MAX_S)

    def test_a_job_runs_on_all_nodes_as_a_user_without_rights(self):
        said = self.srun("-N4", "bash", "-c", "echo $SLURMD_NODENAME $(id -un) $(id -u) $(id -G)")
        me = pwd.getpwnam(self.lab.user)
        self.assertNotEqual(me.pw_uid, 0)
        self.assertEqual(sorted(said.splitlines()), [f"{name} {self.lab.user} {me.pw_uid} {me.pw_gid}"
                                                     for name in self.lab.names])

    def test_a_job_of_roots_is_refused(self):
        self.lab.needs_isolation()
        done = slurm_lab.run(["/usr/bin/sbatch", "--wrap", "true"], check=False,
                             env=dict(os.environ, SLURM_CONF=self.lab.env["SLURM_CONF"]))
        self.assertNotEqual(done.returncode, 0)

    def test_a_job_script_starts_steps_on_its_other_nodes(self):
        self.lab.run("sbatch", "-N4", "--ntasks-per-node=1", "-o", self.lab.shared / "said", "--wait", "--wrap",
                     "srun --ntasks-per-node=1 printenv SLURMD_NODENAME", timeout=60)
        said = (self.lab.shared / "said").read_text()
        self.assertEqual(sorted(said.split()), self.lab.names)

    def test_nodes_see_neither_the_project_nor_homes_nor_each_others_tmp(self):
        self.lab.needs_isolation()
        home = pathlib.Path(tempfile.mkdtemp(prefix="yard-"))
        self.addCleanup(home.rmdir)
        self.srun("-N1", "-w", "n1", "touch", "/tmp/of-n1")
        for name in self.lab.names:
            look = f"ls -d {home} {TRAINYARD} {ROOT}/CMakeLists.txt /tmp/of-n1; cat /root/.profile; touch /usr/x"
            done = self.lab.exec_on(name, "bash", "-c", look, check=False)
            self.assertEqual(done.stdout, "/tmp/of-n1\n" if name == "n1" else "", name)
            self.assertEqual(self.lab.exec_on(name, "hostname").stdout, name + "\n")

    def test_nodes_reach_each_other_and_the_lab_address_and_nothing_else(self):
        self.lab.needs_isolation()
        here, bridge = self.listen("127.0.0.1"), self.listen(self.lab.address)
        for name in self.lab.names:
            self.assertEqual(hear(self.lab, name, self.lab.address, bridge), "hello", name)
            self.assertEqual(hear(self.lab, name, "127.0.0.1", here), "", name)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            with contextlib.suppress(OSError):
                probe.connect(("198.51.100.1", 9))  # Sends nothing; says what our own address is.
                outside = self.listen(probe.getsockname()[0])
                self.assertEqual(hear(self.lab, "n1", probe.getsockname()[0], outside), "")
        route = self.lab.exec_on("n1", "cat", "/proc/net/route").stdout.splitlines()[1:]
        self.assertEqual([line.split()[1] for line in route if line.split()[1] == "00000000"], [], "no way out")
        self.assertEqual(hear(self.lab, "n4", self.lab.address_of("n1"), 6818), "")  # slurmd, which is silent.
        self.lab.exec_on("n4", "timeout", "2", "bash", "-c", f": < /dev/tcp/{self.lab.address_of('n1')}/6818")

    def test_the_bare_node_has_no_interpreter_and_none_of_our_libraries(self):
        self.lab.needs_isolation()
        for program in ("python3", "perl", "curl", "wget", "awk", "getent", "mount"):
            found = self.lab.exec_on("n4", "bash", "-c", f"command -v {program}", check=False)
            self.assertEqual(found.stdout, "", program)
        libraries = self.lab.exec_on("n4", "ls", "/usr/lib/x86_64-linux-gnu").stdout
        for library in ("libstdc++", "libssl", "libcrypto", "libsqlite", "libgcc"):
            self.assertNotIn(library, libraries)

    def test_what_slurmd_started_goes_on_when_it_is_killed(self):
        sleeper = self.start_sleeper("n2")
        self.lab.kill_slurmd("n2")
        self.assertTrue(alive(sleeper))
        self.lab.start_node("n2")
        self.assertTrue(alive(sleeper))

    def test_a_node_that_loses_its_power_loses_all_and_comes_back_clean(self):
        self.lab.needs_isolation()
        sleeper = self.start_sleeper("n3")
        self.lab.exec_on("n3", "touch", "/tmp/before")
        self.lab.kill_node("n3")
        self.assertFalse(alive(sleeper))
        self.lab.wait_for_state("n3", "down*", "down")
        self.lab.start_node("n3")
        # Where the project itself lies in /tmp, the place it is hidden at is to be seen.
        left = set(self.lab.exec_on("n3", "ls", "/tmp").stdout.split()) - set(ROOT.parts)
        self.assertEqual(left, {self.lab.folder.name})

    def test_the_controller_is_away_and_comes_back_with_its_jobs(self):
        sleeper = self.start_sleeper("n1")
        began = time.time()
        self.lab.run("scontrol", "update", f"JobId={self.job}", "Comment=x")  # Makes it write down all.
        state = self.lab.folder / "state" / "job_state"
        wait_until(lambda: state.exists() and state.stat().st_mtime > began, "the job to be written down", 60)
        self.lab.kill_controller()
        self.assertEqual(self.lab.run("timeout", "2", "squeue", "-h", check=False), "")
        self.assertTrue(alive(sleeper))
        self.lab.start_controller()
        self.lab.wait_for(lambda: "R" in self.lab.run("squeue", "-h", "-o", "%t", check=False), "the job to be known")
        self.assertTrue(alive(sleeper))

    def test_nodes_are_drained_set_down_and_resumed(self):
        self.lab.drain("n1")
        self.lab.set_down("n2")
        self.lab.wait_for_state("n1", "drained")
        self.lab.wait_for_state("n2", "down")
        self.lab.resume("n1")
        self.lab.resume("n2")

    def test_the_partition_prod_preempts_spot(self):
        self.lab.run("sbatch", "-p", "spot", "-w", "n1", "-c2", "--no-requeue", "-o", "/dev/null", "--wrap",
                     "srun sleep 1234")
        self.lab.wait_for(lambda: self.sleepers("n1"), "the first job to start")
        self.assertEqual(self.srun("-p", "prod", "-w", "n1", "-c2", "printenv", "SLURM_JOB_PARTITION", timeout=60),
                         "prod\n")

    def test_node_programs_start_and_stop_nodes(self):
        up, down = self.lab.node_programs()
        slurm_lab.run([down, "n2"])
        self.assertNotIn("n2", self.lab.processes)
        self.lab.boot_fails = {"n2"}
        self.assertIn("no machine", slurm_lab.run([up, "n2"], check=False).stderr)
        self.lab.boot_fails = set()
        slurm_lab.run([up, "n2"])
        self.assertIn("n2", self.lab.processes)
        self.assertEqual(self.lab.booted, [("down", "n2"), ("up", "n2"), ("up", "n2")])


class Ends(unittest.TestCase):
    """What a lab leaves behind, and labs beside each other."""

    def test_two_labs_stand_side_by_side_and_leave_nothing(self):
        labs = [SlurmLab(nodes=1) for _ in range(2)]
        for lab in labs:
            self.addCleanup(lab.down)
            lab.up()
        for lab in labs:
            self.assertEqual(lab.run("srun", "hostname" if lab.isolated else "true"), "n1\n" if lab.isolated else "")
        bridges = [lab.bridge for lab in labs]
        labs[0].down()
        self.assertEqual(labs[1].idle(), {"n1"})
        labs[1].down()
        for lab, bridge in zip(labs, bridges):
            self.assert_gone(lab.folder, bridge)

    def test_a_lab_whose_test_is_killed_takes_its_processes_along(self):
        code = ("import sys; sys.path.insert(0, sys.argv[1]); from slurm_lab import SlurmLab\n"
                "lab = SlurmLab(nodes=1).up(); print(lab.folder, lab.bridge, flush=True); sys.stdin.read()")
        child = subprocess.Popen([sys.executable, "-c", code, str(ROOT / "tests" / "support")], stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, text=True)
        with child:
            line = child.stdout.readline().split()
            if not line:
                self.skipTest("skipped: no lab here")
            child.kill()
        folder, bridge = line
        wait_until(lambda: not processes_with(folder), "its processes to be gone", 10)
        SlurmLab(nodes=1).up().down()  # The next one removes the rest.
        self.assert_gone(pathlib.Path(folder), bridge)

    def test_a_lab_that_cannot_start_says_why_and_leaves_nothing(self):
        lab = SlurmLab(nodes=1, config="NoSuchKey=1\n")
        limit = slurm_lab.UP_S
        self.addCleanup(setattr, slurm_lab, "UP_S", limit)
        slurm_lab.UP_S = 2
        with self.assertRaisesRegex(AssertionError, "the nodes to be idle|did not start"):
            lab.up()
        self.assert_gone(lab.folder, None)

    def assert_gone(self, folder, bridge):
        self.assertEqual(processes_with(str(folder)), [])
        self.assertFalse(folder.exists())
        self.assertFalse(bridge and os.path.exists(f"/sys/class/net/{bridge}"))


class TheNodeProgram(YardTest):
    """trainyard-node, as the server hands it out."""

    def setUp(self):
        super().setUp()
        status, self.program = self.http_get("/api/v1/node/program")
        self.assertEqual(status, 200, self.program[:200])

    def http_get(self, path):
        self.ok("server", "start")
        return self.http("GET", path)

    def make_root(self):
        """A root with nothing in it but the program, and /proc, /dev/null and /tmp."""
        root = self.scratch / "root"
        for part in ("proc", "dev", "tmp", "etc"):
            (root / part).mkdir(parents=True)
        (root / "trainyard-node").write_bytes(self.program)
        (root / "trainyard-node").chmod(0o755)
        (root / "etc" / "hosts").write_text("127.0.0.1 localhost\n")
        return root

    def test_it_is_the_one_whose_hash_is_told(self):
        self.assertEqual(self.http_get("/api/v1/node/program.sha256"),
                         (200, hashlib.sha256(self.program).hexdigest().encode() + b"  trainyard-node\n"))
        self.assertLess(len(self.program), 8 << 20)

    def test_who_has_it_already_is_not_sent_it_again(self):
        tag = f'"{hashlib.sha256(self.program).hexdigest()}"'
        self.assertEqual(self.http("GET", "/api/v1/node/program", headers={"If-None-Match": tag}), (304, b""))
        self.assertEqual(self.http("GET", "/api/v1/node/program", headers={"If-None-Match": '"x"'})[0], 200)

    def test_it_is_to_be_had_without_a_token(self):
        port = int(self.server()["url"].rsplit(":", 1)[1])
        with socket.create_connection(("127.0.0.1", port), 10) as connection:
            connection.sendall(b"GET /api/v1/node/program HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")
            answer = b"".join(iter(lambda: connection.recv(1 << 20), b""))
        head, _, body = answer.partition(b"\r\n\r\n")
        self.assertIn(b" 200 ", head.splitlines()[0])
        self.assertEqual(body, self.program)

    def test_it_starts_in_an_empty_root(self):
        need_root()
        start = ["/usr/sbin/chroot", self.make_root(), "/trainyard-node"]
        done = slurm_lab.run([*start, "--version"], env={})
        self.assertRegex(done.stdout, r"^trainyard-node \d+\.\d+\.\d+\n$")
        done = slurm_lab.run([*start, "help"], check=False, env={})
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("usage: trainyard-node supervise", done.stderr)

    def test_it_carries_a_run_in_an_empty_root_and_reports_over_tcp(self):
        need_root()
        self.run_in(self.make_root())
        run = self.submit("--", "/trainyard-node", "--version")
        done = self.finish(run)
        self.assertEqual((done["status"], done["exitCode"]), ("Completed", 0), done)
        self.assertRegex(self.console(run), r"^trainyard-node \d+\.\d+\.\d+\n$")

    def test_it_finds_a_server_by_name_where_a_file_of_hosts_has_it(self):
        need_root()
        root = self.make_root()
        self.run_in(root, host="localhost")
        self.assertEqual(self.finish(self.submit("--", "/trainyard-node", "--version"))["status"], "Completed")

    def test_it_carries_a_run_on_a_kernel_of_2018(self):
        need_root()
        self.run_in(self.make_root(), hidden=CALLS_SINCE_4_18)
        run = self.submit("--processes-per-node", "2", "--", "/trainyard-node", "--version")
        self.assertEqual(self.finish(run)["status"], "Completed", self.show(run))
        self.assertEqual(len(re.findall(r"trainyard-node \d", self.console(run))), 2)

    def run_in(self, root, host="127.0.0.1", hidden=()):
        """From now on the server's supervisors are trainyard-node in `root`, told of TCP alone."""
        program = next((self.home / "node" / ".program").glob("*/trainyard-node"))
        program.unlink()
        program.write_text(f"#!{sys.executable} -SE\n" + SUPERVISE.format(root=str(root), host=host, hidden=hidden))
        program.chmod(0o755)


# By x86-64's numbers: pidfd_send_signal, io_uring_*, the new calls for mounts, pidfd_open, clone3, close_range,
# openat2, pidfd_getfd, faccessat2 and all after them.
CALLS_SINCE_4_18 = tuple(range(424, 462))

SUPERVISE = """import ctypes, json, os, pathlib, struct, sys
def hide(calls):
    # seccomp: a call of that number fails with ENOSYS, as on a kernel that does not know it.
    load, is_equal, answer = 0x20, 0x15, 0x06
    program = struct.pack("HBBI", load, 0, 0, 0)
    for call in calls:
        program += struct.pack("HBBI", is_equal, 0, 1, call) + struct.pack("HBBI", answer, 0, 0, 0x00050000 | 38)
    program += struct.pack("HBBI", answer, 0, 0, 0x7fff0000)
    text = ctypes.create_string_buffer(program)
    head = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(text)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(22, 2, head, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "seccomp")
if {hidden!r}:
    hide({hidden!r})
root, folder = pathlib.Path({root!r}), pathlib.Path(sys.argv[3])
path = folder / "assignment.json"
told = json.loads(path.read_text())
told["serverSocket"] = told["blobs"] = ""
told["serverUrl"] = told["serverUrl"].replace("127.0.0.1", {host!r})
path.write_text(json.dumps(told))
inside = root / str(folder)[1:]
inside.mkdir(parents=True, exist_ok=True)
script = '''mount --bind "$1" "$2" && mount -t proc proc "$0/proc" && mount --bind /dev "$0/dev" &&
exec chroot "$0" /trainyard-node supervise --folder "$1" --node 0'''
os.execvpe("unshare", ["unshare", "--mount", "sh", "-c", script, str(root), str(folder), str(inside)],
           dict(os.environ))
"""


class OnABareNode(YardTest):
    """The way of the program to a node of the lab that has bash and coreutils alone."""

    def test_bash_alone_gets_the_program_and_starts_it(self):
        need_root()
        lab = SlurmLab(nodes=1, bare="n1")
        self.addCleanup(lab.down)
        lab.up()
        lab.needs_isolation()
        self.ok("server", "start", "--listen", f"{lab.address}:0", "--insecure")
        port = int(self.server()["url"].rsplit(":", 1)[1])
        script = (f"exec 3<>/dev/tcp/{lab.address}/{port}\n"
                  f"printf 'GET /api/v1/node/program HTTP/1.0\\r\\nHost: {lab.address}\\r\\n\\r\\n' >&3\n"
                  "while read -r line <&3 && [ \"$line\" != $'\\r' ]; do :; done\n"
                  "cat <&3 > /tmp/trainyard-node && chmod 700 /tmp/trainyard-node && /tmp/trainyard-node --version")
        said = lab.run("srun", "bash", "-c", script)
        self.assertRegex(said, r"^trainyard-node \d+\.\d+\.\d+\n$")


def need_root():
    if os.geteuid() != 0:
        raise unittest.SkipTest("skipped: another root for a process needs rights")


if __name__ == "__main__":
    main()
