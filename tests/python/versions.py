"""The package on every Python from 3.6 on: by real interpreters where they are installed, and by reading it."""
import ast
import glob
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
from fake_yard import PACKAGE, TOKEN, ServedTest

# Newer than Python 3.6: attributes whatever has them, attributes of one module, modules.
NEWER = {"time_ns", "monotonic_ns", "perf_counter_ns", "isascii", "removeprefix", "removesuffix", "nullcontext",
         "fromisoformat", "get_running_loop", "prod", "isqrt", "cached_property", "as_file", "is_relative_to",
         "unparse", "pairwise", "batched", "capture_output", "dirs_exist_ok", "missing_ok", "TypeAlias",
         "dataclass", "Protocol", "TypedDict", "Final", "Literal", "get_args", "get_origin"}
NEWER_OF = {("shlex", "join"), ("asyncio", "run"), ("math", "dist"), ("math", "comb"), ("sys", "breakpointhook"),
            ("threading", "excepthook"), ("os", "register_at_fork"), ("os", "pidfd_open"), ("os", "memfd_create")}
NEWER_MODULES = {"dataclasses", "contextvars", "importlib.resources", "importlib.metadata", "zoneinfo", "graphlib",
                 "tomllib"}
SIMPLE = {"str", "int", "bool", "float", "bytes", "object", "dict", "list", "tuple", "set"}

SCENARIO = """
import importlib, io, json, os, pkgutil, sys
import trainyard
for found in pkgutil.iter_modules(trainyard.__path__):
    importlib.import_module("trainyard." + found.name)
from trainyard import Environment, Experiment, Run, ScriptRunConfig, UserError, Workspace
assert set(trainyard.__all__) <= set(dir(trainyard))
try: trainyard.no_such_name
except AttributeError: pass
else: raise AssertionError
url, token = sys.argv[1:]
offline = Run.get_context()
offline.log("x", 1.0)
offline.log_image("i", plot=type("Plot", (), {"savefig": lambda self, path: open(path, "w").close()})())
assert offline.get_metrics("x") == {"x": 1.0} and offline._repr_html_()
os.environ.update(TRAINYARD_RUN_ID="r", TRAINYARD_RECORDS="records-0.jsonl", TRAINYARD_SERVER=url, TRAINYARD_TOKEN=token)
script = Run.get_context()
script.log("x", 2); script.log_row("row", a=1); script.tag("t"); script.child_run("c").complete()
assert script.get_metrics("x") == {"x": 2}, script.get_metrics()
for name in ("TRAINYARD_RUN_ID", "TRAINYARD_RECORDS"): del os.environ[name]
open("train.py", "w").write("print(1)")
os.mkdir(".azureml"); open(".azureml/e.runconfig", "w").write("password: secret")
experiment = Experiment(Workspace(), "e%d" % sys.version_info[1])
config = ScriptRunConfig(".", script="train.py", arguments="--n 1")
repr(config)
run = experiment.submit(config, tags={"a": 1})
assert [each.id for each in experiment.get_runs(tags="a")] == [run.id]
assert run.get_tags() == {"a": "1"} and run.restore_snapshot("code") and os.path.exists("code/train.py")
from trainyard.__main__ import main
assert main(["runs"]) == 0
with experiment.start_logging() as mine:
    mine.log("y", 1)
    mine.upload_file("f.txt", io.BytesIO(b"f"))
assert mine.get_metrics() == {"y": 1}
print(sys.version_info[0], sys.version_info[1])
"""


