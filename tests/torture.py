#!/usr/bin/env python3
"""Kills the server and supervisors at random moments of real runs, and shows that nothing that was
acknowledged is lost.

    torture.py [--kills N] [--seed S]

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
import signal
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
name = sys.argv[1]
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
    time.sleep(0.01)
open('outputs/result', 'w').write(name)
"""


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
        kills = {"server": 0, "supervisor": 0}
        while sum(kills.values()) < self.kills:
            self.keep_busy()
            time.sleep(self.chance.uniform(0, 0.12))
            victim = "server" if self.chance.random() < 0.6 else "supervisor"
            if victim == "server" and self.attack_server():
                kills["server"] += 1
            elif victim == "supervisor" and self.attack_supervisor():
                kills["supervisor"] += 1
            if self.chance.random() < 0.3:
                self.read_something()
        self.settle()
        self.judge()
        print(f"{len(self.names)} runs, {kills['server']} kills of the server, {kills['supervisor']} of "
              f"supervisors: nothing acknowledged was lost (seed {self.seed})")

    def live(self):
        return [r for r in self.json("run", "list") if r["status"] not in FINAL]

    def keep_busy(self):
        for _ in range(6 - len(self.live())):
            name = f"n{len(self.names)}-{self.chance.randrange(10**6)}"
            retries = ["--max-retries", "2"] if self.chance.random() < 0.3 else []
            done = self.run_cli("submit", "--async", "-e", "torture", *retries, "--", "python3", "work.py", name)
            # A submission that was refused was not acknowledged; one that was is ours to keep.
            if done.code == 0:
                self.names[done.out.strip()] = name
            else:
                self.assertIn("error:", done.err)

    def attack_server(self):
        with contextlib.suppress(AssertionError, OSError):
            os.kill(self.server_pid(), signal.SIGKILL)
            return True
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
            self.assertTrue(done.out.startswith(before), f"{run}: bytes that were read are gone")
            self.seen[run] = done.out
        with contextlib.suppress(OSError, IndexError, ValueError):  # The server may not be there.
            points = self.points(run)
            before = self.points_seen.get(run, [])
            self.assertEqual(points[:len(before)], before, f"{run}: points that were read are gone")
            self.points_seen[run] = points

    def settle(self):
        wait_until(lambda: not self.live(), "every run to end", 120)

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

    def judge_points(self, run, completed, alone):
        points = self.points(run)
        before = self.points_seen.get(run, [])
        self.assertEqual(points[:len(before)], before, f"{run}: points that were read are gone")
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
    parser.add_argument("--seed", type=int, default=random.randrange(10**9))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    Torture.kills, Torture.seed = options.kills, options.seed
    import unittest
    result = unittest.TextTestRunner().run(Torture())
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
