#!/usr/bin/env python3
"""Kills the server and supervisors at random moments of real runs, and shows that nothing that was
acknowledged is lost.

    torture.py [--kills N] [--seconds S] [--away S] [--power PERCENT] [--seed S]

Server and a supervisor are killed together in a third of the cases. The server is away for up to --away seconds each
time; a supervisor that is killed with it dies at any moment of that. In --power percent of the server's kills its disk
loses what was not synced: commits of the database from the end of its log on, and the ends of consoles and log files.

What must hold at the end: every submission that was answered is there, once, and has ended; a run whose
supervisor was left alone is Completed with every byte of its console, every metric point that it told,
once and in order, and its outputs; one whose supervisor was killed has a reason, and its console and its
points are a beginning of what each attempt wrote; its child has ended with it; bytes and points that any
reader ever saw are still there; no process is left; `server check` finds nothing.
"""
import argparse
import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
from yard import FINAL, YardTest, alive, lock_owner, processes_with, wait_until

LINES = 40
POINTS_PER_LINE = 5
POINTS = LINES * POINTS_PER_LINE
CHILD_POINTS = 10

# It tells of itself as the Python package would: one write() per line. A point's value is its number, its
# step the attempt that told it. Its child is told of first: a second attempt finds it there.
SCRIPT = f"""import json, os, sys, time
name, pause = sys.argv[1], float(sys.argv[2])
attempt = int(os.environ['TRAINYARD_ATTEMPT'])
records = os.open(os.environ['TRAINYARD_RECORDS'], os.O_WRONLY | os.O_APPEND)
def tell(**record):
    os.write(records, json.dumps(record).encode() + b'\\n')
child = os.environ['TRAINYARD_RUN_ID'] + '-child'
tell(k='child', r=child, n='child of ' + name)
for i in range({LINES}):
    for j in range({POINTS_PER_LINE}):
        tell(k='metric', n='told', v=i * {POINTS_PER_LINE} + j, s=attempt, t=time.time_ns() // 1000)
    if i < {CHILD_POINTS}:
        tell(k='metric', n='told', r=child, v=i, s=attempt)
    if i == {CHILD_POINTS}:
        tell(k='end', r=child, v='Completed')
    print(name, i, 'x' * 200, flush=True)
    time.sleep(pause)
open('logs/own.txt', 'w').write(name * 20)
open('outputs/result', 'w').write(name)
"""


def without_times(points):
    """Points as they must come again: one that tells no time has that of its arrival."""
    return [(point["number"], point["step"], point["value"]) for point in points]


def expected_console(name):
    return "".join(f"{name} {i} {'x' * 200}\n" for i in range(LINES))


