#!/usr/bin/env python3
"""Containers: what it costs to run `true` in one, by docker and by bubblewrap, against `docker run` of
the same image. Part of bench.py's table; alone it prints its rows.

The engine is one of its own (tests/support/engines.py); where none can run the rows are left out.
"""
import os
import pathlib
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))
import engines

BUILD = ROOT / "build" / "release"
TRAINYARD = str(BUILD / "trainyard")
WORDS = str(BUILD / "bench_container")
REPEAT = 25


def timed(command, env=None):
    began = time.perf_counter()
    subprocess.run(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


def words(*asked):
    """How a runtime starts it."""
    done = subprocess.run([WORDS, *map(str, asked), "true"], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.splitlines()


def containers(scratch):
    """(figure, ours, baseline, ratio, bar, met) for each row."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="containers-", dir=scratch))
    engine = engines.Docker()
    try:
        engine.up()
        engine.add_busybox("tiny")
        root = folder / "root"
        with tarfile.open(engine.folder / "busybox.tar") as tar:
            tar.extractall(root)
        docker_run = [*engine.client(), "run", "--rm", "--network=host", "tiny", "true"]
        ways = {"docker": words("docker", TRAINYARD, engine.socket, "tiny", folder / "plan"),
                "bubblewrap": words("bubblewrap", TRAINYARD, root, folder / "carried")}
        # By turns, so that what else the machine does is the same for all.
        took = {"docker": [], "bubblewrap": [], "base": []}
        for _ in range(REPEAT):
            took["base"].append(timed(docker_run, engine.env))
            for name, command in ways.items():
                took[name].append(timed(command))
        median = {name: statistics.median(times) for name, times in took.items()}
        for name, bar in (("docker", 1.3), ("bubblewrap", 0.3)):
            ratio = median[name] / median["base"]
            yield (f"container `true`: {name}", f"{median[name] * 1000:.0f} ms",
                   f"docker run {median['base'] * 1000:.0f} ms", ratio, f"<= {bar}x", ratio <= bar)
    except unittest.SkipTest as skipped:
        print(f"no containers are measured: {skipped}", file=sys.stderr)
    finally:
        engine.down()


if __name__ == "__main__":
    os.chdir("/")
    with tempfile.TemporaryDirectory() as place:
        for row in containers(place):
            print(*row, sep="  ")
