#!/usr/bin/env python3
"""A JMESPath query over 10,000 runs of about 1 KB, against Debian's jp; whole processes.

query_bench.py QUERY_BENCH [JP]: the path of the bench_query program, and of jp.
Prints for each query the least wall and the median CPU time of both, and how many times faster we are.
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

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


def main():
    ours = sys.argv[1]
    jp = sys.argv[2] if len(sys.argv) > 2 else "jp"
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({"items": [run(number) for number in range(RUNS)], "next": None}, file)
        file.flush()
        print(f"{os.path.getsize(file.name) / RUNS:.0f} bytes a run, {RUNS} runs")
        for query in QUERIES:
            wall, cpu, answer = timed([ours, query, file.name])
            jp_wall, jp_cpu, jp_answer = timed([jp, "-f", file.name, query])
            same = "" if answer == jp_answer else "  ANSWERS DIFFER"
            print(f"{wall * 1e3:6.0f} ms ({cpu * 1e3:4.0f} CPU)  jp {jp_wall * 1e3:6.0f} ms "
                  f"({jp_cpu * 1e3:4.0f} CPU)  {jp_wall / wall:4.1f} times  {query}{same}")


if __name__ == "__main__":
    main()
