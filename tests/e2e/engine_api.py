"""One rank in a container of a real docker and a real podman: `trainyard container FILE` alone."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import engines
from yard import TRAINYARD, main, wait_until


class Containers:
    """The rules, for each engine."""

    engine_type = None

    @classmethod
    def setUpClass(cls):
        cls.engine = cls.engine_type().up()
        cls.addClassCleanup(cls.engine.down)
        cls.engine.add_busybox("tiny")

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="plan-"))
        self.addCleanup(subprocess.run, ["rm", "-rf", str(self.folder)], check=False)
        self.addCleanup(lambda: self.assertEqual(self.engine.containers(), []))

    def plan(self, *command, **more):
        """The file of a plan."""
        path = self.folder / "plan.json"
        path.write_text(json.dumps({
            "image": "tiny", "command": list(command), "name": f"test-{os.getpid()}", "mark": "mark-1",
            "note": str(self.folder / "note"),
            "engine": {"socket": str(self.engine.socket), "podman": self.engine.name == "podman",
                       "rootless": False, "api": "1.40"}, **more}))
        return path

    def start(self, *command, env=None, user=None, **more):
        return subprocess.Popen([TRAINYARD, "container", str(self.plan(*command, **more))],
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                env=dict(os.environ, **(env or {})))

    def run_plan(self, *command, **more):
        """-> exit code, stdout, stderr as bytes"""
        child = self.start(*command, **more)
        out, err = child.communicate(timeout=60)
        return child.returncode, out, err

    def note(self):
        path = self.folder / "note"
        return path.read_text() if path.exists() else ""

    def first_words(self, child, words):
        """Waits until the container has printed them, which shows that it runs."""
        got = b""
        while not got.endswith(words):
            piece = os.read(child.stdout.fileno(), 1)
            self.assertTrue(piece, child.stderr.read() if not piece else "")
            got += piece

    # ---- what comes out ----

    def test_a_command_that_does_nothing_ends_well(self):
        self.assertEqual(self.run_plan("true"), (0, b"", b""))

    def test_the_exit_code_is_the_containers(self):
        code, out, err = self.run_plan("sh", "-c", "echo out; echo err >&2; exit 42")
        self.assertEqual((code, out, err), (42, b"out\n", b"err\n"))
        self.assertEqual(self.note(), "")


class Docker(Containers, unittest.TestCase):
    engine_type = engines.Docker


class Podman(Containers, unittest.TestCase):
    engine_type = engines.Podman


if __name__ == "__main__":
    main()
