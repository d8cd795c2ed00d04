#!/usr/bin/env python3
"""The Python package: how much an import costs over a bare interpreter, the context of a run, a call of
log against a call of a function that does nothing. Part of bench.py's table; alone it prints its rows.
"""
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

PACKAGE = pathlib.Path(__file__).resolve().parent.parent / "python"
PYTHON = "/usr/bin/python3"
REPEAT = 41

# In a run: what the supervisor sets, and a record file on the disk that is measured.
CONTEXT = """
import time
from trainyard import Run
began = time.perf_counter()
run = Run.get_context()
print(time.perf_counter() - began)
"""
LOG = """
import time
from trainyard import Run
run = Run.get_context()
def nothing(name, value, step=None):
    pass
def per_call(call, count=100_000):
    began = time.perf_counter()
    for i in range(count):
        call("loss", 0.5, step=i)
    return (time.perf_counter() - began) / count
per_call(run.log, 1000)
print(per_call(run.log), per_call(nothing))
"""


def whole(words, env):
    began = time.perf_counter()
    subprocess.run([PYTHON, "-c", words], env=env, check=True)
    return time.perf_counter() - began


def said(words, env):
    out = subprocess.run([PYTHON, "-c", words], env=env, check=True, stdout=subprocess.PIPE, text=True).stdout
    return [float(word) for word in out.split()]


def python_package(scratch):
    """(figure, ours, baseline, ratio, bar, met) for each row."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="python-", dir=scratch))
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(PACKAGE), "TRAINYARD_RUN_ID": "calm-otter-aaaaaaaa",
           "TRAINYARD_RECORDS": str(folder / "records-0"), "TRAINYARD_WORK": str(folder),
           "PYTHONPYCACHEPREFIX": str(folder / "cache")}
    whole("import trainyard.script_run", env)  # Compiled once, as an installed package is.
    pairs = [(whole("from trainyard import Run", env), whole("pass", env)) for _ in range(REPEAT)]
    bare = statistics.median(base for _, base in pairs)
    added = statistics.median(ours for ours, _ in pairs) - bare
    yield ("python: import of trainyard and its Run adds", f"{added * 1e3:.2f} ms", f"python3 -c pass {bare * 1e3:.1f} ms",
           None, "<= 40 ms", added <= 0.040)
    first = whole_without_cache(env, bare)
    yield ("  never compiled before", f"{first * 1e3:.1f} ms", f"python3 -c pass {bare * 1e3:.1f} ms", None,
           "<= 40 ms", first <= 0.040)
    context = statistics.median(said(CONTEXT, env)[0] for _ in range(REPEAT))
    yield ("python: Run.get_context() in a run", f"{context * 1e3:.2f} ms", "-", None, "<= 5 ms", context <= 0.005)
    times = [said(LOG, env) for _ in range(5)]
    ours = statistics.median(pair[0] for pair in times)
    base = statistics.median(pair[1] for pair in times)
    lines = (folder / "records-0").read_bytes().count(b"\n")
    assert lines == 5 * 101_000, f"{lines} lines were logged"
    yield ("python: run.log, a call", f"{ours * 1e6:.2f} us", f"no-op call {base * 1e6:.3f} us", ours / base,
           "<= 20 us", ours <= 20e-6)


def whole_without_cache(env, bare):
    env = {key: value for key, value in env.items() if key != "PYTHONPYCACHEPREFIX"}
    env.update(PYTHONDONTWRITEBYTECODE="1", PYTHONPYCACHEPREFIX="/nonexistent")
    return statistics.median(whole("from trainyard import Run", env) for _ in range(REPEAT)) - bare


def main():
    with tempfile.TemporaryDirectory() as scratch:
        for figure, ours, base, ratio, bar, met in python_package(scratch):
            shown = "-" if ratio is None else f"{ratio:.2f}x"
            print(f"{figure:<44} {ours:>20}  {base:<32} {shown:>7}  {bar:<9} {'' if met else 'MISSED'}")


if __name__ == "__main__":
    main()
