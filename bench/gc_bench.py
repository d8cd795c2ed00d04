#!/usr/bin/env python3
"""Garbage collection beside writers: `server gc` on a home of many blobs, half of them garbage, while eight clients
upload. Part of bench.py's table; alone: gc_bench.py [--blobs N] [--scratch DIR]. tests/e2e/gc.py runs a small one.

Checked at the end: every blob that a run refers to, that a writer has sent, or of which a client was told that it is
there, is there with its bytes' name; all other garbage is gone.
"""
import argparse
import hashlib
import http.client
import json
import os
import pathlib
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TRAINYARD = os.environ.get("TRAINYARD", str(ROOT / "build" / "release" / "trainyard"))
WRITERS = 8
BAR = 0.8
FILES_PER_TREE = 20_000
PACK_BLOBS = 16
BLOB_BYTES = 4096
OLD_S = 2 * 24 * 3600


class Connection(http.client.HTTPConnection):
    """HTTP over the home's Unix socket."""

    def __init__(self, path):
        super().__init__("localhost", timeout=120)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)

    def ask(self, method, url, body=b""):
        payload = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.request(method, "/api/v1" + url, payload)
        answer = self.getresponse()
        text = answer.read()
        if answer.status // 100 != 2:
            raise RuntimeError(f"{method} {url}: {answer.status} {text[:200]}")
        return json.loads(text)


def digest_of(data):
    return hashlib.sha256(data).hexdigest()


def path_of(home, digest):
    return home / "blobs" / digest[:2] / digest[2:]


def put_file(home, data, old):
    """A blob as the server would have left it, written two days ago."""
    digest = digest_of(data)
    path = path_of(home, digest)
    path.write_bytes(data)
    os.utime(path, (old, old))
    return digest


def fill(home, blobs):
    """Half of `blobs` in trees that runs name, half garbage. The server runs."""
    for i in range(256):
        (home / "blobs" / f"{i:02x}").mkdir(parents=True, exist_ok=True)
    old = time.time() - OLD_S
    seed = os.urandom(8).hex()
    connection = Connection(home / "socket")
    used = []
    for begin in range(0, blobs // 2, FILES_PER_TREE):
        lines, files = ["trainyard-tree 1\n"], []
        for i in range(begin, min(begin + FILES_PER_TREE, blobs // 2)):
            data = f"used {seed} {i}".encode()
            files.append(put_file(home, data, old))
            lines.append(f"file\t{files[-1]}\t{len(data)}\t{i:09}\n")
        tree = put_file(home, "".join(lines).encode(), old)
        used += [*files, tree]
        connection.ask("POST", "/runs", {"id": f"gc-{seed}-{begin}", "spec": {
            "workspace": "default", "experiment": "gc", "interactive": True, "snapshot": tree}})
        for digest in (*files, tree):  # The submission has asked for them.
            os.utime(path_of(home, digest), (old, old))
    connection.close()
    garbage = [put_file(home, f"garbage {seed} {i}".encode(), old) for i in range(blobs - len(used))]
    return used, garbage


class Writer(threading.Thread):
    """Uploads packs of new blobs, and asks now and then for some that are garbage."""

    def __init__(self, home, garbage, stop):
        super().__init__(daemon=True)
        self.connection = Connection(home / "socket")
        self.garbage, self.stop = garbage, stop
        self.sent, self.told, self.stamps, self.error = [], [], [], None

    def run(self):
        try:
            while not self.stop.is_set():
                pack = []
                for _ in range(PACK_BLOBS):
                    data = os.urandom(BLOB_BYTES)
                    digest = hashlib.sha256(data).digest()
                    pack += [digest, len(data).to_bytes(8, "little"), data]
                    self.sent.append(digest.hex())
                answer = self.connection.ask("POST", "/blobs", b"".join(pack))
                assert answer["kept"] == PACK_BLOBS and not answer["bad"], answer
                self.stamps.append(time.monotonic())
                if self.garbage and len(self.stamps) % 8 == 0:
                    asked = random.sample(self.garbage, 4)
                    missing = self.connection.ask("POST", "/blobs/missing", {"digests": asked})["missing"]
                    self.told += set(asked) - set(missing)
        except Exception as error:
            self.error = error
        finally:
            self.connection.close()


def rate(writers, begin, end):
    return sum(begin <= at < end for writer in writers for at in writer.stamps) * PACK_BLOBS / (end - begin)


def collect_beside_writers(home, env, blobs, quiet_s):
    """-> (rate before and after, rate beside the collection, its report, what was lost, what stayed)."""
    used, garbage = fill(home, blobs)
    stop = threading.Event()
    writers = [Writer(home, garbage, stop) for _ in range(WRITERS)]
    for writer in writers:
        writer.start()
    time.sleep(quiet_s)
    begin = time.monotonic()
    done = subprocess.run([TRAINYARD, "server", "gc", "-o", "json"], env=env, capture_output=True, text=True)
    end = time.monotonic()
    time.sleep(quiet_s)
    stop.set()
    for writer in writers:
        writer.join()
        if writer.error:
            raise writer.error
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    quiet = (rate(writers, begin - quiet_s, begin) + rate(writers, end, end + quiet_s)) / 2
    told = {digest for writer in writers for digest in writer.told}
    must = {*used, *told, *(digest for writer in writers for digest in writer.sent)}
    there = {folder + name for folder in os.listdir(home / "blobs") for name in os.listdir(home / "blobs" / folder)}
    return quiet, rate(writers, begin, end), json.loads(done.stdout), must - there, set(garbage) & there - told


def collection(scratch, blobs=None):
    """Rows of bench.py's table. As many blobs as the disk has room for, a million at most."""
    free = os.statvfs(scratch)
    room = min(free.f_favail // 2, free.f_bavail * free.f_frsize // (3 * 4096))
    blobs = blobs or min(int(os.environ.get("GC_BLOBS", 1_000_000)), room)
    path = pathlib.Path(tempfile.mkdtemp(prefix="gc-", dir=scratch))
    env = dict(os.environ, TRAINYARD_HOME=str(path / "home"))
    env.pop("TRAINYARD_SERVER", None)
    try:
        subprocess.run([TRAINYARD, "server", "start", "--gc-every", "0"], env=env, check=True, capture_output=True)
        quiet, beside, report, lost, stayed = collect_beside_writers(path / "home", env, blobs, 10)
        yield (f"8 writers beside gc of {blobs:,} blobs", f"{beside:.0f} blobs/s", f"alone {quiet:.0f} blobs/s",
               beside / quiet, f">= {BAR}x", beside / quiet >= BAR)
        yield ("  referenced blobs lost; garbage left", f"{len(lost)}; {len(stayed)}",
               f"{report['removedBlobs']:,} removed in {report['seconds']:.0f} s", None, "0; 0",
               not lost and not stayed)
    finally:
        subprocess.run([TRAINYARD, "server", "stop"], env=env, capture_output=True)
        shutil.rmtree(path, ignore_errors=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blobs", type=int, default=None)
    parser.add_argument("--scratch", default=tempfile.gettempdir())
    options = parser.parse_args()
    met = True
    for *shown, ok in collection(options.scratch, options.blobs):
        print(*shown, "" if ok else "MISSED", sep="\t")
        met = met and ok
    sys.exit(0 if met else 1)
