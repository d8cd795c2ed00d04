"""Many runs that start at once on a real Slurm: they are handed in as few arrays, and each is a run of its own
all the same, through cancels, a restart of the server and a controller that dies."""
import concurrent.futures
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from lab_yard import LabTest
from yard import main, wait_until

MANY = 50
JOBS_MAX = 20  # Of 50: what comes while Slurm takes the one before goes together, and a busy machine is slow to submit.
DONE_S = 120


class Arrays(LabTest):
    LAB = {"nodes": 3, "cpus": 4, "slurmd_timeout": 5}
    TARGET = ("--max-nodes", 3)

    def submit_at_once(self, commands):
        """All wait for the target, which then takes them in one moment."""
        self.ok("compute", "pause", "lab")
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            runs = list(pool.map(lambda c: self.submit("--target", "lab", "--", "sh", "-c", c), commands))
        self.ok("compute", "resume", "lab")
        return runs

    def queue(self, *states):
        """Slurm's number and place of every attempt that is in these states: each by its own name."""
        text = self.lab.run("squeue", "-h", "--me", "--array", f"--states={','.join(states)}",
                            "--Format=JobArrayID:|,Comment:")
        found = {}
        for line in text.splitlines():
            number, comment = line.split("|")
            array, _, place = number.partition("_")
            attempts = comment.strip().split(":")[-1].split(",")
            found.setdefault(attempts[int(place or 0)], []).append(number)
        return found

    def gate(self):
        """A job of others has all nodes, until what this returns is called."""
        blocker = self.lab.run("sbatch", "--parsable", "-N3", "--exclusive", "-o", "/dev/null", "--wrap",
                               "exec sleep 600").strip()
        self.lab.wait_for(lambda: "R" in self.lab.run("squeue", "-h", "-o", "%t", "-j", blocker), "the nodes are taken")
        return lambda: self.lab.run("scancel", blocker)

    def test_many_at_once_are_few_jobs_and_each_is_its_own_run(self):
        runs = self.submit_at_once([f"echo this is {i} $SLURM_ARRAY_TASK_ID; exit {i % 5}" for i in range(MANY)])
        for i, run in enumerate(runs):
            ended = self.finish(run, DONE_S)
            self.assertEqual((ended["status"], len(ended["attempts"])), ("Failed" if i % 5 else "Completed", 1), ended)
            if i % 5:
                self.assertIn(f"exited with code {i % 5}", ended["reason"])
            self.assertEqual(self.console(run), f"this is {i}\n")
        # Slurm still shows jobs of the tests before.
        mine = {name: jobs for name, jobs in self.queue("all").items() if name.rpartition(".")[0] in runs}
        self.assertEqual(set(mine), {f"{run}.1" for run in runs})
        self.assertLessEqual(len({job.partition("_")[0] for jobs in mine.values() for job in jobs}), JOBS_MAX)

    def test_one_that_waits_and_one_that_runs_are_cancelled_alone(self):
        hold = "echo up; while [ ! -e stop ]; do sleep 0.1; done"
        runs = self.submit_at_once([hold] * 20)  # 12 have room.
        wait_until(lambda: len(self.queue("RUNNING")) == 12, "the first run")
        wait_until(lambda: len(self.queue("PENDING")) == 8, "the others wait")
        up = [run for run in runs if f"{run}.1" in self.queue("RUNNING")]
        waiting = [run for run in runs if run not in up]
        wait_until(lambda: "up" in self.console(up[0]), "it runs")
        # The server is another one now, and knows of places what Slurm shows.
        self.kill_server()
        self.serve()
        for gone in (waiting[3], up[0], waiting[5]):
            self.ok("run", "cancel", gone)
            self.assertEqual(self.finish(gone)["status"], "Canceled")
        # One more has room now.
        wait_until(lambda: len(self.queue("RUNNING")) == 12, "another one runs")
        self.assertEqual(len(self.queue("PENDING")), 5)
        left = [run for run in runs if run not in (waiting[3], up[0], waiting[5])]
        self.assertEqual({f"{run}.1" for run in left}, set(self.queue("RUNNING", "PENDING")))
        for run in left:
            self.assertEqual(len(self.show(run)["attempts"]), 1)
        # Somebody else's cancel of one that waits ends that one.
        self.lab.run("scancel", self.queue("PENDING")[f"{waiting[-1]}.1"][0])
        ended = self.finish(waiting[-1])
        self.assertEqual((ended["status"], len(ended["attempts"])), ("Failed", 1), ended)
        self.assertIn("cancelled in Slurm", ended["reason"])
        self.assertEqual(len(self.queue("RUNNING", "PENDING")), 16)

    def test_a_server_that_is_away_finds_each_again(self):
        free = self.gate()
        runs = self.submit_at_once([f"echo {i}; exit {i % 2}" for i in range(20)])
        wait_until(lambda: len(self.queue("PENDING")) == 20, "all are in Slurm")
        self.kill_server()
        free()
        self.lab.wait_for(lambda: self.queue("RUNNING"), "some start")
        self.serve()
        for i, run in enumerate(runs):
            ended = self.finish(run, DONE_S)
            self.assertEqual((ended["status"], len(ended["attempts"])), ("Failed" if i % 2 else "Completed", 1), ended)
            self.assertEqual(self.console(run), f"{i}\n")

    def test_a_controller_killed_right_after_it_took_an_array_loses_no_run(self):
        free = self.gate()
        self.ok("compute", "pause", "lab")
        runs = [self.submit("--target", "lab", "--", "sh", "-c", f"echo {i}") for i in range(20)]
        self.ok("compute", "resume", "lab")
        wait_until(lambda: self.queue("PENDING"), "one is in Slurm")
        self.lab.kill_controller()
        self.lab.start_controller()
        free()
        for i, run in enumerate(runs):
            ended = self.finish(run, DONE_S)
            self.assertEqual(ended["status"], "Completed", ended)
            # None was run twice: what an attempt that was lost had said would be there too.
            self.assertEqual(self.console(run), f"{i}\n")


if __name__ == "__main__":
    main()
