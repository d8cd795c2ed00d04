"""Virtual environments on a real Slurm whose nodes have no way out: made once by the server, fetched by hash."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from lab_yard import LabTest
from wheels import SlowIndex, wheel
from yard import main, wait_until

SHOW = """
import os, sys, apple
print("apple", apple.version, os.environ["SLURMD_NODENAME"], sys.prefix)
"""


class VenvSlurm(LabTest):
    LAB = {"nodes": 4}
    TARGET = ("--max-nodes", 4)

    def before_serving(self):
        # A Python that the nodes have too.
        self.env["PATH"] = ":".join(part for part in self.env["PATH"].split(":") if "pyenv" not in part)
        self.wheels = self.scratch / "wheels"
        wheel(self.wheels, "apple", "1.0", requires=["pear>=2"])
        wheel(self.wheels, "pear", "2.5")
        self.write("show.py", SHOW)
        self.write("requirements.txt", f"--no-index\n--find-links {self.wheels}\napple==1.0\n")

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

    def slow_index(self):
        """An index that answers once it is let to; the requirements name it."""
        index = SlowIndex(self.wheels)
        self.addCleanup(index.close)
        self.write("requirements.txt", f"--index-url {index.url}\napple==1.0\n")
        return index

    def jobs(self):
        """What Slurm knows of, what is over too: our own ids are in it."""
        return self.lab.run("squeue", "--noheader", "--states=all", "--format=%i %k %j")

    def build_log(self, run, name="system_logs/environment.txt"):
        done = self.run_cli("run", "cp", f"{run}:{name}", "-")
        return done.out if done.code == 0 else ""

    def hold(self, *words):
        """A run whose build has begun and stands still."""
        run = self.submit(*words)
        wait_until(lambda: "is being built" in self.show(run)["reason"], "it says what it waits for")
        return run

    def test_a_run_holds_no_node_while_its_environment_is_built(self):
        index = self.slow_index()
        runs = [self.hold("--nodes", "2"), self.hold()]
        self.assertTrue(index.begun.wait(60))
        for run in runs:
            wait_until(lambda run=run: "is being made" in self.build_log(run), "the log is the run's meanwhile")
            shown = self.show(run)
            self.assertEqual((shown["status"], shown["attempts"]), ("Queued", []))
            self.assertRegex(shown["reason"], "^environment [0-9a-f]{6} is being built")
        # Who needs no environment is not held up by those who do.
        plain = self.ok("submit", "--target", "lab", "--async", "--", "true").strip()
        self.assertEqual(self.run_cli("run", "wait", plain, timeout=60).code, 0, self.show(plain))
        jobs = self.jobs()
        self.assertEqual([run for run in (plain, *runs) if run in jobs], [plain], jobs)
        canceled = self.hold()
        self.ok("run", "cancel", canceled)
        self.assertEqual(self.show(canceled)["status"], "Canceled")
        index.go.set()
        for run in runs:
            self.assertEqual(self.run_cli("run", "wait", run, timeout=120).code, 0, self.show(run))
            log = self.build_log(run)
            self.assertEqual((log.count("is being made"), log.count("packed for nodes")), (1, 1), log)
            self.assertEqual(log, self.build_log(run, "azureml-logs/20_image_build_log.txt"))
        self.assertNotIn(canceled, self.jobs())

    def test_a_build_that_fails_takes_no_node(self):
        self.write("requirements.txt", f"--no-index\n--find-links {self.wheels}\nnosuchfruit==3\n")
        run = self.submit()
        self.assertNotEqual(self.run_cli("run", "wait", run, timeout=60).code, 0)
        shown = self.show(run)
        self.assertEqual((shown["status"], shown["attempts"]), ("Failed", []))
        self.assertTrue(shown["error"].startswith("environment: "), shown["error"])
        self.assertIn("nosuchfruit", shown["error"])
        self.assertIn("nosuchfruit", self.build_log(run))
        self.assertNotIn(run, self.jobs())

    def test_a_server_killed_while_it_builds_for_others_begins_again(self):
        index = self.slow_index()
        run = self.hold()
        self.assertTrue(index.begun.wait(60))
        self.kill_server()
        index.begun.clear()
        self.serve()
        self.assertTrue(index.begun.wait(60))  # Nobody had to ask for it.
        self.assertEqual(self.show(run)["status"], "Queued")
        self.assertNotIn(run, self.jobs())
        index.go.set()
        self.assertEqual(self.run_cli("run", "wait", run, timeout=120).code, 0, self.show(run))
        self.assertEqual(self.build_log(run).count("is being made"), 1)
        self.assertEqual(self.ok("run", "logs", run).split()[:2], ["apple", "1.0"])


if __name__ == "__main__":
    main()
