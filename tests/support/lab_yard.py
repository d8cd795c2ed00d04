"""Tests on a cluster: one lab for the class, and for each test a server that its nodes reach."""
import signal
import subprocess

from slurm_lab import SlurmLab
from yard import TRAINYARD, YardTest, wait_until

OVER = ("Completed", "Failed", "Canceled")


class LabTest(YardTest):
    LAB = {"nodes": 3}  # As SlurmLab takes it.
    TARGET = None       # More words of `compute create` for the target `lab`; None: the test makes its own.

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.lab = SlurmLab(**cls.LAB)
        cls.addClassCleanup(cls.lab.down)
        cls.lab.up()
        cls.lab.needs_isolation()

    def setUp(self):
        super().setUp()
        self.env.update(self.lab.env)
        self.port = 0
        self.before_serving()
        self.serve()
        if self.TARGET is not None:
            self.ok("compute", "create", "-n", "lab", "--engine", "slurm", *self.TARGET)

    def before_serving(self):
        """What the server is to find when it comes up."""

    def serve(self):
        """Where the nodes reach it, who cannot reach loopback; a second time at the same address."""
        # No child of start(): that would be ended before what is left is cleaned up with its help.
        self.server = subprocess.Popen([TRAINYARD, "server", "run", "--listen", f"{self.lab.address}:{self.port}",
                                        "--insecure"], cwd=self.code, env=self.env, stdin=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(lambda: self.run_cli("server", "status").code == 0, "the server runs")
        self.port = self.json("server", "status")["url"].rsplit(":", 1)[1]

    def kill_server(self):
        self.server.kill()
        self.server.wait()

    def leave_nothing(self):
        try:
            live = [run["id"] for run in self.json("run", "list") if run["status"] not in OVER]
            for run in live:
                self.run_cli("run", "cancel", run)
            for run in live:
                self.run_cli("run", "wait", run)
        finally:
            self.server.send_signal(signal.SIGTERM)
            self.server.wait(20)
            self.lab.run("scancel", "--me", check=False)
            self.mend_lab()
            super().leave_nothing()
        wait_until(lambda: not self.lab.run("squeue", "-h").strip(), "Slurm's queue is empty", 90)
        self.lab_is_as_before()

    def mend_lab(self):
        """Undoes what the test did to the lab."""

    def lab_is_as_before(self):
        self.lab.wait_for(lambda: self.lab.idle() == set(self.lab.names), "all nodes to be idle again", 60)
