"""A fresh home and the built binary, for end-to-end tests: what a person does, as a person does it.

A test's home is removed at its end, after its server was stopped, and a process that still belongs
to it then is a failure: nothing is left behind. Waiting is always for a condition, with a limit.
"""
import contextlib
import fcntl
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TRAINYARD = os.environ.get("TRAINYARD", str(ROOT / "build" / "release" / "trainyard"))
FINAL = ("Completed", "Failed", "Canceled")


def wait_until(condition, what, seconds=30):
    """Polls until `condition` is true and returns its value; fails the test after `seconds`."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"waited {seconds} s in vain for: {what}")
        time.sleep(0.01)


def alive(pid):
    """Whether a process is there and no zombie."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def processes_with(text):
    """Pids whose command line or environment holds `text`, ourselves aside."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            words = pathlib.Path(f"/proc/{entry}/cmdline").read_bytes()
            words += pathlib.Path(f"/proc/{entry}/environ").read_bytes()
        except OSError:
            continue
        if text.encode() in words and alive(int(entry)):
            found.append(int(entry))
    return found


def lock_owner(path):
    """The pid that holds a record lock on the file, or None."""
    with open(path, "rb+") as file:
        asked = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, _, _, pid = struct.unpack("hhqqi4x", fcntl.fcntl(file, fcntl.F_GETLK, asked))
        return pid if kind != fcntl.F_UNLCK else None


class Done:
    """A finished command."""

    def __init__(self, completed):
        self.code = completed.returncode
        self.out = completed.stdout
        self.err = completed.stderr

    def __repr__(self):
        return f"exit {self.code}\nstdout: {self.out}\nstderr: {self.err}"


class YardTest(unittest.TestCase):
    """setUp() makes a scratch folder with `home` (not yet there) and `code` (empty)."""

    maxDiff = None

    def setUp(self):
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="yard-"))
        self.home = self.scratch / "home"
        self.code = self.scratch / "code"
        self.code.mkdir()
        # Without MAKE…: a `make` that a test starts is not part of the one that started the tests.
        dropped = ("TRAINYARD_", "AZUREML_", "MAKE", "MFLAGS")
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(dropped)}
        self.env["TRAINYARD_HOME"] = str(self.home)
        self.env["XDG_CONFIG_HOME"] = str(self.scratch / "config")  # Nobody's saved servers and defaults.
        self.addCleanup(self.leave_nothing)

    def leave_nothing(self):
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.run_cli("server", "stop", timeout=20)
        # People's own daemons, which would end by themselves after a while.
        for daemon in set(processes_with("--idle\x00600")) & set(processes_with(str(self.scratch))):
            with contextlib.suppress(ProcessLookupError):
                os.kill(daemon, signal.SIGTERM)
        for run in self.live_supervisors():
            with contextlib.suppress(ProcessLookupError):
                os.kill(run, signal.SIGKILL)
        try:
            wait_until(lambda: not processes_with(str(self.scratch)), "no process left behind", 10)
        finally:
            for pid in processes_with(str(self.scratch)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.before_removal()
            shutil.rmtree(self.scratch, ignore_errors=True)

    def before_removal(self):
        """Undoes what the test did to the scratch folder; no process uses it any more."""

    # ---- the command line ----

    def run_cli(self, *args, cwd=None, env=None, timeout=60, text=True, **more):
        more.setdefault("stdin", subprocess.DEVNULL)
        return Done(subprocess.run([TRAINYARD, *map(str, args)], cwd=cwd or self.code,
                                   env=dict(self.env, **(env or {})), capture_output=True, text=text,
                                   timeout=timeout, **more))

    def ok(self, *args, **more):
        done = self.run_cli(*args, **more)
        self.assertEqual(done.code, 0, done)
        return done.out

    def json(self, *args, **more):
        return json.loads(self.ok(*args, "-o", "json", **more))

    def refused(self, code, *args, **more):
        """The command fails with `code`, one `error:` line first, and says nothing on stdout."""
        done = self.run_cli(*args, **more)
        self.assertEqual(done.code, code, done)
        self.assertTrue(done.err.splitlines() and any(l.startswith("error: ") for l in done.err.splitlines()), done)
        self.assertEqual(done.out, "", done)
        return done.err

    def start(self, *args, cwd=None, **more):
        """A command that goes on; its two outputs are pipes."""
        child = subprocess.Popen([TRAINYARD, *map(str, args)], cwd=cwd or self.code, env=self.env,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 text=True, **more)
        def end():
            if child.poll() is None:
                child.kill()
            child.communicate()
        self.addCleanup(end)
        return child

    # ---- runs ----

    def submit(self, *args, **more):
        """Submits without waiting; returns the id."""
        return self.ok("submit", "--async", "-e", "test", *args, **more).strip()

    def show(self, run):
        return self.json("run", "show", run)

    def wait_for_status(self, run, *statuses, seconds=30):
        return wait_until(lambda: (lambda r: r if r["status"] in statuses else None)(self.show(run)),
                          f"{run} to be {' or '.join(statuses)}", seconds)

    def finish(self, run, seconds=60):
        return self.wait_for_status(run, *FINAL, seconds=seconds)

    def console(self, run):
        return self.ok("run", "logs", run)

    # ---- the server ----

    def server(self):
        return self.json("server", "status")

    def server_pid(self):
        return self.server()["pid"]

    def kill_server(self):
        pid = self.server_pid()
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not alive(pid), "the server to be dead")

    def live_supervisors(self):
        pattern = re.compile(rb"supervise\0--folder\0" + re.escape(str(self.home).encode()))
        found = []
        for entry in os.listdir("/proc"):
            with contextlib.suppress(OSError):
                if entry.isdigit() and pattern.search(pathlib.Path(f"/proc/{entry}/cmdline").read_bytes()):
                    found.append(int(entry))
        # The init of a run's namespace is a fork of its supervisor: the supervisor is the older one.
        return sorted(pid for pid in found if alive(pid))

    def supervisor_of(self, run):
        """The pid of the supervisor at work: the owner of its folder's lock."""
        return wait_until(lambda: lock_owner(self.home / "node" / f"{run}.1" / "lock"), "a supervisor")

    def socket(self):
        """A connection to the server's Unix socket, for requests that no client of ours would make."""
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(40)
        connection.connect(str(self.home / "socket"))
        self.addCleanup(connection.close)
        return connection

    def http(self, method, path, body=None, headers=None):
        """One request over the Unix socket -> (status, bytes)."""
        connection = self.socket()
        payload = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(payload)}",
                 "Connection: close", *(f"{k}: {v}" for k, v in (headers or {}).items()), "", ""]
        connection.sendall("\r\n".join(lines).encode() + payload)
        data = b""
        while piece := connection.recv(65536):
            data += piece
        head, _, rest = data.partition(b"\r\n\r\n")
        return int(head.split()[1]), rest

    def write(self, path, text, mode=None):
        target = self.code / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        if mode is not None:
            target.chmod(mode)
        return target


def main():
    unittest.main(verbosity=2)
