#!/usr/bin/env python3
"""Environments: building one of 25 packages, against uv by itself and against pip; hashing a recipe,
and deciding that what it makes is there. Part of bench.py's table; alone it prints its rows.

uv is taken from PATH, or installed by pip; where it cannot be had the rows that need it are left out.
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
REPEAT = 5  # Builds fetch 100 MB each when nothing is cached.

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


def find_uv(folder):
    """Its path, or None."""
    found = shutil.which("uv")
    if found:
        return found
    tools = folder / "tools"
    done = subprocess.run(f"{PYTHON} -m venv {tools} && {tools}/bin/pip install -q uv", shell=True,
                          capture_output=True, text=True)
    return str(tools / "bin" / "uv") if done.returncode == 0 else None


class Builds:
    """Each in a new folder, by one of three ways, with a cache of its own that is warm or new."""

    def __init__(self, folder, uv):
        self.folder, self.uv, self.count = folder, uv, 0
        self.file = folder / "requirements.txt"
        self.file.write_text("\n".join(PACKAGES) + "\n")
        path = f"{pathlib.Path(uv).parent}:{pathlib.Path(PYTHON).parent}:{os.environ['PATH']}"
        self.env = dict(os.environ, PATH=path)
        self.env.pop("UV_CACHE_DIR", None)

    def new(self, name):
        self.count += 1
        return self.folder / f"{name}-{self.count}"

    def ours(self, cache):
        shelf = self.new("shelf")
        took = said("build", shelf, cache, self.file, env=self.env)
        shutil.rmtree(shelf)
        return took

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
    folder = pathlib.Path(tempfile.mkdtemp(prefix="environments-", dir=scratch))
    took = said("hash")
    yield ("environment: hash of 1,000 lines", f"{took:.2f} ms", "-", None, "<= 5 ms", took <= 5)
    env = dict(os.environ, PATH=f"{pathlib.Path(PYTHON).parent}:{os.environ['PATH']}")
    took = said("find", folder / "shelf", folder / "cache", env=env)
    yield ("environment: deciding that it is there", f"{took:.2f} ms", "-", None, "<= 2 ms", took <= 2)
    uv = find_uv(folder)
    if uv is None:
        print("uv is not here and cannot be installed: no builds are measured", file=sys.stderr)
        return
    builds = Builds(folder, uv)
    try:
        builds.by_uv(folder / "first")  # The index's own caches, and whether it is reached at all.
    except RuntimeError as error:
        print(f"no builds are measured: {error}", file=sys.stderr)
        return
    ways = [builds.ours, builds.by_uv]
    times = {way: [] for way in ways}
    for _ in range(REPEAT):  # In turns, so that a slow minute of the network is nobody's.
        for way in ways:
            times[way].append(cold(way, builds))
        ways.reverse()
    ours, base = min(times[builds.ours]), min(times[builds.by_uv])
    yield (f"environment: first build, {len(PACKAGES)} packages", f"{ours:.2f} s", f"uv {base:.2f} s", ours / base,
           "<= 1.1x", ours / base <= 1.1)
    warm, pips = folder / "warm", folder / "pips"
    builds.ours(warm)
    builds.by_pip(pips)
    ours = statistics.median(builds.ours(warm) for _ in range(REPEAT))
    base = builds.by_pip(pips)
    yield ("  every wheel cached", f"{ours:.2f} s", f"pip {base:.2f} s", ours / base, "<= 0.2x",
           ours / base <= 0.2)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        for row in environments(place):
            print(*row, sep="  ")
