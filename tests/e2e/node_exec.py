"""`node exec` on a real Slurm: beside the ranks of a run, and on the nodes of a target."""
import pathlib
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from lab_yard import LabTest
from yard import main, wait_until

WHERE = ("sh", "-c", "echo $SLURMD_NODENAME")


class NodeExec(LabTest):
    LAB = {"nodes": 3}
    TARGET = ("--max-nodes", 3)

    def exec_on(self, *words):
        return self.run_cli("node", "exec", *words)

    def wait_running(self, nodes, *command):
        run = self.submit("--target", "lab", "--nodes", nodes, "--cpus", 2, "--env-var", "MARK=seven", "--", *command)
        self.addCleanup(self.run_cli, "run", "wait", run)  # Before the server goes.
        self.addCleanup(self.run_cli, "run", "cancel", run)
        self.wait_for_status(run, "Running")
        return run, self.show(run)["nodes"]

    def test_a_command_runs_on_each_node_of_a_run_and_its_lines_are_named(self):
        run, names = self.wait_running(2, "sleep", "1000")
        self.assertEqual(len(names), 2)
        done = self.exec_on("-r", run, "--all", "--", "sh", "-c", "echo $MARK on $SLURMD_NODENAME")
        self.assertEqual(done.code, 0, done)
        self.assertEqual(sorted(done.out.splitlines()), sorted(f"[{n}] seven on {n}" for n in names))
        for number, name in enumerate(names):
            for which in (number, name):
                self.assertEqual(self.ok("node", "exec", "-r", run, "--node", which, "--", *WHERE), f"{name}\n")
        both = self.exec_on("-r", run, "--node", 1, "--node", names[0], "--", *WHERE)
        self.assertEqual(sorted(both.out.splitlines()), sorted(f"[{n}] {n}" for n in names))
        done = self.exec_on("-r", run, "--all", "--", "sh", "-c", f"test $SLURMD_NODENAME != {names[1]}")
        self.assertEqual(done.code, 1, done)
        self.refused(2, "node", "exec", "-r", run, "--wait", "1s", "--", "true")

        # On a node that the run has whole, a command for the target goes beside it.
        done = self.exec_on("-n", "lab", "--node", names[0], "--wait", "1s", "--", *WHERE)
        self.assertEqual((done.code, done.out), (0, f"{names[0]}\n"), done)
        self.assertEqual(self.show(run)["status"], "Running")

    def test_a_command_runs_on_one_some_or_all_nodes_of_a_target(self):
        done = self.exec_on("-n", "lab", "--", "sh", "-c", "echo $SLURMD_NODENAME; echo to stderr >&2")
        self.assertEqual(done.code, 0, done)
        self.assertEqual(sorted(done.out.splitlines()),
                         sorted(line for n in self.lab.names for line in (f"[{n}] {n}", f"[{n}] to stderr")))
        self.assertEqual(self.ok("node", "exec", "-n", "lab", "--node", "n2", "--", *WHERE), "n2\n")
        some = self.exec_on("-n", "lab", "--node", "n3", "--node", "n1", "--", *WHERE)
        self.assertEqual(sorted(some.out.splitlines()), ["[n1] n1", "[n3] n3"])
        self.assertEqual(self.exec_on("-n", "lab", "--node", "n1", "--", "sh", "-c", "exit 7").code, 7)
        self.assertEqual(self.exec_on("-n", "lab", "--node", "n1", "--", "no-such-program").code, 127)
        done = self.exec_on("-n", "lab", "--", "sh", "-c", "test $SLURMD_NODENAME != n2")
        self.assertEqual(done.code, 1, done)
        # Nothing of the server's own environment goes along.
        self.assertNotIn("TRAINYARD", self.ok("node", "exec", "-n", "lab", "--node", "n1", "--", "env"))

    def test_a_command_that_takes_too_long_is_ended_on_its_node(self):
        done = self.exec_on("-n", "lab", "--node", "n1", "--timeout", "1s", "--", "sh", "-c",
                            "trap '' TERM; echo up; sleep 54321")
        self.assertEqual((done.code, done.out), (124, "up\n"), done)
        self.assertIn("did not end within 1 s", done.err)
        self.leaves_free("n1", "54321")

    def test_ctrl_c_ends_it_on_its_node(self):
        started = self.start("node", "exec", "-n", "lab", "--node", "n1", "--timeout", "1h", "--", "sleep", "65432")
        wait_until(lambda: self.runs_on("n1", "65432"), "the command runs")
        started.send_signal(signal.SIGINT)
        self.assertEqual(started.wait(20), 130)
        self.leaves_free("n1", "65432")

    def runs_on(self, node, word):
        return word in self.lab.exec_on(node, "ps", "axo", "args", user=False).stdout

    def leaves_free(self, node, word):
        wait_until(lambda: not self.runs_on(node, word), "the command has ended", 20)
        wait_until(lambda: not self.lab.run("squeue", "-h").strip(), "its job has, too", 20)

    def test_a_node_that_is_down_or_busy_is_told_and_the_others_go_on(self):
        self.lab.run("sbatch", "-w", "n2", "-c2", "-o", "/dev/null", "--wrap", "sleep 1000")
        wait_until(lambda: "n2" in self.lab.run("squeue", "-h", "-t", "R", "-o", "%N"), "n2 is busy")
        self.lab.run("scontrol", "update", "NodeName=n3", "State=DOWN", "Reason=fan")
        # It may have come back by itself: a node that answers is returned to service.
        self.addCleanup(self.lab.run, "scontrol", "update", "NodeName=n3", "State=RESUME", check=False)
        begun = time.monotonic()
        done = self.exec_on("-n", "lab", "--wait", "2s", "--", *WHERE)
        self.assertLess(time.monotonic() - begun, 30)
        self.assertEqual((done.code, done.out), (6, "[n1] n1\n"), done)
        self.assertIn("[n2] node n2 is busy: no room for a command within 2 s", done.err)
        self.assertIn("--wait", done.err)
        self.assertIn("[n3] node n3 takes no commands: down: fan", done.err)
        self.assertEqual(self.lab.run("squeue", "-h", "-t", "PD").strip(), "")

    def test_what_cannot_be_is_refused(self):
        err = self.refused(4, "node", "exec", "-n", "lab", "--node", "n9", "--", "true")
        self.assertIn("has no node 'n9'", err)
        self.assertIn("n1, n2, n3", err)
        self.refused(4, "node", "exec", "-n", "nowhere", "--", "true")
        self.refused(2, "node", "exec", "-n", "local", "--", "true")
        self.ok("user", "create", "ann")
        token = self.json("token", "create", "--user", "ann")["token"]
        url = self.json("server", "status")["url"]
        self.refused(3, "--server", url, "node", "exec", "-n", "lab", "--", "true", env={"TRAINYARD_TOKEN": token})


if __name__ == "__main__":
    main()
