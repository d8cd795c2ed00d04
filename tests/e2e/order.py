"""Who goes first, and what is tried again."""
import contextlib
import os
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from yard import YardTest, lock_owner, main, wait_until

ALL_CPUS = str(len(os.sched_getaffinity(0)))  # A run with all of them runs alone.
UNTIL_GO = "until test -e go; do sleep 0.01; done"


class Yard(YardTest):
    def work(self, run, attempt=1):
        return self.home / "node" / f"{run}.{attempt}" / "work"

    def blocker(self):
        """A run that has the whole machine until go() is said."""
        run = self.submit("--cpus", ALL_CPUS, "--", "sh", "-c", UNTIL_GO)
        self.wait_for_status(run, "Running")
        return run

    def go(self, run, attempt=1):
        (self.work(run, attempt) / "go").touch()

    def file(self, run, path):
        status, body = self.http("GET", f"/api/v1/runs/{run}/files/{path}")
        self.assertEqual(status, 200, body)
        return body.decode()


class Priorities(Yard):
    def started(self, runs):
        return [run["id"] for run in sorted((self.finish(run) for run in runs), key=lambda run: run["startedAt"])]

    def queued(self, *options):
        return self.submit("--cpus", ALL_CPUS, *options, "--", "true")

    def test_the_high_go_before_the_normal_and_these_before_the_low_each_in_their_order(self):
        blocker = self.blocker()
        low, low_too = self.queued("--priority", "low"), self.queued("--priority", "low")
        normal, normal_too = self.queued(), self.queued("--priority", "normal")
        high, high_too = self.queued("--priority", "high"), self.queued("--priority", "high")
        self.assertEqual([self.show(run)["priority"] for run in (low, normal, high)], ["low", "normal", "high"])
        for run in (low, high):
            self.assertEqual(self.show(run)["status"], "Queued")
            self.assertTrue(self.show(run)["reason"])
        self.go(blocker)
        self.assertEqual(self.started([low, low_too, normal, normal_too, high, high_too]),
                         [high, high_too, normal, normal_too, low, low_too])

    def test_a_run_under_way_is_not_pushed_aside(self):
        blocker = self.submit("--cpus", ALL_CPUS, "--priority", "low", "--", "sh", "-c", UNTIL_GO)
        self.wait_for_status(blocker, "Running")
        high = self.queued("--priority", "high")
        self.assertEqual(self.show(high)["status"], "Queued")
        self.assertEqual(self.show(blocker)["status"], "Running")
        self.go(blocker)
        self.assertEqual(self.started([blocker, high]), [blocker, high])
        self.assertEqual(len(self.show(blocker)["attempts"]), 1)

    def test_the_order_outlives_the_server(self):
        blocker = self.blocker()
        low, normal, high = self.queued("--priority", "low"), self.queued(), self.queued("--priority", "high")
        self.kill_server()
        self.assertEqual(self.show(low)["status"], "Queued")
        self.go(blocker)
        self.assertEqual(self.started([low, normal, high]), [high, normal, low])

    def test_another_word_is_refused(self):
        self.assertIn("low, normal, high", self.refused(2, "submit", "--priority", "urgent", "--", "true"))
        self.refused(2, "submit", "--priority", "", "--", "true")


