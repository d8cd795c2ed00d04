"""A server on a laptop, on loopback alone, and a cluster behind a login machine: commands and reports go over one
ssh. The ssh and its daemon are real; the nodes reach the login machine and nothing else."""
import contextlib
import getpass
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from slurm_lab import SlurmLab
from yard import YardTest, main, processes_with, wait_until

SSHD = shutil.which("sshd", path="/usr/sbin:/sbin:/usr/bin")
CONFIG = """Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
StrictModes no
UsePAM no
PidFile none
SetEnv PATH={path} SLURM_CONF={conf}
"""
CLIENT = """Host login
  HostName 127.0.0.1
  Port {port}
  User {user}
  IdentityFile {folder}/{key}
  IdentitiesOnly yes
  StrictHostKeyChecking yes
  UserKnownHostsFile {folder}/{known}
"""


class Login:
    """The login machine: this one, as its sshd shows it."""

    def __init__(self, folder, lab):
        self.folder = folder
        self.lab = lab
        folder.mkdir()
        for key in ("host", "user", "other"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key], check=True)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        key = (folder / "host.pub").read_text().split()
        (folder / "known").write_text(f"[127.0.0.1]:{self.port} {key[0]} {key[1]}\n")
        (folder / "unknown").touch()
        self.daemon = None
        (folder / "bin").mkdir()
        ssh = folder / "bin" / "ssh"
        # What a user has in ~/.ssh/config.
        ssh.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {folder}/config "$@"\n')
        ssh.chmod(0o755)
        self.know()
        self.configure(self.lab.env["PATH"])

    def know(self, key="user", known="known"):
        (self.folder / "config").write_text(CLIENT.format(port=self.port, user=getpass.getuser(), folder=self.folder,
                                                          key=key, known=known))

    def configure(self, path):
        (self.folder / "sshd").write_text(CONFIG.format(port=self.port, folder=self.folder, path=path,
                                                        conf=self.lab.env["SLURM_CONF"]))

    def start(self):
        if os.geteuid() == 0:
            os.makedirs("/run/sshd", exist_ok=True)
        self.daemon = subprocess.Popen([SSHD, "-D", "-f", self.folder / "sshd", "-E", self.folder / "log"],
                                       env={"PATH": os.environ["PATH"]}, stdout=subprocess.DEVNULL)
        wait_until(self.listens, "sshd listens")

    def listens(self):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True

    def stop(self):
        """Gone, with all who are logged in."""
        if self.daemon is None:
            return
        sessions = subprocess.run(["ps", "-o", "pid=", "--ppid", str(self.daemon.pid)], capture_output=True,
                                  text=True).stdout.split()
        self.daemon.kill()
        self.daemon.wait()
        self.daemon = None
        for session in sessions:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(session), signal.SIGKILL)

    def logins(self):
        return (self.folder / "log").read_text().count("Accepted publickey")


