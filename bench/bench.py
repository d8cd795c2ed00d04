#!/usr/bin/env python3
"""Measures what the figures promise and prints one table: figure, baseline, ratio, bar.

Every figure is a ratio to a baseline measured in the same run, on the release binary, on fresh homes
under --scratch. Exits with 1 when a bar is missed. A peer that cannot be installed is skipped with a
word. `bench.py NAME...` runs only the rows whose name contains one of the words.
"""
import argparse
import contextlib
import json
import os
import pathlib
import pty
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "support"))
from container_bench import containers
from dialects_bench import dialects
from env_bench import environments
from gc_bench import collection
from lists_bench import lists
from flood_bench import flood
from python_bench import python_package
from query_bench import queries
from scale_bench import scale
from slurm_bench import slurm
from wheels import wheel

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "release"
TRAINYARD = str(BUILD / "trainyard")
LOAD = str(BUILD / "bench_load")
CONTROL = str(BUILD / "bench_control")
STAMP = str(BUILD / "bench_stamp")
PYTHON = "/usr/bin/python3"


class Home:
    """A fresh home and a warm server, gone at the end."""

    def __init__(self, scratch, name):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix=f"{name}-", dir=scratch))
        self.code = self.path / "code"
        self.code.mkdir()
        self.env = dict(os.environ, TRAINYARD_HOME=str(self.path / "home"))
        self.env.pop("TRAINYARD_SERVER", None)

    def __enter__(self):
        self.run("server", "start")
        return self

    def __exit__(self, *_):
        subprocess.run([TRAINYARD, "server", "stop"], env=self.env, capture_output=True)
        for pid in processes_of(self.path):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.path, ignore_errors=True)

    def run(self, *args, check=True):
        done = subprocess.run([TRAINYARD, *args], env=self.env, cwd=self.code, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True)
        if check and done.returncode != 0:
            raise RuntimeError(f"trainyard {' '.join(args)}: {done.stderr}")
        return done.stdout

    def json(self, *args):
        return json.loads(self.run(*args, "-o", "json"))

    @property
    def socket(self):
        return str(self.path / "home" / "socket")

    def wait_until_idle(self):
        while any(self.counts().get(s) for s in ("Queued", "Preparing", "Starting", "Running", "Finalizing")):
            time.sleep(0.05)

    def server_pid(self):
        return self.json("server", "status")["pid"]

    def wait_for(self, run):
        self.run("run", "wait", run, check=False)
        return self.json("run", "show", run)

    def counts(self):
        """Runs by status, from /metrics: cheap however many there are."""
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(self.socket)
            line.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            text = line.makefile().read()
        found = {}
        for line in text.splitlines():
            if line.startswith("trainyard_runs{status="):
                found[line.split('"')[1]] = float(line.split()[-1])
        return found


def processes_of(folder):
    """Pids whose command line names something in the folder."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if f"{folder}/".encode() in pathlib.Path(f"/proc/{entry}/cmdline").read_bytes():
                found.append(int(entry))
    return found


def now():
    return time.monotonic()


def timed(command, repeat, **more):
    times = []
    for _ in range(repeat):
        start = now()
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, **more)
        times.append(now() - start)
    return times


def memory_peak(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def memory_now(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


def supervisors(home):
    found = subprocess.run(["pgrep", "-f", f"supervise --folder {home.path}"], capture_output=True,
                           text=True)
    return [int(pid) for pid in found.stdout.split()]


ms = 1000.0


# ---- the rows: each yields (figure, ours, baseline, ratio, bar, met) ----

def row(figure, ours, baseline, ratio, bar, met):
    return figure, ours, baseline, ratio, bar, met


def submitit_start(scratch):
    """Median seconds from submit() to the function's first line, with submitit's local executor."""
    packages = BUILD / "bench-python"
    if not (packages / "submitit").exists():
        done = subprocess.run([PYTHON, "-m", "pip", "install", "-q", "--target", str(packages),
                               "submitit"], capture_output=True, text=True)
        if done.returncode != 0:
            return None
    script = """
import statistics, sys, time, submitit
def first():
    return time.monotonic()
executor = submitit.AutoExecutor(folder=sys.argv[1], cluster="local")
executor.update_parameters(timeout_min=1)
spans = []
for _ in range(7):
    start = time.monotonic()
    spans.append(executor.submit(first).result() - start)
