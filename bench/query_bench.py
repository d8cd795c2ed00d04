"""JMESPath over 10,000 runs of about 1 KB, against Debian's jp, as a row of bench.py's table: whole
processes, the least wall time of several, each answer compared with jp's."""
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent

RUNS = 10_000
REPEAT = 7
QUERIES = [
    "items[?state=='running'].{id: id, user: user.name, gpus: spec.resources.gpus}",
    "items[*].id",
    "sort_by(items, &submittedAt)[-10:].[id, state]",
    "length(items[?contains(spec.tags, 'nightly') && spec.resources.gpus > `4`])",
    "items[].timeline[].phase | length(@)",
    "sum(items[*].spec.resources.gpus)",
]


def run(number):
    states = ["queued", "running", "succeeded", "failed"]
    return {
        "id": f"run_{number:026d}", "state": states[number % 4], "experiment": f"exp-{number % 37}",
        "submittedAt": f"2025-01-{1 + number % 28:02d}T{number % 24:02d}:00:00.{number:06d}Z",
        "user": {"name": f"user{number % 11}", "email": f"user{number % 11}@example.org"},
        "spec": {
            "command": ["python", "train.py", "--epochs", "90", "--seed", str(number)],
            "resources": {"gpus": number % 9, "cpus": 16, "memoryBytes": 64 << 30, "nodes": 1},
            "tags": ["nightly"] if number % 3 == 0 else ["manual", "sweep"],
            "environment": {"WANDB_MODE": "offline", "NCCL_DEBUG": "WARN", "OMP_NUM_THREADS": "8"},
        },
        "timeline": [{"phase": phase, "at": f"2025-01-01T00:00:{second:02d}Z", "seconds": 1.25}
                     for second, phase in enumerate(["queued", "starting", "staging", "running"])],
        "exit": None, "attempts": [{"number": 1, "node": f"node{number % 64}", "code": 0}],
        "studioUrl": f"http://127.0.0.1:8400/runs/run_{number:026d}",
    }


def timed(command):
    """Least wall, median CPU seconds, and the answer."""
    walls, cpus = [], []
    for _ in range(REPEAT):
        before = os.times()
        start = time.perf_counter()
        answer = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
        walls.append(time.perf_counter() - start)
        after = os.times()
        cpus.append(after.children_user + after.children_system
                    - before.children_user - before.children_system)
    return min(walls), statistics.median(cpus), json.loads(answer)


def queries(scratch):
    jp = shutil.which("jp")
    if jp is None:
        print("skipped: jp is not installed (Debian package jp)")
        return
    ours = str(ROOT / "build" / "release" / "bench_query")
    file = pathlib.Path(scratch) / "runs.json"
    file.write_text(json.dumps({"items": [run(number) for number in range(RUNS)], "next": None}))
    total, jp_total = 0, 0
    for query in QUERIES:
        wall, _, answer = timed([ours, query, str(file)])
        jp_wall, _, jp_answer = timed([jp, "-f", str(file), query])
        if answer != jp_answer:
            raise RuntimeError(f"{query}: our answer differs from jp's")
        total += wall
        jp_total += jp_wall
    faster = jp_total / total
    yield (f"{len(QUERIES)} JMESPath queries over {RUNS:,} runs", f"{total * 1e3:.0f} ms",
           f"jp {jp_total * 1e3:.0f} ms, {faster:.1f}x as long", total / jp_total, "<= 0.5x", faster >= 2)
