"""Ctrl-C at every stage leaves nothing broken."""
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from yard import FINAL, YardTest, main, wait_until


class CtrlC(YardTest):
    def streamed(self, *command):
        child = self.start("submit", "-e", "t", "--", *command)
        self.assertEqual(child.stdout.readline(), "ready\n")
        return child, self.json("run", "list")[0]["id"]

    def test_once_while_streaming_detaches_and_the_run_goes_on(self):
        child, run = self.streamed("sh", "-c", "echo ready; sleep 4; echo end")
        start = time.monotonic()
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=30)
        self.assertEqual(child.returncode, 130, err)
        self.assertGreater(time.monotonic() - start, 1.5)
        self.assertIn(run, err)
        self.assertIn("run cancel", err)
        ended = self.finish(run)
        self.assertEqual(ended["status"], "Completed")

    def test_twice_cancels(self):
        child, run = self.streamed("sh", "-c", "echo ready; sleep 300")
        child.send_signal(signal.SIGINT)
        line = child.stderr.readline()
        while run not in line:
            line = child.stderr.readline()
        while "again" not in line.lower() and "ctrl-c" not in line.lower():
            line = child.stderr.readline()
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=60)
        self.assertEqual(self.finish(run)["status"], "Canceled")

    def test_while_queued_detaches(self):
        cpus = str(len(os.sched_getaffinity(0)))
        blocker = self.submit("--cpus", cpus, "--", "sleep", "300")
        child = self.start("submit", "-e", "t", "--cpus", cpus, "--", "true")
        wait_until(lambda: len(self.json("run", "list")) == 2, "the second run to be there")
        queued = self.json("run", "list")[0]["id"]
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=30)
        self.assertEqual(child.returncode, 130, err)
        self.assertEqual(self.show(queued)["status"], "Queued")
        self.ok("run", "cancel", queued)
        self.ok("run", "cancel", blocker)
        self.finish(blocker)

    def interrupted(self, reached, what):
        """Submits a large file and interrupts as soon as `reached(child)`: nothing was submitted."""
        self.ok("server", "start")
        with open(self.code / "big.bin", "wb") as big:
            big.truncate(2 << 30)
        child = self.start("submit", "-e", "t", "--", "true")
        wait_until(lambda: reached(child), what)
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=30)
        self.assertEqual(child.returncode, 130, err)
        self.assertEqual(self.json("run", "list"), [])
        (self.code / "big.bin").unlink()
        self.assertEqual(self.ok("submit", "-e", "t", "--", "echo", "fine"), "fine\n")

    def test_while_the_code_is_being_read_nothing_is_submitted(self):
        def reading(child):
            with contextlib.suppress(FileNotFoundError):  # Closed between the two looks.
                files = pathlib.Path(f"/proc/{child.pid}/fd")
                return any("big.bin" in os.readlink(f) for f in files.iterdir())
            return False
        self.interrupted(reading, "the file to be read")

    def test_while_the_code_is_being_sent_nothing_is_submitted(self):
        def half_kept():
            with contextlib.suppress(FileNotFoundError):
                return any(f.is_file() and f.stat().st_size > 1 << 20
                           for f in (self.home / "tmp").rglob("*"))
            return False
        self.interrupted(lambda _: half_kept(), "the file to be on its way")
        wait_until(lambda: not half_kept(), "nothing half-made to be left")

    def test_a_reader_that_goes_away_detaches(self):
        child = subprocess.Popen(f"{self.cli()} submit -e t -- sh -c 'while :; do echo x; sleep 0.05; done' | head -1",
                                 shell=True, cwd=self.code, env=self.env, stdout=subprocess.PIPE,
                                 stderr=subprocess.DEVNULL, text=True)
        out, _ = child.communicate(timeout=30)
        self.assertEqual(out, "x\n")
        run = self.json("run", "list")[0]["id"]
        self.assertEqual(self.show(run)["status"], "Running")
        self.ok("run", "cancel", run)
        self.finish(run)

    def cli(self):
        from yard import TRAINYARD
        return TRAINYARD


if __name__ == "__main__":
    main()