class Torture(YardTest):
    def runTest(self):
        self.chance = random.Random(self.seed)
        self.write("work.py", SCRIPT)
        self.names = {}      # run -> its name
        self.attacked = set()  # runs whose supervisor was killed
        self.seen = {}       # run -> bytes of console a reader saw
        self.points_seen = {}  # run -> points a reader saw
        self.kills_of = {"server": 0, "supervisor": 0, "both": 0}
        self.power_failures = self.files_cut = 0
        self.prepare_power_failures()
        end = time.monotonic() + self.seconds if self.seconds else None
        while time.monotonic() < end if end else sum(self.kills_of.values()) < self.kills:
            self.keep_busy()
            time.sleep(self.chance.uniform(0, 0.12))
            roll = self.chance.random()
            victim = "both" if roll < 1 / 3 else "server" if roll < 0.7 else "supervisor"
            if victim == "supervisor":
                hit = self.attack_supervisor()
            else:
                hit = self.attack_server(victim == "both")
            self.kills_of[victim] += 1 if hit else 0
            if self.chance.random() < 0.3:
                self.read_something()
        self.settle()
        self.judge()
        print(f"{len(self.names)} runs; kills: {self.kills_of}; {self.power_failures} power failures that cut "
              f"{self.files_cut} files: 0 hung, 0 lost, 0 doubled, consoles and outputs exact (seed {self.seed})")

    def prepare_power_failures(self):
        """The server is started with a library that writes down what is synced."""
        compiler = shutil.which("cc") or shutil.which("gcc")
        if self.power == 0 or compiler is None:
            self.power = 0
            return
        library = self.scratch / "synced.so"
        source = pathlib.Path(__file__).resolve().parent / "support" / "synced.c"
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
        self.notes = self.scratch / "synced"
        self.notes.mkdir()
        self.env.update(LD_PRELOAD=str(library), SYNCED_NOTES=str(self.notes))

    def fail_power(self):
        """What was not synced is gone, all of it or a part."""
        log = self.home / "trainyard.db-wal"
        # Where outputs switch is not cut: of bytes that were not synced it may be wrong afterwards.
        files = [file for file in (self.home / "runs").rglob("*")
                 if file.is_file() and file.suffix not in (".idx", ".seams")]
        self.power_failures += 1
        for file in [log, *files]:
            with contextlib.suppress(FileNotFoundError):
                self.files_cut += self.cut(file, file == log)

    def cut(self, file, is_log):
        status = file.stat()
        note = self.notes / f"{status.st_dev}-{status.st_ino}"
        synced, salt = note.read_text().split() if note.exists() else ("0", "")
        synced = int(synced)
        if is_log:
            with open(file, "rb") as opened:
                opened.seek(16)
                if opened.read(8).hex() != salt:
                    return 0  # Begun anew: nobody knows how much of it is synced.
        if synced >= status.st_size:
            return 0
        # A log without the rest of its last commit is a log without that commit.
        os.truncate(file, self.chance.choice([synced, self.chance.randint(synced, status.st_size)]))
        return 1

    def live(self):
        return [r for r in self.json("run", "list") if r["status"] not in FINAL]

    def keep_busy(self):
        for _ in range(6 - len(self.live())):
            name = f"n{len(self.names)}-{self.chance.randrange(10**6)}"
            retries = ["--max-retries", "2"] if self.chance.random() < 0.3 else []
            # Some outlast an outage and tell samples in it.
            pause = 0.01 if self.chance.random() < 0.7 else self.chance.uniform(0.01, max(self.away, 0.4) / 40)
            done = self.run_cli("submit", "--async", "-e", "torture", *retries, "--", "python3", "work.py", name,
                                pause)
            # A submission that was refused was not acknowledged; one that was is ours to keep.
            if done.code == 0:
                self.names[done.out.strip()] = name
            else:
                self.assertIn("error:", done.err)

    def attack_server(self, both):
        with contextlib.suppress(AssertionError, OSError):
            pid = self.server_pid()
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda: not alive(pid), "the server to be dead")
            if self.chance.random() * 100 < self.power:
                self.fail_power()
            away = self.chance.uniform(0, self.away)
            moment = self.chance.choice([0, self.chance.uniform(0, away)])
            time.sleep(moment)
            hit = self.attack_supervisor() if both else True
            time.sleep(away - moment)  # Nothing starts the server meanwhile: that is the fault.
            return hit
        return False

    def attack_supervisor(self):
        folders = list((self.home / "node").glob("*.*"))
        self.chance.shuffle(folders)
        for folder in folders:
            with contextlib.suppress(OSError):
                pid = lock_owner(folder / "lock")
                if pid is not None and alive(pid):
                    self.attacked.add(folder.name.rsplit(".", 1)[0])
                    os.kill(pid, signal.SIGKILL)
                    return True
        return False

    def read_something(self):
        run = self.chance.choice(list(self.names))
        done = self.run_cli("run", "logs", run)
        if done.code == 0:
            before = self.seen.get(run, "")
            # After a power failure they come again.
            again = self.power and before.startswith(done.out)
            self.assertTrue(done.out.startswith(before) or again, f"{run}: bytes that were read are gone")
            self.seen[run] = max(before, done.out, key=len)
        with contextlib.suppress(OSError, IndexError, ValueError):  # The server may not be there.
            points = self.points(run)
            before = self.points_seen.get(run, [])
            again = self.power and without_times(before)[:len(points)] == without_times(points)
            self.assertTrue(without_times(points)[:len(before)] == without_times(before) or again,
                            f"{run}: points that were read are gone")
            self.points_seen[run] = max(before, points, key=len)

    def settle(self):
        wait_until(lambda: not self.live(), "every run to end", 120 + 2 * self.away)

    def judge(self):
        listed = self.json("run", "list")
        ids = [r["id"] for r in listed]
        self.assertEqual(len(ids), len(set(ids)))
        self.assertEqual(set(self.names) - set(ids), set(), "acknowledged and lost")
        for run in listed:
            if run["id"] not in self.names:
                continue  # Accepted, but the answer was lost with the server: allowed, never twice.
            self.judge_run(run, self.names[run["id"]])
        done = self.run_cli("server", "check")
        self.assertEqual(done.code, 0, done)
        wait_until(lambda: not processes_with("work.py"), "no rank to be left", 10)

    def judge_run(self, run, name):
        id, whole = run["id"], expected_console(name)
        completed, alone = run["status"] == "Completed", id not in self.attacked
        console = self.console(id)
        self.assertTrue(console.startswith(self.seen.get(id, "")), id)
        parts = [self.ok("run", "logs", id, "--attempt", a["number"]) for a in self.show(id)["attempts"]]
        for part in parts:
            self.assertTrue(whole.startswith(part), (id, part[-500:]))
        told = self.judge_points(id, completed, alone)
        for number, part in enumerate(parts, 1):
            # A line of the console came after the points before it: whoever kept it has kept them.
            kept = part.count("\n") * POINTS_PER_LINE
            self.assertGreaterEqual(told.get(number, 0), kept, f"{id}.{number}: points were lost")
        if alone:
            self.assertEqual((run["status"], console), ("Completed", whole), run)
        if not completed:
            self.assertEqual(run["status"], "Failed", run)
            self.assertTrue(run["reason"], run)
            return
        self.assertEqual(parts[-1], whole, (id, len(parts[-1]), len(whole)))
        self.ok("run", "download", id, "-d", self.scratch / "got" / id)
        found = [p.read_text() for p in (self.scratch / "got" / id).rglob("result")]
        self.assertEqual(found, [name])
        status, own = self.http("GET", f"/api/v1/runs/{id}/files/logs/own.txt")
        self.assertEqual((status, own.decode()), (200, name * 20), id)

    def judge_points(self, run, completed, alone):
        points = self.points(run)
        before = without_times(self.points_seen.get(run, []))
        self.assertEqual(without_times(points)[:len(before)], before, f"{run}: points that were read are gone")
        told = self.by_attempt(run, points, POINTS)
        if completed:
            self.assertEqual(told[max(told)], POINTS, (run, told))
        if alone:
            self.assertEqual(told, {1: POINTS}, run)
        child = run + "-child"
        status, body = self.http("GET", f"/api/v1/runs/{child}")
        if status == 404:  # Nothing that the script told was taken.
            self.assertEqual(points, [], f"{run} has points and no child")
            return told
        self.assertIn(json.loads(body)["status"], FINAL, f"{child} outlives its parent")
        of_child = self.by_attempt(child, self.points(child), CHILD_POINTS)
        if alone:
            self.assertEqual((json.loads(body)["status"], of_child), ("Completed", {1: CHILD_POINTS}), child)
        return told

    def by_attempt(self, run, points, most):
        """How many points each attempt told: 0, 1, 2 … of each, one attempt after the other."""
        told = {}
        for point in points:
            attempt = point["step"]
            self.assertGreaterEqual(attempt, max(told, default=1), f"{run}: attempts mix")
            self.assertEqual(point["value"], told.get(attempt, 0), f"{run}: a point is missing or there twice")
            told[attempt] = point["value"] + 1
        self.assertLessEqual(max(told.values(), default=0), most, run)
        return told

    def points(self, run):
        """What the run told, in pages."""
        points, after = [], 0
        while after is not None:
            status, body = self.http("GET", f"/api/v1/runs/{run}/series?name=told&limit=77&from={after}")
            if status == 404:
                return []
            page = json.loads(body)
            points += page["points"]
            after = page["next"]
        self.assertEqual([point["number"] for point in points], list(range(len(points))), run)
        return points


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=0, help="for so long, and not for a number of kills")
    parser.add_argument("--away", type=float, default=0, help="seconds that the server is away at most")
    parser.add_argument("--power", type=float, default=0, help="percent of the server's kills that lose its disk's cache")
    parser.add_argument("--seed", type=int, default=random.randrange(10**9))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    Torture.kills, Torture.seed = options.kills, options.seed
    Torture.seconds, Torture.away, Torture.power = options.seconds, options.away, options.power
    import unittest
    result = unittest.TextTestRunner().run(Torture())
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