@unittest.skipUnless(SSHD, "skipped: an sshd is needed; install openssh-server")
class Ssh(YardTest):
    @classmethod
    def setUpClass(cls):
        cls.lab = SlurmLab(nodes=2, bare="n2")
        cls.addClassCleanup(cls.lab.down)
        cls.lab.up()
        cls.lab.needs_isolation()

    def setUp(self):
        super().setUp()
        self.login = Login(self.scratch / "login", self.lab)
        self.login.start()
        self.env["PATH"] = f"{self.login.folder / 'bin'}:{self.env['PATH']}"
        self.env.pop("SLURM_CONF", None)

    def leave_nothing(self):
        try:
            for run in self.json("run", "list"):
                self.run_cli("run", "cancel", run["id"])
                self.run_cli("run", "wait", run["id"], timeout=20)
            self.run_cli("server", "stop")
        finally:
            self.login.stop()
            super().leave_nothing()

    def create(self):
        self.ok("compute", "create", "-n", "far", "--engine", "slurm", "--ssh", "login", "--max-nodes", "2")

    def tunnel(self):
        """The ssh that is kept."""
        return [pid for pid in processes_with("ControlMaster=yes") if pid in processes_with(str(self.home))]

    def printing(self, gate):
        """Counts until a file of ours is there, which it sees over nothing but its own server."""
        return ["sh", "-c", f"i=0; while [ $i -lt {gate} ]; do i=$((i+1)); echo line $i; sleep 0.1; done"]

    def test_a_run_goes_there_and_comes_back_over_one_connection(self):
        self.create()
        done = self.run_cli("submit", "--target", "far", "--", "sh", "-c",
                            "echo $TRAINYARD_SERVER; echo x > outputs/x; exit 3")
        self.assertEqual(done.code, 3, done)
        self.assertTrue(done.out.startswith(f"http://{self.lab.address}:"), done)
        self.assertTrue(self.json("server", "status")["url"].startswith("http://127.0.0.1:"))
        run = self.json("run", "list")[0]["id"]
        self.ok("run", "download", run, "-d", self.scratch / "got")
        self.assertEqual((self.scratch / "got" / "outputs" / "x").read_text(), "x\n")
        # Two when it was made, to see whether it answers and what partitions it has; and the one that is kept.
        self.assertEqual(self.login.logins(), 3)

    def test_no_secret_is_in_any_argument(self):
        self.create()
        run = self.submit("--target", "far", "--", *self.printing(30))
        wait_until(lambda: "line 3" in self.console(run), "it runs")
        words = b""
        for entry in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                words += pathlib.Path(f"/proc/{entry}/cmdline").read_bytes()
        self.assertIn(b"relay", words)
        self.assertNotIn(b"tya_", words)
        self.assertEqual(self.finish(run)["status"], "Completed")

    def test_a_connection_that_is_killed_is_made_again_and_nothing_is_lost(self):
        self.create()
        run = self.submit("--target", "far", "--", *self.printing(60))
        wait_until(lambda: "line 5" in self.console(run), "it runs")
        for _ in range(2):
            old = wait_until(self.tunnel, "an ssh")
            for pid in old:
                os.kill(pid, signal.SIGKILL)
            wait_until(lambda: [pid for pid in self.tunnel() if pid not in old], "another ssh")
        ended = self.finish(run, 90)
        self.assertEqual((ended["status"], len(ended["attempts"])), ("Completed", 1), ended["reason"])
        self.assertEqual(self.console(run), "".join(f"line {i}\n" for i in range(1, 61)))

    def test_a_login_machine_that_is_away_is_waited_for(self):
        self.create()
        first = self.submit("--target", "far", "--", *self.printing(20))
        wait_until(lambda: "line 2" in self.console(first), "it runs")
        self.login.stop()
        second = self.submit("--target", "far", "--", "echo", "later")
        reason = wait_until(lambda: [r for r in [self.show(second)["reason"]] if "ssh login" in r], "it says why")[0]
        self.assertIn("Connection", reason)
        self.login.start()
        self.assertEqual(self.finish(second, 90)["status"], "Completed")
        self.assertEqual(self.finish(first, 90)["status"], "Completed")
        self.assertEqual(self.console(first), "".join(f"line {i}\n" for i in range(1, 21)))

    def test_a_server_that_comes_back_has_the_same_address_for_nodes(self):
        self.create()
        run = self.submit("--target", "far", "--", "sh", "-c", "echo $TRAINYARD_SERVER; sleep 4; echo $TRAINYARD_SERVER")
        wait_until(lambda: "http" in self.console(run), "it runs")
        self.kill_server()
        wait_until(lambda: not self.tunnel(), "its ssh ends with it")
        ended = self.finish(run, 90)
        self.assertEqual((ended["status"], len(ended["attempts"])), ("Completed", 1), ended["reason"])
        done = self.run_cli("submit", "--target", "far", "--", "sh", "-c", "echo $TRAINYARD_SERVER")
        self.assertEqual(done.out, self.console(run).splitlines()[0] + "\n")

    def test_what_is_wrong_with_the_way_there_is_told_when_it_is_made(self):
        create = ["compute", "create", "-n", "far", "--engine", "slurm", "--ssh", "login"]
        self.login.know(known="unknown")
        err = self.refused(2, *create)
        self.assertIn("Host key verification failed", err)
        self.assertIn("by hand", err)
        self.login.know(key="other")
        err = self.refused(2, *create)
        self.assertIn("Permission denied", err)
        self.assertIn("ssh-copy-id", err)
        self.login.know()
        self.login.stop()
        self.assertIn("Connection refused", self.refused(2, *create))
        empty = self.scratch / "empty"
        empty.mkdir()
        for name in ("sh", "env"):
            (empty / name).symlink_to(shutil.which(name))
        self.login.configure(str(empty))
        self.login.start()
        if not shutil.which("sbatch", path="/usr/bin:/usr/local/bin:/usr/sbin"):
            self.assertIn("sbatch is not on login", self.refused(2, *create))
        self.assertEqual([c["name"] for c in self.json("compute", "list")], ["local"])


if __name__ == "__main__":
    main()
