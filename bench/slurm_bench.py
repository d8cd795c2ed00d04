"""Runs on a real Slurm of four nodes (tests/support/slurm_lab.py) against plain Slurm, in the same lab.

Everything, our server too, runs as the lab's user, who has no rights: so both sides call the same sbatch.
"""
import contextlib
import datetime
import http.client
import json
import os
import pathlib
import pwd
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))
from lab_tools import PATH, clean, open_way_to  # noqa: E402
from slurm_lab import SlurmLab  # noqa: E402

BUILD = ROOT / "build" / "release"
TRAINYARD = str(BUILD / "trainyard")
PYTHON = "/usr/bin/python3"  # Debian's, that has PyTorch.
NODES = 4
RANKS_PER_NODE = 2
STARTS = 30       # Runs whose start is taken apart,
MANY = 300        # and that are to be done with as fast as Slurm is.
TIMES = 3         # Of each comparison, in turns.
POLL_S = 0.1
DONE_MAX_S = 600
ms = 1000.0


class Cluster:
    """A lab, and a server of ours whose nodes are the lab's."""

    def __init__(self, scratch):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="slurm-", dir=scratch))
        self.lab = SlurmLab(nodes=NODES, shared=True)
        self.server = None

    def __enter__(self):
        try:
            self.lab.up()
            self._prepare()
            self._serve()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.server:
            self.server.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.server.wait(20)
            self.server.kill()
            self.server.wait()
        self.lab.down()
        shutil.rmtree(self.path, ignore_errors=True)

    def _prepare(self):
        self.code = self.path / "code"
        self.bin = self.path / "bin"
        for folder in (self.code, self.bin):
            folder.mkdir()
        shutil.copy(BUILD / "bench_sbatch", self.bin / "sbatch")
        (self.bin / "sbatch.first").write_text(
            f"export BENCH_BEGUN=$EPOCHREALTIME\necho $BENCH_BEGUN >{self.lab.shared}/begun\n")
        shutil.copy(BUILD / "bench_stamp", self.code / "stamp")
        open_way_to(self.path)
        self.who = {}
        if os.geteuid() == 0:
            me = pwd.getpwnam(self.lab.user)
            self.who = dict(user=me.pw_uid, group=me.pw_gid, extra_groups=[])
            for folder in (self.path, self.code, self.bin):
                os.chown(folder, me.pw_uid, me.pw_gid)
        self.env = dict(clean(os.environ), PATH=f"{self.bin}:{PATH}", HOME=str(self.path),
                        SLURM_CONF=self.lab.env["SLURM_CONF"], TRAINYARD_HOME=str(self.path / "home"))
        self.env.pop("TRAINYARD_SERVER", None)

    def _serve(self):
        log = open(self.path / "server.log", "wb")
        with log:
            self.server = subprocess.Popen(
                [TRAINYARD, "server", "run", "--listen", f"{self.lab.address}:0", "--insecure"], env=self.env,
                cwd=self.code, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **self.who)
        limit = time.monotonic() + 20
        while self.run("server", "status", check=False).returncode != 0:
            if time.monotonic() > limit or self.server.poll() is not None:
                raise RuntimeError("the server did not start: " + (self.path / "server.log").read_text())
            time.sleep(0.05)
        self.run("compute", "create", "-n", "lab", "--engine", "slurm", "--max-nodes", NODES)

    def run(self, *args, check=True):
        return self.plain(TRAINYARD, *args, check=check)

    def plain(self, *command, check=True, env=None, **more):
        """A command as the lab's user."""
        done = subprocess.run([str(word) for word in command], env=env or self.env, cwd=self.code, text=True,
                              capture_output=True, stdin=more.pop("stdin", subprocess.DEVNULL), **self.who, **more)
        if check and done.returncode != 0:
            raise RuntimeError(f"{command} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done

    def show(self, run):
        return json.loads(self.run("run", "show", run, "-o", "json").stdout)

    def stamps(self):
        """When each sbatch of our server was called and done, in seconds."""
        text = (self.bin / "sbatch.stamps").read_text()
        return [tuple(int(word) / 1e9 for word in line.split()) for line in text.splitlines()]

    def statuses(self):
        """Runs by status, from /metrics: cheap however many there are."""
        connection = http.client.HTTPConnection("server")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(str(self.path / "home" / "socket"))
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        return {line.split('"')[1]: float(line.split()[-1]) for line in text.splitlines()
                if line.startswith("trainyard_runs{status=")}

    def slurm_is_done(self):
        return not self.plain("/usr/bin/squeue", "--noheader", "--states=PENDING,RUNNING", "--format=%i").stdout.strip()


def until(condition, what):
    limit = time.monotonic() + DONE_MAX_S
    while not condition():
        if time.monotonic() > limit:
            raise RuntimeError(f"waited {DONE_MAX_S} s in vain for {what}")
        time.sleep(POLL_S)


# ---- the rows: each yields (figure, ours, baseline, ratio, bar, met) ----

def own_share(cluster):
    submit = [TRAINYARD, "submit", "--target", "lab", "-e", "bench", "--", "./stamp", "BENCH_BEGUN"]
    cluster.plain(*submit)  # Nodes fetch trainyard-node once.
    for name in cluster.lab.names[1:]:
        cluster.run("compute", "create", "-n", f"on-{name}", "--engine", "slurm", f"--sbatch=--nodelist={name}")
        cluster.run("submit", "--target", f"on-{name}", "-e", "bench", "--", "./stamp", "BENCH_BEGUN")
    before = len(cluster.stamps())
    begun, first = [], []
    for _ in range(STARTS):
        begun.append(time.time())
        now, job_begun = cluster.plain(*submit).stdout.split()
        first.append(int(now) / 1e9 - float(job_begun))
    handed = [called - start for start, (called, _) in zip(begun, cluster.stamps()[before:])]
    sbatch = [done - called for called, done in cluster.stamps()[before:]]
    whole = statistics.median(a + b for a, b in zip(handed, first))
    parts = f"{statistics.median(handed) * ms:.0f} + {statistics.median(first) * ms:.0f} ms; sbatch " \
            f"{statistics.median(sbatch) * ms:.0f}"
    yield ("Slurm: our share of a start", f"{whole * ms:.1f} ms", parts, None, "<= 80 ms", whole <= 0.080)


def first_line(cluster):
    """From the typed command to the first line that the job prints, as a person waits for it."""
    def ours():
        start = time.monotonic()
        with subprocess.Popen([TRAINYARD, "submit", "--target", "lab", "-e", "bench", "--", "echo", "here"],
                              env=cluster.env, cwd=cluster.code, text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, **cluster.who) as child:
            line = child.stdout.readline()
            took = time.monotonic() - start
        assert line == "here\n", line
        return took

    def theirs(number):
        out = cluster.lab.shared / f"first-{number}"
        start = time.monotonic()
        cluster.plain("/usr/bin/sbatch", f"--output={out}", "--ntasks=1", "--wrap=echo here")
        while not (out.exists() and out.read_text().endswith("\n")):
            time.sleep(0.001)
        return time.monotonic() - start

    took, base = [], []
    for number in range(STARTS):
        for _ in range(2):  # In turns, each on an idle cluster.
            until(cluster.slurm_is_done, "Slurm to be idle")
            if len(took) > len(base):
                base.append(theirs(number))
            else:
                took.append(ours())
    a, b = statistics.median(took), statistics.median(base)
    yield ("Slurm: first line seen after the submit", f"{a * ms:.0f} ms", f"sbatch {b * ms:.0f} ms", a / b, "<= 1.3x",
           a / b <= 1.3)


def many_runs(cluster):
    def ours():
        before = cluster.statuses().get("Completed", 0)
        start = time.monotonic()
        for _ in range(MANY):
            cluster.run("submit", "--async", "--target", "lab", "-e", "bench", "--", "true")
        until(lambda: cluster.statuses().get("Completed", 0) >= before + MANY, "our runs")
        return time.monotonic() - start

    def theirs():
        start = time.monotonic()
        for _ in range(MANY):
            cluster.plain("/usr/bin/sbatch", "--output=/dev/null", "--ntasks=1", "--wrap=true")
        until(cluster.slurm_is_done, "Slurm's jobs")
        return time.monotonic() - start

    base, took = [], []
    for _ in range(TIMES):  # In turns, so that a change of the machine's mood meets both.
        until(cluster.slurm_is_done, "Slurm to be idle")
        base.append(theirs())
        took.append(ours())
    a, b = statistics.median(took), statistics.median(base)
    yield (f"Slurm: {MANY} runs of true, submit to all done", f"{a:.1f} s, {MANY / a:.0f}/s",
           f"{MANY} sbatch {b:.1f} s", a / b, "<= 1.2x", a / b <= 1.2)


BATCH = """#!/bin/bash
#SBATCH --nodes={nodes} --ntasks-per-node={ranks} --output={shared}/out
begun=$EPOCHREALTIME
cd {shared}
export MASTER_ADDR=$(scontrol show hostnames | head -n 1) MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))
export WORLD_SIZE=$SLURM_NTASKS
{command}
echo "$begun $EPOCHREALTIME" >done
"""


def several_nodes(cluster, what, files, command, batch_command, distribution):
    """Seconds from the start of the job to its end: ours, and those of a batch script."""
    expected = f"ranks {NODES * RANKS_PER_NODE} sum {sum(range(NODES * RANKS_PER_NODE))} mean 1.0\n"
    shared = cluster.lab.shared
    for file in files:
        for folder in (shared, cluster.code):
            shutil.copy(file, folder)
    script = cluster.path / "batch.sh"
    script.write_text(BATCH.format(nodes=NODES, ranks=RANKS_PER_NODE, shared=shared, command=batch_command))

    def theirs():
        for name in ("done", "out"):
            (shared / name).unlink(missing_ok=True)
        cluster.plain("/usr/bin/sbatch", "--wait", script, env=dict(cluster.env, PATH=PATH))
        check(what, expected, (shared / "out").read_text())
        begun, ended = (shared / "done").read_text().split()
        return float(ended) - float(begun)

    def ours():
        out = cluster.run("submit", "--target", "lab", "-e", "bench", "--nodes", NODES, "--processes-per-node",
                          RANKS_PER_NODE, "--distribution", distribution, "--", *command).stdout
        check(what, expected, out)
        run = json.loads(cluster.run("run", "list", "--last", 1, "-o", "json").stdout)[0]
        ended = datetime.datetime.fromisoformat(run["endedAt"])
        return ended.timestamp() - float((shared / "begun").read_text())

    base, took = [], []
    for _ in range(TIMES):
        base.append(theirs())
        took.append(ours())
    a, b = statistics.median(took), statistics.median(base)
    yield (f"Slurm: {NODES} nodes x {RANKS_PER_NODE} ranks, {what}", f"{a:.2f} s",
           f"{batch_command.split()[0]} in a batch script {b:.2f} s", a / b, "<= 1.2x", a / b <= 1.2)


def check(what, expected, found):
    if expected not in found:
        raise RuntimeError(f"{what} printed {found!r}, not {expected!r}")


def pytorch(cluster):
    command = [PYTHON, "allreduce.py", "100"]
    ranked = f"srun --kill-on-bad-exit bash -c 'RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID exec {' '.join(command)}'"
    yield from several_nodes(cluster, "PyTorch gloo", [HERE / "allreduce.py"], command, ranked, "pytorch")


def mpi(cluster):
    program = cluster.path / "allreduce"
    subprocess.run(["mpicc", "-O2", "-o", str(program), str(HERE / "allreduce.c")], check=True)
    program.chmod(0o755)
    command = ["./allreduce", "20"]
    yield from several_nodes(cluster, "MPI", [program], command, " ".join(["mpirun", *command]), "mpi")


def slurm(scratch):
    try:
        with Cluster(scratch) as cluster:
            for measure in (own_share, first_line, many_runs, pytorch, mpi):
                yield from measure(cluster)
    except unittest.SkipTest as why:
        yield ("Slurm", "-", str(why), None, "", True)