def interpreters():
    """By version: every Python from 3.6 on that is installed and starts."""
    paths = glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python3"))
    paths += [path for minor in range(6, 20) for path in [shutil.which(f"python3.{minor}")] if path]
    found = {}
    for path in paths + [sys.executable]:
        try:
            done = subprocess.run([path, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
                                  capture_output=True, text=True, timeout=30)
        except OSError:
            continue
        if done.returncode == 0 and re.match(r"3\.([6-9]|\d\d)$", done.stdout.strip()):
            found.setdefault(done.stdout.strip(), path)
    return found


class Versions(ServedTest):
    def test_it_works_on_every_python_that_is_here(self):
        code = pathlib.Path.cwd()
        for version, path in interpreters().items():
            with self.subTest(version):
                folder = code / version
                folder.mkdir()
                done = subprocess.run([path, "-c", SCENARIO, self.server.url, TOKEN], cwd=folder, text=True,
                                      capture_output=True, timeout=60,
                                      env=dict(os.environ, PYTHONPATH=str(PACKAGE), PYTHONDONTWRITEBYTECODE="1"))
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertTrue(done.stdout.endswith(version.replace(".", " ") + "\n"), done.stdout)

    @unittest.skipUnless("3.6" in interpreters(), "skipped: no Python 3.6 is installed; the sources are checked below")
    def test_python_3_6_is_among_them(self):
        done = subprocess.run([interpreters()["3.6"], "-c", "from trainyard import Run; print(Run.__name__)"],
                              env=dict(os.environ, PYTHONPATH=str(PACKAGE), PYTHONDONTWRITEBYTECODE="1"),
                              capture_output=True, text=True)
        self.assertEqual(done.stdout, "Run\n", done.stderr)


class Sources(unittest.TestCase):
    """What a reader sees, so that a machine without old interpreters finds most of it too."""

    def test_all_of_it_is_python_3_6(self):
        for path in sorted((PACKAGE / "trainyard").glob("*.py")):
            text = path.read_text(encoding="utf-8")
            tree = ast.parse(text, path.name, feature_version=(3, 6))
            for node in ast.walk(tree):
                problem = newer_than_3_6(node, text)
                self.assertIsNone(problem, f"{path.name}:{getattr(node, 'lineno', 0)}: {problem}")

    def test_the_reader_finds_what_is_newer(self):
        for text in ("from __future__ import annotations", "def f(x: str | None): pass", "import dataclasses",
                     "import time; time.time_ns()", "import shlex; shlex.join([])", "def f() -> list[int]: pass",
                     "import subprocess; subprocess.run([], capture_output=True)", "def f(a, /): pass",
                     "p.add_subparsers(required=True)", "x = f'{y=}'"):
            nodes = list(ast.walk(ast.parse(text)))
            self.assertTrue(any(newer_than_3_6(node, text) for node in nodes), text)
        for text in ("def f(x: 'str | None') -> 'list[int]': pass", "if hasattr(time, 'time_ns'): time.time_ns()"):
            nodes = list(ast.walk(ast.parse(text)))
            self.assertFalse(any(newer_than_3_6(node, text) for node in nodes), text)


def newer_than_3_6(node, text):
    """What of a node Python 3.6 does not have, or None."""
    if isinstance(node, ast.ImportFrom) and node.module == "__future__":
        return "a __future__ import"
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        names = {name.name for name in node.names} | {getattr(node, "module", None)}
        return next((f"module {name}" for name in names & NEWER_MODULES), None)
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        args = node.args
        if args.posonlyargs:
            return "positional-only parameters"
        every = [arg.annotation for arg in args.args + args.kwonlyargs] + [node.returns]
        return next((f"annotation {ast.unparse(one)}" for one in every if one is not None and not is_plain(one)), None)
    if isinstance(node, ast.Attribute):
        base = getattr(node.value, "id", None)
        guarded = f'hasattr({base}, "{node.attr}")' in text or f"hasattr({base}, '{node.attr}')" in text
        if (node.attr in NEWER or (base, node.attr) in NEWER_OF) and not guarded:
            return node.attr
    if isinstance(node, ast.keyword) and node.arg in ("capture_output", "dirs_exist_ok", "missing_ok"):
        return node.arg
    if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_subparsers":
        return next(("add_subparsers(required=…)" for each in node.keywords if each.arg == "required"), None)
    if isinstance(node, ast.JoinedStr) and re.search(r"\{\w+=[}!:]", ast.get_source_segment(text, node) or ""):
        return "f'{x=}'"
    return None


def is_plain(annotation):
    """Whether an annotation may be evaluated: a text, None, or the name of a built-in type."""
    return isinstance(annotation, ast.Constant) or getattr(annotation, "id", None) in SIMPLE


if __name__ == "__main__":
    unittest.main(verbosity=2)
