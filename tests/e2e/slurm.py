"""Runs on a real Slurm of four isolated nodes, as on this machine: one parameter changes."""
import json
import pathlib
import re
import sys
import time
import unittest
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from lab_yard import LabTest
from slurm_lab import SlurmLab
from yard import YardTest, wait_until

TRAIN = """
import os, sys
from trainyard import Run
run = Run.get_context()
loss = 1.0
for step in range(20):
    loss *= 0.9
    run.log("loss", loss, step=step)
print("trained", sys.argv[1:], flush=True)
print("a warning", file=sys.stderr, flush=True)
os.makedirs("outputs/deep", exist_ok=True)
open("outputs/deep/model.txt", "w").write("weights")
open("logs/train.log", "w").write("done\\n")
"""


COUNT = """
import signal, time
got = []
signal.signal(signal.SIGTERM, lambda *_: got.append(1))
print("up", flush=True)
while not got:
    time.sleep(0.05)
time.sleep(2)  # A second one would come by now.
print("signals:", len(got), flush=True)
"""


class Slurm(LabTest):
    LAB = {"nodes": 4, "bare": "n4"}
    TARGET = ("--max-nodes", 4)

    def before_serving(self):
        self.write("train.py", TRAIN)
        self.write("count.py", COUNT)

    def holding(self, name):
        """A command that says it runs and goes on until it is told."""
        return ["sh", "-c", f"echo {name} runs; while :; do sleep 0.1; done"]

    def test_the_same_run_here_and_there_comes_to_the_same(self):
        shown = {}
        for target in ("local", "lab"):
            done = self.run_cli("submit", "--target", target, "-e", "both", "--", "python3", "train.py", "--epochs", 3)
            self.assertEqual((done.code, done.out), (0, "trained ['--epochs', '3']\n"), done)
            run = self.show(self.json("run", "list")[0]["id"])
            points = self.json("run", "metrics", run["id"], "--metric", "loss")
            self.ok("run", "download", run["id"], "-d", self.scratch / target)
            files = sorted(f["path"] for f in self.files(run["id"]) if f["kind"] in ("output", "log"))
            shown[target] = ([p["value"] for p in points], run["snapshotId"], run["outputsId"], files)
            self.assertEqual((self.scratch / target / "outputs" / "deep" / "model.txt").read_text(), "weights")
        self.assertEqual(shown["local"], shown["lab"])
        self.assertEqual(len(shown["lab"][0]), 20)

    def files(self, run):
        return json.loads(self.http("GET", f"/api/v1/runs/{run}/files?limit=1000")[1])["items"]

    def test_a_bare_node_that_has_nothing_of_ours_carries_a_run(self):
        self.ok("compute", "create", "-n", "bare", "--engine", "slurm", "--sbatch=--nodelist=n4")
        done = self.run_cli("submit", "--target", "bare", "--", "sh", "-c", "echo $SLURMD_NODENAME; exit 7")
        self.assertEqual((done.code, done.out), (7, "n4\n"), done)
        self.assertTrue(done.err.rstrip().endswith("Failed, exit 7"), done)

    def test_what_other_jobs_of_the_account_can_read_of_a_job_is_no_token(self):
        run = self.submit("--target", "lab", "--", "sh", "-c", "echo on $SLURMD_NODENAME; while :; do sleep 0.1; done")
        node = wait_until(lambda: self.ok("run", "logs", run).split(), "it runs")[-1]
        ticket = self.ticket_of(run)
        for path, bearer, status in (
                (f"/runs/{run}", ticket, 403), (f"/runs/{run}/attempts/1/assignment?node=0", ticket, 403),
                ("/runs", f"{ticket}.{'a' * 64}", 403), (f"/runs/{run}/attempts/1/handover", f"{ticket}.{'a' * 64}", 409)):
            with self.subTest(path=path):
                self.assertEqual(self.ask_as(bearer, path), status)
        found = self.lab.exec_on(node, "sh", "-c", "grep -rl tya_ /tmp/trainyard-??????????; "
                                 "for p in /proc/[0-9]*; do tr '\\0' '\\n' <$p/cmdline | grep -l tya_; "
                                 "grep -qs supervise $p/cmdline && cat $p/environ; done; true").stdout
        self.assertNotIn("tya_", found)
        # One that still waits: its script can be read, its ticket is good for nothing until it has started.
        for name in self.lab.names:
            self.lab.drain(name)
        waiting = self.submit("--target", "lab", "--", "echo", "mine")
        wait_until(lambda: "waits for" in self.show(waiting)["reason"], "it waits")
        stolen = self.ticket_of(waiting)
        self.assertEqual(self.ask_as(f"{stolen}.{'a' * 64}", f"/runs/{waiting}/attempts/1/handover"), 503)
        for name in self.lab.names:
            self.lab.resume(name)
        ended = self.finish(waiting)
        self.assertEqual((ended["status"], len(ended["attempts"])), ("Completed", 1), ended["reason"])
        self.ok("run", "cancel", run)

    def ticket_of(self, run):
        """As any job of the account reads it."""
        number = self.lab.run("squeue", "-h", "--me", "-o", "%i", f"--name=ty-{run}.1").strip()
        script = self.lab.run("scontrol", "write", "batch_script", number, "-")
        self.assertNotRegex(script, r"tya_[0-9a-z]{8}")
        return re.search(r"^ty_ticket=(\S+)$", script, re.M).group(1)

    def ask_as(self, bearer, path):
        """The status that somebody with this token gets."""
        request = urllib.request.Request(f"http://{self.lab.address}:{self.port}/api/v1{path}",
                                         b"" if path.endswith("/handover") else None,
                                         {"Authorization": f"Bearer {bearer}"})
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code

    def test_a_cancel_ends_it_there_with_grace(self):
        run = self.submit("--target", "lab", "--", "sh", "-c",
                          "trap 'echo saved; exit 3' TERM; echo up; while :; do sleep 0.1; done")
        wait_until(lambda: "up" in self.ok("run", "logs", run), "it runs")
        self.ok("run", "cancel", run)
        ended = self.finish(run)
        self.assertEqual(ended["status"], "Canceled")
        self.assertIn("saved", self.ok("run", "logs", run))
        wait_until(lambda: not self.lab.run("squeue", "-h").strip(), "Slurm's queue is empty")

    def test_sigterm_comes_once_whoever_ends_the_job(self):
        self.ok("compute", "create", "-n", "setup", "--engine", "slurm", "--max-nodes", 2, "--setup", "true")
        for target, nodes, how in (("lab", 1, "cancel"), ("lab", 1, "scancel"), ("lab", 2, "cancel"), ("lab", 2, "scancel"),
                                   ("setup", 1, "scancel"), ("setup", 2, "scancel")):
            with self.subTest(target=target, nodes=nodes, how=how):
                run = self.submit("--target", target, "--nodes", nodes, "--", "python3", "count.py")
                for rank in range(nodes):
                    wait_until(lambda: "up" in self.ok("run", "logs", run, "--rank", rank), f"rank {rank} is up")
                if how == "scancel":
                    self.lab.run("scancel", "--me")
                else:
                    self.ok("run", "cancel", run)
                for rank in range(nodes):
                    said = wait_until(lambda: [line for line in self.ok("run", "logs", run, "--rank", rank).splitlines()
                                               if line.startswith("signals:")], f"rank {rank} to say how many")
                    self.assertEqual(said[:1], ["signals: 1"])
                self.run_cli("run", "cancel", run)
                self.finish(run)

    def test_a_setup_that_runs_is_what_a_run_waits_for(self):
        self.ok("compute", "create", "-n", "slow", "--engine", "slurm", "--setup", "until [ -e /tmp/go ]; do sleep 0.1; done")
        run = self.submit("--target", "slow", "--", "true")
        reason = wait_until(lambda: [r for r in [self.show(run)["reason"]] if "started" in r], "it is started")[0]
        self.assertRegex(reason, r"^Slurm started it on n\d; the target's setup runs there$")
        self.lab.exec_on(reason.split(";")[0].split()[-1], "touch", "/tmp/go")
        self.assertEqual(self.finish(run)["status"], "Completed")

    def test_nodes_are_shown_as_they_are_now(self):
        self.json("compute", "list-nodes", "lab")
        time.sleep(4)  # What was seen at first is too old now.
        self.lab.drain("n2")
        self.addCleanup(self.lab.resume, "n2")
        node = self.json("compute", "list-nodes", "lab")[1]
        self.assertEqual((node["name"], node["state"]), ("n2", "unusable"))
        self.assertLessEqual(node["seen_seconds_ago"], 3)

    def test_a_server_that_was_killed_takes_its_runs_up_again(self):
        run = self.submit("--target", "lab", "--", "sh", "-c", "echo first; sleep 3; echo last; echo x > outputs/x")
        wait_until(lambda: "first" in self.ok("run", "logs", run), "it runs")
        self.kill_server()
        self.serve()
        ended = self.finish(run, 60)
        self.assertEqual((ended["status"], len(ended["attempts"])), ("Completed", 1), ended["reason"])
        self.assertEqual(self.ok("run", "logs", run), "first\nlast\n")

    def test_a_node_that_is_taken_away_puts_the_run_elsewhere(self):
        run = self.submit("--target", "lab", "--", "sh", "-c",
                          "echo attempt $TRAINYARD_ATTEMPT on $SLURMD_NODENAME; "
                          "test $TRAINYARD_ATTEMPT = 2 || while :; do sleep 0.1; done")
        node = wait_until(lambda: [w.split()[-1] for w in self.ok("run", "logs", run).splitlines()
                                   if w.startswith("attempt 1")], "it runs")[0]
        self.lab.set_down(node)
        self.addCleanup(lambda: self.lab.wait_for_state(node, "idle"))  # It comes back by itself.
        ended = self.finish(run, 90)
        self.assertEqual(ended["status"], "Completed", ended["reason"])
        self.assertEqual([a["status"] for a in ended["attempts"]], ["evicted", "exited"])
        self.assertEqual(ended["retries"], 0)

    def test_an_unknown_partition_is_refused_when_the_compute_is_made(self):
        error = self.refused(2, "compute", "create", "-n", "odd", "--engine", "slurm", "--partition", "nowhere")
        self.assertIn("nowhere", error)

    def test_a_refusal_is_shown_in_slurms_words(self):
        self.ok("compute", "create", "-n", "odd", "--engine", "slurm", "--sbatch=--constraint=nosuch")
        done = self.run_cli("submit", "--target", "odd", "--", "true")
        self.assertEqual(done.code, 1, done)
        self.assertIn("feature", self.json("run", "list")[0]["reason"].lower())

    def test_what_waits_in_slurm_says_why(self):
        busy = [self.submit("--target", "lab", "--cpus", 2, "--", *self.holding(n)) for n in range(4)]
        for run in busy:
            wait_until(lambda: "runs" in self.ok("run", "logs", run), "it runs")
        last = self.submit("--target", "lab", "--cpus", 2, "--", "true")
        reason = wait_until(lambda: [r for r in [self.show(last)["reason"]] if "idle" in r or "nodes" in r],
                            "it says what it waits for")[0]
        self.assertRegex(reason, r"\d")
        for run in busy:
            self.ok("run", "cancel", run)
        self.assertEqual(self.finish(last, 60)["status"], "Completed")

    def test_what_a_cluster_has_not_is_refused_at_submit(self):
        err = self.refused(2, "submit", "--target", "lab", "--nodes", 5, "--", "true")
        self.assertIn("target lab has 4 nodes, 5 were asked for", err)
        self.json("compute", "list-nodes", "lab")  # Its nodes are counted.
        err = self.refused(2, "submit", "--target", "lab", "--gpus", 1, "--", "true")
        self.assertIn("target lab has 0 GPUs, 1 were asked for", err)

    def test_a_target_that_is_not_there_is_named_with_the_nearest(self):
        err = self.refused(4, "submit", "--target", "lob", "--", "true")
        self.assertIn("Did you mean 'lab'?", err)


class ThisHost(YardTest):
    """A Slurm whose nodes are this machine, and a server that listens on loopback, as it does by itself."""

    def test_a_server_on_loopback_has_runs_there(self):
        lab = SlurmLab(nodes=1, isolate=False)
        self.addCleanup(lab.down)
        lab.up()
        self.env.update(lab.env)
        made = self.json("compute", "create", "-n", "lab")
        self.assertEqual(made["engine"], "slurm")
        done = self.run_cli("submit", "--target", "lab", "--", "sh", "-c", "echo on $SLURMD_NODENAME")
        self.assertEqual((done.code, done.out), (0, "on n1\n"), done)
        self.ok("compute", "delete", "lab", "-y")


class Loopback(YardTest):
    def test_a_server_that_nodes_cannot_reach_refuses_a_cluster(self):
        err = self.refused(2, "compute", "create", "-n", "lab", "--engine", "slurm")
        self.assertIn("--listen", err)


if __name__ == "__main__":
    unittest.main(verbosity=2)
