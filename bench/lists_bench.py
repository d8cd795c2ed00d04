#!/usr/bin/env python3
"""Lists of runs before a long history: 1,000,000 finished and 100,000 queued runs, put into the database directly,
listed over the socket of a real server by every filter; alone, and while eight slow readers run.

Part of bench.py's table; alone it prints its rows: lists_bench.py [FINISHED]
"""
import http.client
import json
import os
import pathlib
import shutil
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent
TRAINYARD = str(ROOT / "build" / "release" / "trainyard")
FINISHED = 1_000_000
TIMES = 15
LIST_BAR_MS = 20
SLOW_READERS = 8
SLOW_BAR = 2
WIDE_RUNS = 100
WIDE_METRICS = 10_000
WIDE_BAR_MS = 50

COUNT = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) "
COLUMNS = ("number, id, version, workspace_id, experiment_id, user_name, target, cpus, memory_bytes, status, final, "
           "outcome, attempt, lost_early, cancel_asked, exit_code, error, event_seq, event_at, created, started, ended, "
           "outputs, snapshot_files, snapshot_bytes, spec_hash, parent, archived")

# Every filter, alone and with others; some match everywhere, some nearly nowhere.
FILTERS = [
    "", "workspace=default", "experiment=exp-7", "workspace=default&experiment=exp-7",
    "status=Completed", "status=Failed", "status=Queued", "status=Running", "status=Failed,Canceled",
    "workspace=default&status=Failed", "experiment=exp-7&status=Failed", "experiment=exp-7&status=Queued",
    "target=gpu-3", "target=rare", "workspace=default&target=gpu-3&status=Failed", "target=rare&status=Queued",
    "user=user-3", "user=rare", "workspace=default&user=user-3&status=Failed", "user=rare&status=Queued",
    "user=user-3&target=gpu-3", "user=rare&target=gpu-3",
    "tag=model=m501", "tag=team", "tag=team=blue", "tag=none", "tag=rare=1",
    "experiment=exp-7&tag=team=blue", "workspace=default&tag=team=blue&status=Failed", "tag=team=blue&user=rare",
    'tags={"team":"blue","model":"m501"}', 'tags={"team":"blue","rare":null}',
    "archived=only", "archived=any", "archived=only&status=Failed", "archived=only&tag=team=blue",
    "children=1", "parent=old-1", "parent=old-1&status=Failed", "workspace=empty", "workspace=empty&status=Completed",
]
# What no index answers at once: two conditions that each hold for half of all runs, and never together.
SLOW_FILTER = 'tags={"parity":"odd"}&user=user-2'


class Connection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=120)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(120)
        self.sock.connect(self.path)


def quoted(query):
    pairs = [pair.partition("=") for pair in query.split("&") if pair]
    return "&".join(f"{name}={urllib.parse.quote(value)}" for name, _, value in pairs)


def listed(connection, query):
    """-> milliseconds, status, items."""
    start = time.monotonic()
    connection.request("GET", "/api/v1/runs?" + quoted(query))
    answer = connection.getresponse()
    body = answer.read()
    taken = (time.monotonic() - start) * 1000
    return taken, answer.status, json.loads(body).get("items", [])


class BigHome:
    """A server whose database was filled by hand."""

    def __init__(self, scratch, fill):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="lists-", dir=scratch))
        self.env = dict(os.environ, TRAINYARD_HOME=str(self.path / "home"))
        self.env.pop("TRAINYARD_SERVER", None)
        self.socket = str(self.path / "home" / "socket")
        self.fill = fill

    def __enter__(self):
        self.server("start")  # Makes the tables.
        self.server("stop")
        database = next((self.path / "home").glob("*.db"))
        with sqlite3.connect(database) as db:
            db.execute("PRAGMA synchronous = OFF")
            db.execute("PRAGMA cache_size = -500000")  # kB: else the indexes are read again and again.
            self.fill(db)
        db.close()
        self.server("start")
        return self

    def __exit__(self, *_):
        self.server("stop", check=False)
        shutil.rmtree(self.path, ignore_errors=True)

    def server(self, what, check=True):
        subprocess.run([TRAINYARD, "server", what], env=self.env, check=check, capture_output=True,
                       stdin=subprocess.DEVNULL)