print(statistics.median(spans))
"""
    folder = tempfile.mkdtemp(prefix="submitit-", dir=scratch)
    # Its job runs the function from a file, as a user's would.
    path = pathlib.Path(folder) / "peer.py"
    path.write_text(script)
    done = subprocess.run([PYTHON, str(path), folder], capture_output=True, text=True,
                          env=dict(os.environ, PYTHONPATH=str(packages)))
    return float(done.stdout) if done.returncode == 0 else None


def start_latency(scratch):
    with Home(scratch, "start") as home:
        spans = []
        for _ in range(30):
            start = time.monotonic_ns()
            out = home.run("submit", "-e", "bench", "--", STAMP)
            spans.append((int(out) - start) / 1e9)
        ours = statistics.median(spans)
    peer = submitit_start(scratch)
    if peer is None:
        yield row("start: CLI to first instruction", f"{ours * ms:.1f} ms",
                  "skipped: submitit cannot be installed", None, "<= 0.2x", True)
        return
    yield row("start: CLI to first instruction", f"{ours * ms:.1f} ms",
              f"submitit local {peer * ms:.0f} ms", ours / peer, "<= 0.2x", ours / peer <= 0.2)


def whole_true(home, repeat=50):
    return statistics.median(timed([TRAINYARD, "submit", "-e", "bench", "--", "true"], repeat,
                                   env=home.env, cwd=home.code))


def submit_in_venv(scratch):
    """A realised virtual environment against what the machine has, in turns."""
    with Home(scratch, "venv") as home:
        wheels = home.path / "wheels"
        wheel(wheels, "pear", "2.5")
        (home.code / "requirements.txt").write_text(f"--no-index\n--find-links {wheels}\npear\n")
        venv = ["--requirements", "requirements.txt"]
        home.run("submit", "-e", "bench", *venv, "--", "true")
        times = {"venv": [], "system": []}
        kinds = [("venv", venv), ("system", [])]
        for _ in range(60):
            for kind, words in kinds:
                began = time.perf_counter()
                home.run("submit", "-e", "bench", *words, "--", "true")
                times[kind].append(time.perf_counter() - began)
            kinds.reverse()
        ours, base = (statistics.median(times[kind]) for kind in ("venv", "system"))
        # Each with its neighbour: what else the machine does is the same for both.
        ratio = statistics.median(one / other for one, other in zip(times["venv"], times["system"]))
        yield row("submit -- true in a realised venv", f"{ours * ms:.1f} ms", f"system {base * ms:.1f} ms", ratio,
                  "<= 1.2x", ratio <= 1.2)


def submit_true(scratch):
    with Home(scratch, "true") as home:
        whole_true(home, 5)
        ours = whole_true(home)
        base = statistics.median(timed([PYTHON, "-c", "pass"], 50))
        yield row("submit -- true, submit to exit", f"{ours * ms:.1f} ms",
                  f"python3 -c pass {base * ms:.1f} ms", ours / base, "<= 4x", ours / base <= 4)


def fill_with_finished_runs(home, count):
    """Copies one finished run's rows under new ids, with the server down."""
    import sqlite3
    home.run("server", "stop")
    db = sqlite3.connect(home.path / "home" / "trainyard.db")
    columns = lambda table: [name for _, name, *_ in db.execute(f"PRAGMA table_info({table})")]
    (number,) = db.execute("SELECT max(number) FROM runs").fetchone()
    counting = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) "
    for table, key in (("runs", "number"), ("run_specs", "run"), ("attempts", "run"), ("events", "run")):
        names = columns(table)
        made = {key: f"{number} + n.i", "id": "'old-run-' || printf('%08d', n.i)"}
        values = [made.get(name, f"t.{name}") for name in names]
        db.execute(f"{counting} INSERT INTO {table} ({','.join(names)}) SELECT {','.join(values)} "
                   f"FROM n, {table} t WHERE t.{key} = ?", (count, number))
    db.commit()
    db.close()
    home.run("server", "start")


def on_terminal(home, *args):
    """Seconds that a command takes whose output is a terminal."""
    main, terminal = pty.openpty()
    start = now()
    with subprocess.Popen([TRAINYARD, *args], env=dict(home.env, TERM="xterm-256color"), cwd=home.code,
                          stdin=subprocess.DEVNULL, stdout=terminal, stderr=terminal) as child:
        os.close(terminal)
        with contextlib.suppress(OSError):  # The end of a terminal.
            while os.read(main, 65536):
                pass
        assert child.wait() == 0
    took = now() - start
    os.close(main)
    return took


