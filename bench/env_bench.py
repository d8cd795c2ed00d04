#!/usr/bin/env python3
"""Environments: building one of 25 packages, against uv by itself and against pip; hashing a recipe,
and deciding that what it makes is there. Part of bench.py's table; alone it prints its rows.

uv is taken from PATH, or installed by pip. Wheels are fetched once and are a local index for all: a
network's minutes are nobody's merit. Builds are made in memory where there is room, since a disk
writes what one has made while the next is measured; and by turns.
Where the wheels cannot be had the rows that need them are left out.
"""
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

BENCH = str(pathlib.Path(__file__).resolve().parent.parent / "build" / "release" / "bench_env")
PYTHON = "/usr/bin/python3"
ROUNDS = 9
SANDBOX = 0.2  # Seconds that it may add to a build with every wheel cached.
ROOM = 6 << 30  # What two builds, their caches and the wheels take, with some to spare.

PACKAGES = """numpy pandas scipy scikit-learn matplotlib requests tqdm pyyaml click flask pillow joblib
    python-dateutil pytz six packaging psutil rich pydantic attrs networkx sympy tabulate sqlalchemy
    cloudpickle""".split()


def timed(command, env):
    began = time.perf_counter()
    done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.stderr[-2000:]}")
    return time.perf_counter() - began


def said(*words, env=None):
    done = subprocess.run([BENCH, *map(str, words)], env=env, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"bench_env {words[0]}: {done.stderr[-2000:]}")
    return float(done.stdout)


def find_tools(folder, file):
    """uv's path and the folder of all wheels, or None."""
    tools, wheels = folder / "tools", folder / "wheels"
    uv = shutil.which("uv")
    fetch = (f"{PYTHON} -m venv {tools} && {tools}/bin/pip install -q {'pip' if uv else 'uv'} && "
             f"{tools}/bin/pip download -q --only-binary=:all: -d {wheels} -r {file}")
    done = subprocess.run(fetch, shell=True, capture_output=True, text=True)
    if done.returncode != 0:
        print(f"no builds are measured: {done.stderr[-2000:]}", file=sys.stderr)
        return None
    return uv or str(tools / "bin" / "uv"), wheels


def roomy(scratch):
    """In memory, where there is enough."""
    memory = pathlib.Path("/dev/shm")
    return memory if memory.is_dir() and shutil.disk_usage(memory).free > ROOM else scratch


class Builds:
    """Each in a new folder, by one of three ways, with a cache of its own that is warm or new."""

    def __init__(self, folder, file, uv, wheels):
        self.folder, self.file, self.uv, self.count = folder, file, uv, 0
        path = f"{pathlib.Path(uv).parent}:{pathlib.Path(PYTHON).parent}:{os.environ['PATH']}"
        self.env = {name: value for name, value in os.environ.items() if not name.startswith(("UV_", "PIP_"))}
        self.env.update(PATH=path, UV_NO_INDEX="1", UV_FIND_LINKS=str(wheels), PIP_NO_INDEX="1",
                        PIP_FIND_LINKS=str(wheels), PIP_DISABLE_PIP_VERSION_CHECK="1")

    def new(self, name):
        self.count += 1
        return self.folder / f"{name}-{self.count}"

    def ours(self, cache, word="build"):
        shelf = self.new("shelf")
        took = said(word, shelf, cache, self.file, env=self.env)
        shutil.rmtree(shelf)
        return took

    def without_sandbox(self, cache):
        return self.ours(cache, "build-plain")

    def by_uv(self, cache):
        root, env = self.new("uv"), dict(self.env, UV_CACHE_DIR=str(cache))
        took = timed([self.uv, "venv", "--relocatable", "--python", PYTHON, root], env)
        took += timed([self.uv, "pip", "install", "--python", root / "bin" / "python", "-r", self.file], env)
        shutil.rmtree(root)
        return took

    def by_pip(self, cache):
        root, env = self.new("pip"), dict(self.env, PIP_CACHE_DIR=str(cache))
        timed([PYTHON, "-m", "venv", root], env)
        took = timed([root / "bin" / "pip", "install", "-q", "-r", self.file], env)
        shutil.rmtree(root)
        return took


def cold(way, builds):
    cache = builds.new("cache")
    took = way(cache)
    shutil.rmtree(cache)
    return took


def environments(scratch):
    """(figure, ours, baseline, ratio, bar, met) for each row."""
    with tempfile.TemporaryDirectory(prefix="environments-", dir=roomy(scratch)) as place:
        yield from decisions(pathlib.Path(place))
        yield from builds_in(pathlib.Path(place))


def decisions(folder):
    took = said("hash")
    yield ("environment: hash of 1,000 lines", f"{took:.2f} ms", "-", None, "<= 5 ms", took <= 5)
    env = dict(os.environ, PATH=f"{pathlib.Path(PYTHON).parent}:{os.environ['PATH']}")
    took = said("find", folder / "shelf", folder / "cache", env=env)
    yield ("environment: deciding that it is there", f"{took:.2f} ms", "-", None, "<= 2 ms", took <= 2)


def builds_in(folder):
    file = folder / "requirements.txt"
    file.write_text("\n".join(PACKAGES) + "\n")
    tools = find_tools(folder, file)
    if tools is None:
        return
    builds = Builds(folder, file, *tools)
    ways = [builds.ours, builds.by_uv]
    times = {way: [] for way in ways}
    for _ in range(ROUNDS):
        for way in ways:
            times[way].append(cold(way, builds))
        ways.reverse()
    # Wall time, of a quiet machine: CPU time of processes in the sandbox does not reach their parent's.
    ours, base = (min(times[way]) for way in (builds.ours, builds.by_uv))
    yield (f"environment: first build, {len(PACKAGES)} packages", f"{ours:.2f} s", f"uv {base:.2f} s", ours / base,
           "<= 1.1x", ours / base <= 1.1)
    warm = folder / "warm"
    builds.ours(warm)
    ours = statistics.median(builds.ours(warm) for _ in range(ROUNDS))
    base = builds.by_pip(folder / "pips")  # Of wheels that are here it fetches and keeps nothing.
    pairs = [(builds.ours(warm), builds.without_sandbox(warm)) if turn % 2 else
             (builds.without_sandbox(warm), builds.ours(warm))[::-1] for turn in range(ROUNDS)]
    added = statistics.median(inside - outside for inside, outside in pairs)
    yield ("  what the sandbox adds, median of pairs", f"{added:.2f} s", f"{min(outside for _, outside in pairs):.2f} s without",
           None, f"<= {SANDBOX} s", added <= SANDBOX)
    yield ("  every wheel cached", f"{ours:.2f} s", f"pip {base:.2f} s", ours / base, "<= 0.2x",
           ours / base <= 0.2)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        for row in environments(place):
            print(*row, sep="  ")