class Retries(Yard):
    def test_a_failed_run_is_tried_again_with_its_outputs_and_logs(self):
        self.write("again.py", """
import os, pathlib, sys
attempt = int(os.environ['TRAINYARD_ATTEMPT'])
print('attempt', attempt, os.environ['AZUREML_RUN_ID'] == os.environ['TRAINYARD_RUN_ID'])
print('on stderr', attempt, file=sys.stderr)
steps, log = pathlib.Path('outputs/steps.txt'), pathlib.Path('logs/train.log')
print('found', sorted(str(p) for d in ('outputs', 'logs') for p in pathlib.Path(d).rglob('*') if p.is_file()))
before = steps.read_text() if steps.exists() else ''
steps.write_text(before + f'{attempt}\\n')
log.write_text((log.read_text() if log.exists() else '') + f'log {attempt}\\n')
pathlib.Path('scratch').touch()
sys.exit(0 if attempt == 3 else 10 + attempt)
""")
        done = self.run_cli("submit", "-e", "t", "--max-retries", "5", "--", "python3", "-u", "again.py")
        self.assertEqual(done.code, 0, done)
        found = "found ['logs/train.log', 'outputs/steps.txt']\n"
        self.assertEqual(done.out, f"attempt 1 True\nfound []\nattempt 2 True\n{found}attempt 3 True\n{found}")
        self.assertEqual([l for l in done.err.splitlines() if l.startswith(("---", "on stderr"))],
                         ["on stderr 1", "--- attempt 2 ---", "on stderr 2", "--- attempt 3 ---", "on stderr 3"])
        run = self.show(self.json("run", "list")[0]["id"])
        self.assertEqual((run["status"], run["exitCode"], run["retries"], run["maxRetries"]), ("Completed", 0, 2, 5))
        self.assertEqual([(a["number"], a["exitCode"]) for a in run["attempts"]], [(1, 11), (2, 12), (3, 0)])
        self.assertTrue(any("1 of 5" in p["text"] and "11" in p["text"] for p in run["timeline"]), run["timeline"])
        self.assertEqual(self.file(run["id"], "outputs/steps.txt"), "1\n2\n3\n")
        self.assertEqual(self.file(run["id"], "logs/train.log"), "log 1\nlog 2\nlog 3\n")
        self.assertIn("\n--- attempt 2 ---\n", self.file(run["id"], "user_logs/std_log.txt"))
        self.assertEqual(self.ok("run", "logs", run["id"], "--attempt", "2").splitlines()[0], "attempt 2 True")

    def test_it_is_tried_no_oftener_than_asked_and_ends_as_it_did_last(self):
        done = self.run_cli("submit", "-e", "t", "--max-retries", "2", "--", "sh", "-c",
                            "echo $TRAINYARD_ATTEMPT; exit $((TRAINYARD_ATTEMPT + 20))")
        self.assertEqual((done.code, done.out), (23, "1\n2\n3\n"), done)
        run = self.json("run", "list")[0]
        self.assertEqual((run["status"], run["exitCode"], run["retries"]), ("Failed", 23, 2))
        self.assertEqual(self.run_cli("submit", "-e", "t", "--", "sh", "-c", "exit 4").code, 4)
        self.assertEqual(len(self.show(self.json("run", "list")[0]["id"])["attempts"]), 1)

    def test_a_signal_is_a_failure_too(self):
        done = self.run_cli("submit", "-e", "t", "--max-retries", "1", "--", "sh", "-c",
                            "test $TRAINYARD_ATTEMPT = 2 || kill -KILL $$")
        self.assertEqual(done.code, 0, done)

    def test_a_time_limit_is_a_cause_only_where_it_is_named(self):
        slow = ("sh", "-c", f'test $TRAINYARD_ATTEMPT = 2 && exit 0; trap "exit 1" TERM; {UNTIL_GO}')
        run = self.submit("--time", "1", "--max-retries", "1", "--", *slow)
        again = self.submit("--time", "1", "--max-retries", "1", "--retry-on", "time_limit", "--", *slow)
        ended = self.finish(run)
        self.assertEqual((ended["status"], ended["retries"], len(ended["attempts"])), ("Canceled", 0, 1))
        self.assertIn("time limit", ended["reason"])
        ended = self.finish(again)
        self.assertEqual((ended["status"], ended["retries"], len(ended["attempts"])), ("Completed", 1, 2))

    def test_only_the_causes_named_count(self):
        for causes in ("lost", "time_limit,no_space"):
            done = self.run_cli("submit", "-e", "t", "--max-retries", "3", "--retry-on", causes,
                                "--", "sh", "-c", "exit 5")
            self.assertEqual(done.code, 5, done)
            self.assertEqual(len(self.show(self.json("run", "list")[0]["id"])["attempts"]), 1)
        done = self.run_cli("submit", "-e", "t", "--max-retries", "1", "--retry-on", "lost", "--retry-on", "failed",
                            "--", "sh", "-c", "exit 5")
        self.assertEqual(len(self.show(self.json("run", "list")[0]["id"])["attempts"]), 2)

    def lose(self, run, attempt=1):
        """Kills the attempt's supervisor and everything it started."""
        supervisor = wait_until(lambda: lock_owner(self.home / "node" / f"{run}.{attempt}" / "lock"), "a supervisor")
        os.kill(supervisor, signal.SIGSTOP)  # It must not see its ranks end.
        for pid in self.descendants(supervisor):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        os.kill(supervisor, signal.SIGKILL)

    def descendants(self, pid):
        found = []
        with contextlib.suppress(OSError):  # One that ends meanwhile has none.
            for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
                for child in map(int, (task / "children").read_text().split()):
                    found += [child, *self.descendants(child)]
        return found

    def test_a_lost_run_is_tried_again(self):
        script = ("sh", "-c", f"echo attempt $TRAINYARD_ATTEMPT; echo $TRAINYARD_ATTEMPT >> logs/seen; {UNTIL_GO}")
        run = self.submit("--max-retries", "1", "--", *script)
        other = self.submit("--max-retries", "1", "--retry-on", "failed", "--", *script)
        for each in (run, other):
            wait_until(lambda: "attempt 1" in self.console(each), "the program to run")
            self.lose(each)
        ended = self.finish(other)
        self.assertEqual((ended["status"], ended["retries"], len(ended["attempts"])), ("Failed", 0, 1))
        wait_until(lambda: "attempt 2" in self.console(run), "the second attempt")
        self.assertEqual(self.show(run)["retries"], 1)
        self.go(run, 2)
        ended = self.finish(run)
        self.assertEqual((ended["status"], len(ended["attempts"])), ("Completed", 2))
        self.assertEqual(self.file(run, "user_logs/std_log.txt"), "attempt 1\n--- attempt 2 ---\nattempt 2\n")

    def test_a_canceled_run_is_not_tried_again(self):
        script = ("sh", "-c", f'trap "exit 9" TERM; echo attempt $TRAINYARD_ATTEMPT; {UNTIL_GO}')
        run = self.submit("--max-retries", "5", "--", *script)
        wait_until(lambda: "attempt 1" in self.console(run), "the program to run")
        self.ok("run", "cancel", run)
        ended = self.finish(run)
        self.assertEqual((ended["status"], ended["retries"], len(ended["attempts"])), ("Canceled", 0, 1))

    def test_a_cancel_ends_it_amid_its_retries(self):
        run = self.submit("--max-retries", "1000", "--", "sh", "-c", "exit 1")
        wait_until(lambda: self.show(run)["retries"] >= 2, "it to be tried again")
        self.ok("run", "cancel", run)
        ended = self.finish(run)
        # An attempt that had failed by itself when the wish came has failed; there is no next one.
        self.assertIn(ended["status"], ("Canceled", "Failed"))
        tried = len(ended["attempts"])
        self.assertLess(tried, 1000)
        self.ok("submit", "-e", "t", "--", "true")
        self.assertEqual(len(self.show(run)["attempts"]), tried)

    def test_the_count_outlives_the_server(self):
        run = self.submit("--max-retries", "1", "--", "sh", "-c",
                          f"echo attempt $TRAINYARD_ATTEMPT; {UNTIL_GO}; exit 6")
        wait_until(lambda: "attempt 1" in self.console(run), "the program to run")
        self.kill_server()
        self.go(run)
        wait_until(lambda: "attempt 2" in self.console(run), "the second attempt")
        self.kill_server()
        self.go(run, 2)
        ended = self.finish(run)
        self.assertEqual((ended["status"], ended["exitCode"], ended["retries"], len(ended["attempts"])),
                         ("Failed", 6, 1, 2))

    def test_what_a_retry_cannot_be_is_refused(self):
        for options in (["--max-retries", "-1"], ["--max-retries", "many"], ["--max-retries", "1.5"],
                        ["--max-retries", "1", "--retry-on", "never"], ["--max-retries", "1", "--retry-on", ""],
                        ["--max-retries", "1", "--retry-on", "failed,,lost"], ["--retry-on", "failed"]):
            self.refused(2, "submit", "-e", "t", *options, "--", "true")
        self.assertIn("failed, lost, no_space, time_limit",
                      self.refused(2, "submit", "--max-retries", "1", "--retry-on", "fail", "--", "true"))
        self.assertEqual(self.json("run", "list"), [])


class Gpus(Yard):
    def test_a_machine_without_gpus_is_warned_of_and_the_run_goes_on(self):
        if pathlib.Path("/dev/nvidia0").exists():
            self.skipTest("skipped: this machine has a GPU")
        done = self.run_cli("submit", "-e", "t", "--gpus", "1", "--", "sh", "-c", "echo [$CUDA_VISIBLE_DEVICES]")
        self.assertEqual(done.code, 0, done)
        self.assertIn("warning: ", done.err)
        self.assertIn("GPU", done.err)
        self.refused(2, "submit", "-e", "t", "--gpus", "-1", "--", "true")
        self.refused(2, "submit", "-e", "t", "--gpus", "half", "--", "true")


if __name__ == "__main__":
    main()