def many_finished(scratch):
    with Home(scratch, "empty") as empty, Home(scratch, "full") as full:
        whole_true(empty, 5)
        whole_true(full, 5)
        fill_with_finished_runs(full, 100_000)
        whole_true(full, 5)
        # In turns, so that a change of the machine's mood meets both.
        a, b = [], []
        for _ in range(5):
            a.append(whole_true(empty, 10))
            b.append(whole_true(full, 10))
        ours, base = statistics.median(b), statistics.median(a)
        yield row("submit -- true among 100,000 finished runs", f"{ours * ms:.1f} ms",
                  f"empty home {base * ms:.1f} ms", ours / base, "<= 1.2x", ours / base <= 1.2)
        listed = statistics.median(on_terminal(full, "run", "list") for _ in range(21))
        yield row("  run list on a terminal", f"{listed * ms:.1f} ms", "-", None, "<= 15 ms", listed <= 0.015)


def durable_submissions(scratch):
    with Home(scratch, "durable") as home:
        cpus = os.cpu_count()
        # Holds every CPU, so that what is submitted waits and only the accepting is measured.
        home.run("submit", "--async", "-e", "bench", "--cpus", str(cpus), "--", "sleep", "600")
        rates, bases = [], []
        for i in range(3):
            out = subprocess.run([LOAD, "submit", home.socket, "3000", "8", "1", "--", "true"],
                                 capture_output=True, text=True, check=True)
            rates.append(float(out.stdout))
            out = subprocess.run([LOAD, "append", str(home.path / f"append-{i}"), "3000"],
                                 capture_output=True, text=True, check=True)
            bases.append(float(out.stdout))
        ours, base = statistics.median(rates), statistics.median(bases)
        yield row("durable submissions, 8 connections", f"{ours:.0f}/s",
                  f"4 KB append + fdatasync {base:.0f}/s", ours / base, ">= 0.5x", ours / base >= 0.5)


