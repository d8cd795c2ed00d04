#!/usr/bin/env python3
"""Nodes from nothing: a run of four nodes on a real Slurm whose nodes are off (tests/support/slurm_lab.py), brought up
by a program that takes its time, and taken down again. Part of bench.py's table; alone it prints its rows.

The baseline is what the programs take, first to last, and the idle time: what is above them is ours and Slurm's.
"""
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))
from slurm_lab import SlurmLab  # noqa: E402

TRAINYARD = str(ROOT / "build" / "release" / "trainyard")
NODES = 4
BOOT_S = 3
IDLE_S = 3
TIMES = 5
LIMIT_S = 120
UP_BAR_S = 2
DOWN_BAR_S = 5


def boot_time():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Yard:
    """A lab whose nodes are off, and a server with a compute that brings them up."""

    def __init__(self, scratch):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="scale-", dir=scratch))
        self.lab = SlurmLab(nodes=NODES, started=[])
        self.server = None

    def __enter__(self):
        try:
            self.lab.up()
            self.lab.needs_isolation()
            up, down = self.lab.node_programs()
            self.lab.boot_s = BOOT_S
            self.code = self.path / "code"
            self.code.mkdir()
            self.env = dict(os.environ, **self.lab.env, TRAINYARD_HOME=str(self.path / "home"))
            self.env.pop("TRAINYARD_SERVER", None)
            self.server = subprocess.Popen([TRAINYARD, "server", "run", "--listen", f"{self.lab.address}:0",
                                            "--insecure"], env=self.env, cwd=self.code, stdout=subprocess.DEVNULL,
                                           stderr=subprocess.DEVNULL)
            self.wait_for(lambda: self.run("server", "status", check=False).returncode == 0)
            timed = self.path / "node-up"
            timed.write_text(f'#!/bin/sh\nread begun rest < /proc/uptime\n{up} "$1" || exit\n'
                             f'read ended rest < /proc/uptime\necho $begun $ended >> {self.path}/spans\n')
            timed.chmod(0o755)
            self.run("compute", "create", "-n", "lab", "--engine", "slurm", "--max-nodes", NODES, "--node-up", timed,
                     "--node-down", down, "--idle-seconds-before-scaledown", IDLE_S)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.server:
            self.server.send_signal(signal.SIGTERM)
            self.server.wait(20)
        self.lab.down()
        shutil.rmtree(self.path, ignore_errors=True)

    def run(self, *args, check=True):
        done = subprocess.run([TRAINYARD, *map(str, args)], env=self.env, cwd=self.code, text=True, capture_output=True,
                              stdin=subprocess.DEVNULL)
        if check and done.returncode != 0:
            raise RuntimeError(f"trainyard {' '.join(map(str, args))}: {done.stderr}")
        return done

    def wait_for(self, condition):
        limit = time.monotonic() + LIMIT_S
        while not condition():
            if time.monotonic() > limit:
                raise RuntimeError(f"waited too long\n{self.lab.logs()}")
            time.sleep(0.02)

    def once(self):
        """-> seconds from the command to the run's first line on its last node, of the programs, and from its end to
        no node."""
        spans = self.path / "spans"
        spans.unlink(missing_ok=True)
        start = boot_time()
        # The kernel's clock since boot is one for all nodes of this machine.
        out = self.run("submit", "-e", "bench", "--target", "lab", "--nodes", NODES, "--", "sh", "-c",
                       "read up rest < /proc/uptime; echo $up").stdout
        ended = time.monotonic()
        first = max(float(line.split()[-1]) for line in out.splitlines())
        self.wait_for(lambda: not self.lab.processes)
        down = time.monotonic() - ended
        times = [[float(word) for word in line.split()] for line in spans.read_text().splitlines()]
        programs = max(end for _, end in times) - min(begun for begun, _ in times)
        return first - start, programs, down


def scale(scratch):
    if not os.path.exists(TRAINYARD):
        raise RuntimeError("build/release/trainyard is missing: make build")
    try:
        with Yard(scratch) as yard:
            spans = [yard.once() for _ in range(TIMES)]
    except unittest.SkipTest as skipped:
        yield "0 to 4 nodes to first line", "-", str(skipped), None, f"<= T + {UP_BAR_S} s", True
        return
    up, programs, down = (statistics.median(part) for part in zip(*spans))
    over = statistics.median(up - programs for up, programs, _ in spans)
    yield (f"0 to {NODES} nodes to first line", f"{up:.2f} s", f"node programs T = {programs:.2f} s", up / programs,
           f"<= T + {UP_BAR_S} s", over <= UP_BAR_S)
    yield (f"  {NODES} nodes back to 0", f"{down:.2f} s", f"idle time {IDLE_S} s", down / IDLE_S,
           f"<= idle + {DOWN_BAR_S} s", down <= IDLE_S + DOWN_BAR_S)


def main():
    scratch = tempfile.mkdtemp(prefix="trainyard-bench-")
    missed = 0
    try:
        for figure, ours, base, ratio, bar, met in scale(scratch):
            shown = "-" if ratio is None else f"{ratio:.2f}x"
            print(f"{figure:<44} {ours:>20}  {base:<32} {shown:>7}  {bar:<12} {'' if met else 'MISSED'}")
            missed += not met
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
