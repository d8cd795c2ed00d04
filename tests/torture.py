#!/usr/bin/env python3
"""Kills the server and supervisors at random moments of real runs, and shows that nothing that was
acknowledged is lost.

    torture.py [--kills N] [--seed S]

What must hold at the end: every submission that was answered is there, once, and has ended; a run whose
supervisor was left alone is Completed with every byte of its console and its outputs; one whose
supervisor was killed has a reason, and its console is a beginning of what it wrote; bytes that any
reader ever saw are still there; no process is left; `server check` finds nothing.
"""
import argparse
import contextlib
import os
import pathlib
import random
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
from yard import FINAL, YardTest, alive, lock_owner, processes_with, wait_until

SCRIPT = ("import sys, time\n"
          "name = sys.argv[1]\n"
          "for i in range(40):\n"
          "    print(name, i, 'x' * 200, flush=True)\n"
          "    time.sleep(0.01)\n"
          "open('outputs/result', 'w').write(name)\n")


def expected_console(name):
    return "".join(f"{name} {i} {'x' * 200}\n" for i in range(40))


class Torture(YardTest):
    def runTest(self):
        self.chance = random.Random(self.seed)
        self.write("work.py", SCRIPT)
        self.names = {}      # run -> its name
        self.attacked = set()  # runs whose supervisor was killed
        self.seen = {}       # run -> bytes of console a reader saw
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
            done = self.run_cli("submit", "--async", "-e", "torture", "--", "python3", "work.py", name)
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
            name = self.names[run["id"]]
            console = self.console(run["id"])
            self.assertTrue(console.startswith(self.seen.get(run["id"], "")), run["id"])
            whole = expected_console(name)
            if run["id"] in self.attacked and run["status"] == "Failed":
                self.assertTrue(run["reason"], run)
                without_seams = "".join(l for l in console.splitlines(True) if not l.startswith("--- attempt"))
                self.assertTrue(whole.startswith(without_seams) or without_seams.endswith(whole), console[-500:])
                continue
            self.assertEqual(run["status"], "Completed", (run, name))
            without_seams = "".join(l for l in console.splitlines(True) if not l.startswith("--- attempt"))
            self.assertTrue(without_seams.endswith(whole), (run["id"], len(console), len(whole)))
            if run["id"] not in self.attacked:
                self.assertEqual(console, whole)
            self.ok("run", "download", run["id"], "-d", self.scratch / "got" / run["id"])
            found = [p.read_text() for p in (self.scratch / "got" / run["id"]).rglob("result")]
            self.assertEqual(found, [name])
        done = self.run_cli("server", "check")
        self.assertEqual(done.code, 0, done)
        wait_until(lambda: not processes_with("work.py"), "no rank to be left", 10)


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