def queued_runs(scratch):
    count = 500
    with Home(scratch, "queue") as home:
        gate = home.path / "gate"
        cpus = os.cpu_count()
        blocker = home.run("submit", "--async", "-e", "bench", "--cpus", str(cpus), "--", "sh", "-c",
                           f"until test -e {gate}; do sleep 0.05; done").strip()
        # Each takes half of the machine: two at a time.
        subprocess.run([LOAD, "submit", home.socket, str(count), "8", str(max(1, cpus // 2)), "--", "true"],
                       check=True, capture_output=True)
        gate.touch()
        home.run("run", "wait", blocker)
        start = now()
        while home.counts().get("Completed", 0) < count + 1:
            time.sleep(0.02)
        ours = now() - start
    base = statistics.median(timed(["sh", "-c", f"seq {count} | xargs -P2 -n1 true"], 3))
    yield row("500 queued runs of true, two at a time", f"{ours:.2f} s, {count / ours:.0f}/s",
              f"xargs -P2 {base:.2f} s", ours / base, "<= 5x", ours / base <= 5)


def followers(scratch):
    with Home(scratch, "follow") as home:
        run = home.run("submit", "--async", "-e", "bench", "--", PYTHON, "-u", "-c",
                       "import time\nwhile True: print('epoch', time.time()); time.sleep(0.5)").strip()
        whole_true(home, 5)
        base = whole_true(home, 30)
        load = subprocess.Popen([LOAD, "follow", home.socket, run, "500"], stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, text=True)
        load.stdout.readline()
        time.sleep(2)
        ours = whole_true(home, 30)
        peak = memory_peak(home.server_pid())
        load.stdin.close()
        seen = int(load.stdout.read())
        load.wait()
        home.run("run", "cancel", run)
        assert seen > 0, "the followers saw nothing"
        yield row("submit while 500 followers read", f"{ours * ms:.1f} ms", f"none {base * ms:.1f} ms",
                  ours / base, "<= 1.5x", ours / base <= 1.5)
        yield row("  server's memory then", f"{peak / 2**20:.0f} MB", "-", None, "< 64 MB",
                  peak < 64 * 2**20)


def console(scratch):
    size = 1 << 30
    with Home(scratch, "console") as home:
        source = home.path / "source"
        with open(source, "wb") as out:
            block = (b"epoch 12 loss 0.123456 accuracy 0.987 " * 28)[:1023] + b"\n"
            for _ in range(size // len(block) // 1024):
                out.write(block * 1024)
            out.write(b"x" * (size - out.tell()))
        rates, peaks = [], []
        for _ in range(2):
            start = now()
            run = home.run("submit", "--async", "-e", "bench", "--", "cat", str(source)).strip()
            peak = 0
            while home.json("run", "show", run)["status"] in ("Queued", "Provisioning", "Preparing",
                                                              "Starting", "Running", "Finalizing"):
                for pid in supervisors(home):
                    try:
                        peak = max(peak, memory_peak(pid))
                    except OSError:
                        pass
                time.sleep(0.02)
            rates.append(now() - start)
            peaks.append(peak)
            kept = next((home.path / "home" / "runs" / run).glob("console-0.log"))
            assert kept.stat().st_size == size, f"{kept.stat().st_size} of {size} bytes kept"
        same = subprocess.run(["cmp", str(source), str(kept)]).returncode == 0
        assert same, "the kept console differs"
        copy = home.path / "copy"
        base = statistics.median(timed(["sh", "-c", f"cat {source} | cat | cat > {copy}"], 3))
        ours = statistics.median(rates)
        server = memory_peak(home.server_pid())
        yield row("console: 1 GB from one rank, kept", f"{ours:.2f} s", f"cat | cat | cat {base:.2f} s",
                  base / ours, ">= 0.8x", base / ours >= 0.8)
        worst = max(server, *peaks)
        yield row("  memory of server, supervisor", f"{server / 2**20:.0f}, {max(peaks) / 2**20:.0f} MB",
                  "-", None, "< 64 MB", worst < 64 * 2**20)


def line_latency(scratch):
    with Home(scratch, "line") as home:
        script = ("import time, sys\n"
                  "for i in range(500):\n"
                  "    print(time.monotonic_ns(), flush=True)\n"
                  "    time.sleep(0.01)\n")
        run = home.run("submit", "--async", "-e", "bench", "--", PYTHON, "-u", "-c", script).strip()
        reader = subprocess.Popen([TRAINYARD, "run", "logs", "-f", run], env=home.env,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, bufsize=1)
        spans = []
        for line in reader.stdout:
            spans.append((time.monotonic_ns() - int(line)) / 1e6)
        reader.wait()
        assert len(spans) == 500, f"{len(spans)} of 500 lines seen"
        spans = sorted(spans[20:])  # The first ones were printed before the reader was there.
        p99 = spans[int(len(spans) * 0.99)]
        yield row("a line printed, seen by run logs -f (p99)", f"{p99:.1f} ms", f"p50 {spans[len(spans) // 2]:.1f} ms",
                  None, "<= 20 ms", p99 <= 20)


def make_tree(folder):
    import random
    random.seed(1)
    for d in range(50):
        sub = folder / f"pkg{d}"
        sub.mkdir(parents=True)
        for f in range(100):
            text = "".join(random.choices("abcdefgh \n", k=1200)) * 10
            (sub / f"file{f}.py").write_text(text + str(f))
    (folder / "weights.bin").write_bytes(random.randbytes(64 << 20))


def phase_seconds(run, name):
    return sum(p["seconds"] for p in run["timeline"] if p["phase"] == name)


def snapshot(scratch):
    with Home(scratch, "snapshot") as home:
        tree = home.code
        make_tree(tree)
        quiet = dict(env=home.env, cwd=tree)
        submit = [TRAINYARD, "submit", "--async", "-e", "bench", "--", "true"]
        plain = home.path / "plain"
        plain.mkdir()
        base_submit = statistics.median(timed(submit, 9, env=home.env, cwd=plain))
        first = timed(submit, 1, **quiet)[0] - base_submit
        archive = home.path / "peer.zip"
        zipped = timed(["zip", "-1", "-q", "-r", str(archive), "."], 1, cwd=tree)[0]
        time.sleep(1.1)  # Past the second in which the files were made: git's and our racy window.
        timed(submit, 2, **quiet)
        home.wait_until_idle()
        subprocess.run("git init -q . && git add . && git -c user.name=b -c user.email=b@b commit -q -m x",
                       shell=True, check=True, cwd=tree, capture_output=True)
        git = statistics.median(timed(["git", "status"], 9, cwd=tree))
        times = []
        for _ in range(9):  # Each by itself: the run before it makes its working copy otherwise.
            times += timed(submit, 1, **quiet)
            home.wait_until_idle()
        again = statistics.median(times) - base_submit
        copies = []
        shutil.rmtree(tree / ".git")
        for i in range(3):
            run = home.run("submit", "--async", "-e", "bench", "--", "true").strip()
            copies.append(phase_seconds(home.wait_for(run), "prepare"))
        copied = [timed(["cp", "-r", str(tree), str(home.path / f"copy{i}")], 1)[0] for i in range(3)]
        ours_copy, base_copy = statistics.median(copies), statistics.median(copied)
        yield row("snapshot 5,000 files + 64 MB, unchanged", f"{again * ms:.0f} ms",
                  f"git status {git * ms:.0f} ms", again / git, "<= 1.5x", again / git <= 1.5)
        yield row("  first time", f"{first:.2f} s", f"zip -1 {zipped:.2f} s", first / zipped, "<= 0.35x",
                  first / zipped <= 0.35)
        yield row("  its working copy", f"{ours_copy:.2f} s", f"cp -r {base_copy:.2f} s",
                  ours_copy / base_copy, "<= 1.2x", ours_copy / base_copy <= 1.2)


def ignored(scratch):
    with Home(scratch, "ignored") as home:
        (home.code / "train.py").write_text("pass\n")
        (home.code / ".amlignore").write_text("data/\n")
        submit = [TRAINYARD, "submit", "--async", "-e", "bench", "--", "true"]
        timed(submit, 3, env=home.env, cwd=home.code)
        without = statistics.median(timed(submit, 15, env=home.env, cwd=home.code))
        for d in range(1000):
            folder = home.code / "data" / f"d{d}"
            folder.mkdir(parents=True)
            for f in range(1000):
                os.close(os.open(folder / str(f), os.O_CREAT))
        with_them = statistics.median(timed(submit, 15, env=home.env, cwd=home.code))
        added = (with_them - without) * ms
        yield row("1,000,000 files in an ignored folder add", f"{added:.1f} ms",
                  f"without {without * ms:.1f} ms", None, "<= 10 ms", added <= 10)


def resident(scratch):
    with Home(scratch, "memory") as home:
        run = home.run("submit", "--async", "-e", "bench", "--", "sleep", "60").strip()
        while home.json("run", "show", run)["status"] != "Running":
            time.sleep(0.02)
        time.sleep(3)
        server = memory_now(home.server_pid())
        supervisor = max(memory_now(pid) for pid in supervisors(home))
        home.run("run", "cancel", run)
        size = pathlib.Path(TRAINYARD).stat().st_size
        yield row("resident: idle server", f"{server / 2**20:.1f} MB", "-", None, "<= 32 MB",
                  server <= 32 * 2**20)
        yield row("resident: supervisor", f"{supervisor / 2**20:.1f} MB", "-", None, "<= 16 MB",
                  supervisor <= 16 * 2**20)
        yield row("binary, stripped", f"{size / 2**20:.1f} MB", "-", None, "<= 25 MB", size <= 25 * 2**20)


def control_plane(scratch):
    """bench/control_bench.cc: 10,000 simulated nodes, 100,000 runs in the queue."""
    done = subprocess.run([CONTROL], env=dict(os.environ, TMPDIR=scratch), capture_output=True, text=True)
    for line in done.stdout.splitlines():
        figure, ours, base, bar, met = line.split("\t")
        yield row(figure, ours, base, None, bar, met == "met")
    if done.returncode != 0:
        yield row("  all runs to their end, once, in order", "-", done.stderr.strip(), None, "", False)


ROWS = [start_latency, submit_true, submit_in_venv, many_finished, durable_submissions, queued_runs, followers, console,
        line_latency, snapshot, ignored, resident, python_package, dialects, queries, control_plane, lists, slurm,
        environments, containers, scale, collection, flood]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--scratch", default=None, help="a folder on the disk to measure")
    options = parser.parse_args()
    scratch = tempfile.mkdtemp(prefix="trainyard-bench-", dir=options.scratch)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    missed = 0
    header = ("figure", "ours", "baseline", "ratio", "bar", "")
    line = "{:<44} {:>20}  {:<32} {:>7}  {:<9} {}"
    print(line.format(*header))
    try:
        for measure in ROWS:
            if options.names and not any(n in measure.__name__ for n in options.names):
                continue
            for figure, ours, base, ratio, bar, met in measure(scratch):
                shown = "-" if ratio is None else f"{ratio:.2f}x"
                print(line.format(figure, ours, base, shown, bar, "" if met else "MISSED"), flush=True)
                missed += not met
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print(f"\n{missed} bars missed" if missed else "\nevery bar met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