def fill_history(db, finished):
    queued = finished // 10
    db.execute("INSERT INTO workspaces (name, subscription_id, resource_group, created_by, created) "
               "VALUES ('empty', '', '', 'ada', 1)")
    db.executemany("INSERT INTO experiments (id, workspace_id, name, created) VALUES (?, 1, ?, 1)",
                   [(i, f"exp-{i}") for i in range(1, 51)])
    db.execute(f"INSERT INTO runs ({COLUMNS}) {COUNT} SELECT i, 'old-' || i, 9, 1, 1 + i % 50, "
               "CASE i WHEN 77 THEN 'rare' ELSE 'user-' || (i % 20) END, "
               "CASE i WHEN 78 THEN 'rare' ELSE 'gpu-' || (i % 7) END, 1, 0, "
               "CASE WHEN i % 10 = 0 THEN 'Failed' WHEN i % 97 = 0 THEN 'Canceled' ELSE 'Completed' END, 1, "
               "CASE WHEN i % 10 = 0 THEN 'Failed' WHEN i % 97 = 0 THEN 'Canceled' ELSE 'Completed' END, "
               "1, 0, 0, 0, '', 7, i, i, i, i, '', 0, 0, '', CASE WHEN i % 11 = 5 THEN 1 END, i % 50 = 7 FROM n",
               (finished,))
    db.execute(f"INSERT INTO runs ({COLUMNS}) {COUNT} SELECT ? + i, 'new-' || i, 9, 1, 1 + i % 50, "
               "'user-' || (i % 20), 'gpu-' || (i % 7), 1, 0, 'Queued', 0, '', 0, 0, 0, NULL, '', 2, i, i, NULL, NULL, "
               "'', 0, 0, '', NULL, 0 FROM n", (queued, finished))
    spec = {"workspace": "default", "command": ["python", "train.py", "--epochs", "90"],
            "submitEnvironment": {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/home/ada"}}
    text = json.dumps(spec)[:-1]
    db.execute("INSERT INTO run_specs (run, spec) SELECT number, ? || ', \"experiment\": \"exp-' || experiment_id || "
               "'\", \"target\": \"' || target || '\", \"tags\": {\"model\": \"m' || (number % 1000) || '\", \"team\": "
               "\"blue\"}}' FROM runs", (text,))
    for name, value, where in [("model", "'m' || (number % 1000)", ""), ("team", "'blue'", ""),
                               ("parity", "CASE WHEN number % 2 THEN 'odd' ELSE 'even' END", ""),
                               ("rare", "'1'", "WHERE number = 79")]:
        db.execute(f"INSERT INTO run_tags (run, name, value, workspace_id, experiment_id) SELECT number, '{name}', "
                   f"{value}, workspace_id, experiment_id FROM runs {where}")


def fill_wide(db):
    db.execute("INSERT INTO experiments (id, workspace_id, name, created) VALUES (1, 1, 'wide', 1)")
    db.execute(f"INSERT INTO runs ({COLUMNS}) {COUNT} SELECT i, 'wide-' || i, 9, 1, 1, 'ada', 'local', 1, 0, "
               "'Completed', 1, 'Completed', 1, 0, 0, 0, '', 7, i, i, i, i, '', 0, 0, '', NULL, 0 FROM n", (WIDE_RUNS,))
    db.execute("INSERT INTO run_specs (run, spec) SELECT number, ? FROM runs",
               (json.dumps({"workspace": "default", "experiment": "wide", "command": ["true"]}),))
    db.execute(f"INSERT INTO metrics (run, name, kind, points, last_value, last_at) {COUNT} SELECT r.number, "
               "'layer.' || i || '.gradient', 'scalar', 1, i * 0.5, 1 FROM n, runs r", (WIDE_METRICS,))


def medians(connection):
    """-> median milliseconds by filter."""
    found = {}
    for query in FILTERS:
        taken = []
        for _ in range(TIMES):
            ms, status, _ = listed(connection, query)
            if status != 200:
                raise RuntimeError(f"GET /runs?{query} answered {status}")
            taken.append(ms)
        found[query] = statistics.median(taken[1:])
    return found


def read_slowly(path, cursor):
    connection = Connection(path)
    while True:
        # Another page each time, so that the server knows nothing of the request from before.
        cursor -= 1
        listed(connection, f"{SLOW_FILTER}&cursor={cursor}")


def worst_of(found):
    query = max(found, key=found.get)
    return found[query], query or "no filter"


def lists(scratch, finished=FINISHED):
    if not os.path.exists(TRAINYARD):
        raise RuntimeError("build/release/trainyard is missing: make build")
    with BigHome(scratch, lambda db: fill_history(db, finished)) as home:
        connection = Connection(home.socket)
        alone = medians(connection)
        worst, query = worst_of(alone)
        yield (f"GET /runs of {finished:,} + {finished // 10:,}, by {len(FILTERS)} filters, worst", f"{worst:.1f} ms",
               query, None, f"<= {LIST_BAR_MS} ms", worst <= LIST_BAR_MS)
        # In processes of their own: Python's threads would share one lock with the measurement.
        readers = [subprocess.Popen([sys.executable, __file__, "--read-slowly", home.socket,
                                     str(finished - 10_000 * i)]) for i in range(SLOW_READERS)]
        try:
            beside = medians(connection)
        finally:
            for reader in readers:
                reader.terminate()
                reader.wait()
        ratio, query = max((beside[q] / alone[q], q) for q in FILTERS)
        total = sum(beside.values()) / sum(alone.values())
        yield (f"  beside {SLOW_READERS} slow readers, all filters", f"{sum(beside.values()):.0f} ms",
               f"alone {sum(alone.values()):.0f} ms", total, f"<= {SLOW_BAR}x", total <= SLOW_BAR)
        yield ("  beside them, the filter that suffers most", f"{beside[query]:.1f} ms",
               f"{query or 'no filter'}: alone {alone[query]:.1f} ms", ratio, "-", True)
        connection.close()
    with BigHome(scratch, fill_wide) as home:
        connection = Connection(home.socket)
        taken = [listed(connection, f"limit={WIDE_RUNS}") for _ in range(TIMES)]
        if any(len(items) != WIDE_RUNS for _, _, items in taken):
            raise RuntimeError("GET /runs left some out")
        median = statistics.median(ms for ms, _, _ in taken)
        yield (f"GET /runs of {WIDE_RUNS} runs with {WIDE_METRICS:,} metrics each", f"{median:.1f} ms", "-", None,
               f"<= {WIDE_BAR_MS} ms", median <= WIDE_BAR_MS)
        connection.close()


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "--read-slowly":
        return read_slowly(sys.argv[2], int(sys.argv[3]))
    finished = int(sys.argv[1]) if len(sys.argv) > 1 else FINISHED
    scratch = tempfile.mkdtemp(prefix="trainyard-bench-")
    missed = 0
    try:
        for figure, ours, base, ratio, bar, met in lists(scratch, finished):
            shown = "-" if ratio is None else f"{ratio:.2f}x"
            print(f"{figure:<64} {ours:>12}  {base:<40} {shown:>7}  {bar:<9} {'' if met else 'MISSED'}", flush=True)
            missed += not met
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
