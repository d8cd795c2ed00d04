"""Virtual environments on a real Slurm whose nodes have no way out: made once by the server, fetched by hash."""
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from slurm_lab import SlurmLab
from wheels import wheel
from yard import YardTest, main, wait_until

SHOW = """
import os, sys, apple
print("apple", apple.version, os.environ["SLURMD_NODENAME"], sys.prefix)
"""


class VenvSlurm(YardTest):
    @classmethod
    def setUpClass(cls):
        cls.lab = SlurmLab(nodes=4)
        cls.addClassCleanup(cls.lab.down)
        cls.lab.up()
        cls.lab.needs_isolation()

    def setUp(self):
        super().setUp()
        self.env.update(self.lab.env)
        # A Python that the nodes have too.
        self.env["PATH"] = ":".join(part for part in self.env["PATH"].split(":") if "pyenv" not in part)
        self.wheels = self.scratch / "wheels"
        wheel(self.wheels, "apple", "1.0", requires=["pear>=2"])
        wheel(self.wheels, "pear", "2.5")
        self.write("show.py", SHOW)
        self.write("requirements.txt", f"--no-index\n--find-links {self.wheels}\napple==1.0\n")
        self.server = self.start("server", "run", "--listen", f"{self.lab.address}:0", "--insecure")
        wait_until(lambda: self.run_cli("server", "status").code == 0, "the server runs")
        self.ok("compute", "create", "-n", "lab", "--engine", "slurm", "--max-nodes", "4")

    def leave_nothing(self):
        self.server.send_signal(signal.SIGTERM)
        self.server.wait(20)
        super().leave_nothing()

    def submit(self, *words):
        return self.ok("submit", "--target", "lab", "--requirements", "requirements.txt", "--async", *words, "--",
                       "python", "show.py").strip()

    def test_twenty_runs_on_four_nodes_make_it_once(self):
        runs = [self.submit() for _ in range(20)]
        nodes = set()
        for run in runs:
            self.assertEqual(self.run_cli("run", "wait", run, timeout=120).code, 0, self.show(run))
            name, version, node, prefix = self.ok("run", "logs", run).split()
            self.assertEqual((name, version), ("apple", "1.0"))
            self.assertNotIn(str(self.home), prefix)  # Its own copy.
            nodes.add(node)
        self.assertGreater(len(nodes), 1)
        made = [path for path in (self.home / "environments").iterdir() if (path / "log.txt").exists()]
        self.assertEqual(len(made), 1)
        self.assertEqual((made[0] / "log.txt").read_text().count("is being made"), 1)
        # All four at once, and what they need is there already or fetched: nothing is made.
        run = self.submit("--nodes", "4")
        self.assertEqual(self.run_cli("run", "wait", run, timeout=120).code, 0, self.show(run))
        self.assertEqual(self.run_cli("run", "cp", f"{run}:system_logs/environment.txt", "-").out, "")


if __name__ == "__main__":
    main()
