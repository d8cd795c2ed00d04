"""Nodes of a real Slurm brought up and down by need, with an admin's programs: the lab's own."""
import pathlib
import signal
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from slurm_lab import SlurmLab
from yard import YardTest, processes_with, wait_until

NODES = ("n1", "n2", "n3", "n4", "n5")
UP = ("idle", "mixed", "allocated", "completing")
IDLE_S = 2


class Autoscale(YardTest):
    @classmethod
    def setUpClass(cls):
        cls.lab = SlurmLab(nodes=len(NODES), started=[])
        cls.addClassCleanup(cls.lab.down)
        cls.lab.up()
        cls.lab.needs_isolation()
        cls.up, cls.down = cls.lab.node_programs()

    def setUp(self):
        super().setUp()
        self.env.update(self.lab.env)
        self.lab.run("scancel", f"--user={self.lab.user}")
        for name in NODES:  # As after the lab's start: off, and nobody's mark on them.
            self.lab.kill_node(name)
            self.lab.run("scontrol", "update", f"NodeName={name}", "State=DOWN", "Reason=test", check=False)
            self.lab.run("scontrol", "update", f"NodeName={name}", "State=RESUME", check=False)
        self.lab.boot_s, self.lab.boot_fails = 0, set()
        self.lab.booted.clear()
        self.serve()

    def serve(self, port=0):
        self.server = self.start("server", "run", "--listen", f"{self.lab.address}:{port}", "--insecure")
        wait_until(lambda: self.run_cli("server", "status").code == 0, "the server runs")

    def create(self, *more, name="lab", most=4, idle=IDLE_S):
        return self.ok("compute", "create", "-n", name, "--engine", "slurm", "--max-nodes", most, "--node-up", self.up,
                       "--node-down", self.down, "--idle-seconds-before-scaledown", idle, *more)

    def nodes(self, name="lab"):
        return {node["name"]: node for node in self.json("compute", "list-nodes", "-n", name)}

    def states(self, *states):
        return sorted(name for name, node in self.nodes().items() if node["state"] in states)

    def ups(self):
        """Nodes that were brought up, in that order. One that Slurm still shows from the test before may be taken
        down first, and is not waited for: so no test says how often the other program is called."""
        return [node for what, node in self.lab.booted if what == "up"]

    def up_in_slurm(self):
        return sorted(name for name, state in self.lab.states().items() if state in UP)

    def wait_for_none(self, seconds=30):
        wait_until(lambda: len(self.states("off", "unusable")) == len(NODES), "all nodes to be off", seconds)
        self.assertEqual(self.up_in_slurm(), [])
        self.assertFalse(self.lab.processes)

    def test_nodes_come_for_what_waits_and_go_when_nothing_does(self):
        self.lab.boot_s = 1.5
        self.create()
        self.wait_for_none()
        runs = [self.submit("--target", "lab", "--cpus", 2, "--", "sh", "-c", "echo on $SLURMD_NODENAME; sleep 4")
                for _ in range(3)]
        wait_until(lambda: len(self.states("starting")) == 3, "three nodes to be starting")
        reason = wait_until(lambda: self.show(runs[0])["reason"], "a reason")
        self.assertIn("is starting", reason)
        shown = self.json("compute", "show", "lab")
        self.assertEqual((shown["target_node_count"], shown["allocation_state"]), (3, "Resizing"))
        wait_until(lambda: len(self.states("running")) == 3, "three nodes to be in use")
        wait_until(lambda: {run for node in self.nodes().values() for run in node["runs"]} == set(runs),
                   "each run to be shown on its node")
        for run in runs:
            self.assertEqual(self.finish(run)["status"], "Completed")
        ended = time.monotonic()
        self.wait_for_none()
        self.assertLess(time.monotonic() - ended, IDLE_S + 5)
        self.assertEqual(sorted(self.ups()), list(NODES[:3]))
        # A node that Slurm still showed from before may be taken down once more.
        self.assertLessEqual(set(NODES[:3]), {node for what, node in self.lab.booted if what == "down"})
        # And once more, from Slurm's marks.
        run = self.submit("--target", "lab", "--", "true")
        self.assertEqual(self.finish(run)["status"], "Completed")
        shown = self.json("computetarget", "show", "-n", "lab")["properties"]["properties"]
        self.assertIn("idleNodeCount", shown["nodeStateCounts"])

    def test_a_node_that_does_not_come_is_told_and_replaced(self):
        self.lab.boot_fails = {"n1"}
        self.lab.boot_s = 0.5
        self.create()
        run = self.submit("--target", "lab", "--", "sh", "-c", "echo on $SLURMD_NODENAME")
        self.assertEqual(self.finish(run)["status"], "Completed")
        other = self.console(run).split()[-1]  # Usually n2; one on its way down is not waited for.
        self.assertIn(other, NODES[1:])
        node = self.nodes()["n1"]
        self.assertEqual(node["state"], "unusable")
        self.assertEqual(node["reason"], "did not come: exit 1: no machine for n1")
        # Nobody pays for what may be there of it.
        wait_until(lambda: ("down", "n1") in self.lab.booted, "n1 to be taken down")
        self.assertEqual(self.ups(), ["n1", other])

    def test_a_run_of_several_nodes_starts_when_all_are_there(self):
        self.lab.boot_fails = {"n3"}
        self.create()
        run = self.submit("--target", "lab", "--nodes", 4, "--", "sh", "-c", "echo on $SLURMD_NODENAME")
        self.assertEqual(self.finish(run)["status"], "Completed")
        self.assertEqual({what for what in self.lab.booted if what[0] == "up"}, {("up", n) for n in NODES})

    def test_a_node_in_use_by_anybody_is_never_taken(self):
        self.lab.start_node("n1")
        self.create(idle=1)
        job = self.lab.run("sbatch", "--parsable", "-w", "n1", "-o", "/dev/null", "--wrap", "sleep 300").strip()
        wait_until(lambda: self.states("running") == ["n1"], "somebody's job to run")
        self.assertEqual(self.nodes()["n1"]["reason"], "jobs of others")
        # Another node comes and goes meanwhile, so that we know that idle nodes are looked at.
        run = self.submit("--target", "lab", "--cpus", 2, "--", "true")
        self.assertEqual(self.finish(run)["status"], "Completed")
        wait_until(lambda: ("down", "n2") in self.lab.booted, "n2 to go")
        wait_until(lambda: self.states("running", "idle", "leaving") == ["n1"], "n1 alone to be up")
        self.assertNotIn(("down", "n1"), self.lab.booted)
        self.assertEqual(self.lab.run("squeue", "-h", "-j", job, "-o", "%T").strip(), "RUNNING")
        self.lab.run("scancel", job)
        wait_until(lambda: ("down", "n1") in self.lab.booted, "n1 to go")
        self.wait_for_none()

    def test_a_program_that_hangs_ends_with_the_server(self):
        up = self.scratch / "up"
        up.write_text("#!/bin/sh\nsleep 98765 &\nwait\n")
        up.chmod(0o755)
        for end in (signal.SIGKILL, signal.SIGTERM):
            with self.subTest(end=end):
                self.ok("compute", "create", "-n", "hangs", "--engine", "slurm", "--node-up", up, "--node-down", self.down)
                run = self.submit("--target", "hangs", "--", "true")
                wait_until(lambda: processes_with("sleep\x0098765"), "the program runs")
                self.assertIn("its program has run for", [n["reason"] for n in self.nodes("hangs").values()
                                                          if n["state"] == "starting"][0])
                self.server.send_signal(end)
                self.server.wait()
                wait_until(lambda: not processes_with("sleep\x0098765"), "the program to end")
                self.serve()
                self.ok("run", "cancel", run)
                self.finish(run)
                self.ok("compute", "delete", "hangs", "-y")

    def test_a_server_killed_while_nodes_come_goes_on(self):
        self.lab.boot_s = 2
        self.create()
        run = self.submit("--target", "lab", "--", "sh", "-c", "echo on $SLURMD_NODENAME")
        wait_until(lambda: ("up", "n1") in self.lab.booted, "n1 to be asked for")
        port = self.json("server", "status")["url"].rsplit(":", 1)[1]
        self.server.kill()
        self.server.wait()
        self.serve(port)
        ended = self.finish(run)
        self.assertEqual((ended["status"], len(ended["attempts"])), ("Completed", 1), ended["reason"])
        self.assertEqual(self.console(run), "on n1\n")
        self.wait_for_none()

    def test_a_server_killed_while_nodes_go_goes_on(self):
        self.lab.start_nodes(["n1", "n2"])
        self.create(idle=600)
        wait_until(lambda: len(self.states("idle")) == 2, "two nodes to be idle")
        self.server.kill()
        self.server.wait()
        # As it is when it died after the drain of one and before its program.
        mark = (self.home / "server-id").read_text().strip()
        self.lab.run("scontrol", "update", "NodeName=n1", "State=DRAIN", f"Reason=trainyard:{mark}:leaves")
        self.serve()
        wait_until(lambda: "n1" in self.states("off"), "what was begun to be done")
        self.assertIn("n2", self.states("idle"))
        self.ok("compute", "update", "lab", "--idle-seconds-before-scaledown", 1)
        self.wait_for_none()
        # Others may seem to be there for a moment after the test before: they are taken down too.
        self.assertEqual(sorted(what for what in self.lab.booted if what[1] in ("n1", "n2")),
                         [("down", "n1"), ("down", "n2")])

    def test_the_least_number_stays_and_a_pause_lets_it_go(self):
        self.create("--min-nodes", 2, idle=1)
        wait_until(lambda: len(self.states("idle")) == 2, "two nodes without any run")
        run = self.submit("--target", "lab", "--nodes", 1, "--cpus", 2, "--", "true")
        self.assertEqual(self.finish(run)["status"], "Completed")
        self.assertEqual(len(self.ups()), len(set(self.ups())))
        self.ok("compute", "pause", "lab")
        self.wait_for_none()
        run = self.submit("--target", "lab", "--", "true")
        self.assertIn("paused", wait_until(lambda: self.show(run)["reason"], "a reason"))
        self.assertEqual(self.states("idle", "starting"), [])
        self.ok("compute", "resume", "lab")
        self.assertEqual(self.finish(run)["status"], "Completed")
        wait_until(lambda: len(self.states("idle")) == 2, "two nodes again")
        self.ok("compute", "update", "lab", "--min-nodes", 0)
        self.wait_for_none()

    def test_what_an_admin_has_taken_out_of_use_is_left_alone(self):
        self.lab.run("scontrol", "update", "NodeName=n1", "State=DOWN", "Reason=bad disk")
        self.create()
        run = self.submit("--target", "lab", "--", "sh", "-c", "echo on $SLURMD_NODENAME")
        self.assertEqual(self.finish(run)["status"], "Completed")
        self.assertIn(self.console(run).split()[-1], NODES[1:])
        node = self.nodes()["n1"]
        self.assertEqual((node["state"], node["reason"]), ("unusable", "down: bad disk"))

    def test_two_computes_do_not_fight_over_nodes(self):
        self.create()
        done = self.refused(5, "compute", "create", "-n", "twin", "--engine", "slurm", "--node-up", self.up,
                            "--node-down", self.down)
        self.assertIn("brings the nodes of that partition up and down already", done)
        # Another partition with the same nodes: the first has them.
        wait_until(lambda: self.states("off"), "the first to have seen its nodes")
        self.create("--partition", "prod", name="prod")
        node = wait_until(lambda: self.nodes("prod").get("n1"), "the second to have seen them")
        self.assertEqual(node["state"], "unusable")
        self.assertIn("lab", node["reason"])
        run = self.submit("--target", "prod", "--", "true")
        reason = wait_until(lambda: (lambda r: r if "brings it up and down" in r else "")(self.show(run)["reason"]),
                            "why it waits")
        self.assertIn("unusable: n1", reason)
        self.assertEqual(self.ups(), [])

    def test_programs_that_make_no_sense_are_refused_or_told(self):
        err = self.refused(2, "compute", "create", "-n", "lab", "--engine", "slurm", "--node-up", "/bin/true")
        self.assertIn("node-up and node-down go together", err)
        err = self.refused(2, "compute", "create", "-n", "lab", "--engine", "slurm", "--min-nodes", 3, "--max-nodes", 2)
        self.assertIn("min nodes", err)
        self.ok("compute", "create", "-n", "lab", "--engine", "slurm", "--node-up", "/no/such/program", "--node-down",
                "/bin/true")
        run = self.submit("--target", "lab", "--", "true")
        reason = wait_until(lambda: (lambda r: r if "did not come" in r else "")(self.show(run)["reason"]), "the reason")
        self.assertIn("exit 127", reason)
        self.refused(4, "compute", "list-nodes", "-n", "nowhere")
        self.refused(2, "compute", "list-nodes")
        self.assertEqual(len(self.json("compute", "list-nodes", "-n", "local")), 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
