#!/usr/bin/env python3
"""Environments: building one of 25 packages, against uv by itself and against pip; hashing a recipe,
and deciding that what it makes is there. Part of bench.py's table; alone it prints its rows.

uv is taken from PATH, or installed by pip. Wheels are fetched once and served to all by a local index
that gives hashes and metadata as PyPI does. Builds are made in memory where there is room, since a disk
writes what one has made while the next is measured; and by turns.
Where the wheels cannot be had the rows that need them are left out.
"""
import contextlib
import hashlib
import http.server
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import zipfile

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


def answers_of(wheels):
    """What an index of a folder of wheels answers, by path."""
    answers, pages = {}, {}
    for path in sorted(wheels.iterdir()):
        wheel = path.read_bytes()
        with zipfile.ZipFile(path) as file:
            about = next(name for name in file.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", name))
            metadata = file.read(about)
        answers[f"/files/{path.name}"] = wheel
        answers[f"/files/{path.name}.metadata"] = metadata
        name = re.sub("[-_.]+", "-", path.name.split("-")[0]).lower()
        pages.setdefault(name, []).append(
            f'<a href="/files/{path.name}#sha256={hashlib.sha256(wheel).hexdigest()}" '
            f'data-core-metadata="sha256={hashlib.sha256(metadata).hexdigest()}">{path.name}</a>\n')
    answers.update((f"/simple/{name}/", "".join(lines).encode()) for name, lines in pages.items())
    return answers


@contextlib.contextmanager
def index_of(wheels):
    """The URL of an index that lasts as long as the block."""
    answers = answers_of(wheels)

    class Answer(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1

        def do_GET(self):
            body = answers.get(self.path)
            self.send_response(404 if body is None else 200)
            is_page = self.path.startswith("/simple/")
            self.send_header("Content-Type", "text/html" if is_page else "application/octet-stream")
            self.send_header("Cache-Control", "max-age=600")
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/simple"
        server.shutdown()


def roomy(scratch):
    """In memory, where there is enough."""
    memory = pathlib.Path("/dev/shm")
    return memory if memory.is_dir() and shutil.disk_usage(memory).free > ROOM else scratch


class Builds:
    """Each in a new folder, by one of three ways, with a cache of its own that is warm or new."""

    def __init__(self, folder, file, uv, index):
        self.folder, self.file, self.uv, self.count = folder, file, uv, 0
        path = f"{pathlib.Path(uv).parent}:{pathlib.Path(PYTHON).parent}:{os.environ['PATH']}"
        self.env = {name: value for name, value in os.environ.items() if not name.startswith(("UV_", "PIP_"))}
        self.env.update(PATH=path, UV_INDEX_URL=index, PIP_INDEX_URL=index, PIP_DISABLE_PIP_VERSION_CHECK="1")

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
    uv, wheels = tools
    with index_of(wheels) as index:
        yield from measured(Builds(folder, file, uv, index), folder)


def measured(builds, folder):
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
    builds.by_pip(folder / "pips")
    base = builds.by_pip(folder / "pips")
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
