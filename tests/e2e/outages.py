"""What the server loses, supervisors send again: it was away, its disk went back in time, a backup was restored."""
import json
import os
import pathlib
import shutil
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from yard import YardTest, alive, main, wait_until

SAMPLE_INTERVAL = 5  # Seconds: kSampleEvery of src/supervisor/watch_ranks.cc.

# Tells and prints in three parts, each when the test lets it.
PARTS = """import json, os, pathlib, sys, time
folder = pathlib.Path(sys.argv[1])
records = os.open(os.environ['TRAINYARD_RECORDS'], os.O_WRONLY | os.O_APPEND)
for part in range(3):
    while not (folder / str(part)).exists():
        time.sleep(0.01)
    for i in range(part * 50, part * 50 + 50):
        os.write(records, json.dumps({'k': 'metric', 'n': 'told', 'v': i}).encode() + b'\\n')
        print('line', i, flush=True)
    with open('logs/own.txt', 'a') as log:
        log.write(f'part {part}\\n')
open('outputs/result', 'w').write('done')
"""

# Prints more than a supervisor keeps of it, then waits for a file.
LARGE = """import pathlib, sys, time
for i in range(160000):
    print(f'{i:0100}')
sys.stdout.flush()
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.01)
print('the end')
"""


class Outages(YardTest):
    def kill_supervisor(self, run):
        pid = self.supervisor_of(run)
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not alive(pid), "the supervisor to be dead")

    def outlast_samples(self, count):
        end = time.monotonic() + SAMPLE_INTERVAL * count + 1
        wait_until(lambda: time.monotonic() > end, "samples to be taken", 60)

    def points(self, run):
        status, body = self.http("GET", f"/api/v1/runs/{run}/series?name=told&limit=1000")
        return [point["value"] for point in json.loads(body)["points"]] if status == 200 else []

    def test_server_and_supervisor_killed_after_samples_that_nobody_heard(self):
        runs = [self.submit("--", "sh", "-c", "echo up; sleep 300") for _ in range(2)]
        for run in runs:
            wait_until(lambda: "up" in self.console(run), "the script to run")
        self.kill_server()
        self.outlast_samples(2)
        self.kill_supervisor(runs[0])
        # The next command starts the server.
        ended = self.finish(runs[0], 30)
        self.assertEqual(ended["status"], "Failed")
        self.assertIn("was killed", ended["reason"])
        # One whose supervisor was left alone hears of its cancel.
        self.ok("run", "cancel", runs[1])
        self.assertEqual(self.finish(runs[1], 30)["status"], "Canceled")
        cpus = os.cpu_count()
        self.assertEqual(self.finish(self.submit("--cpus", cpus, "--", "true"), 30)["status"], "Completed")

    def test_a_disk_that_went_back_in_time(self):
        self.write("parts.py", PARTS)
        signs = self.scratch / "signs"
        signs.mkdir()
        run = self.submit("--", "python3", "parts.py", signs)
        kept = self.scratch / "kept"

        def part(number):
            (signs / str(number)).touch()
            until = number * 50 + 50
            wait_until(lambda: self.points(run) == list(range(until)), f"part {number} to be told")
            wait_until(lambda: f"line {until - 1}\n" in self.console(run), f"part {number} to be printed")

        self.wait_for_status(run, "Running")
        part(0)
        self.kill_server()
        kept.mkdir()
        for file in self.home.glob("trainyard.db*"):
            shutil.copy(file, kept)
        self.show(run)
        part(1)
        wait_until(lambda: list((self.home / "runs" / run / "files").glob("*")), "a file of logs/ to be there")
        self.kill_server()
        for file in self.home.glob("trainyard.db*"):
            file.unlink()
        for file in kept.iterdir():
            shutil.copy(file, self.home)
        os.truncate(self.home / "runs" / run / "console-0.log", 37)
        for file in (self.home / "runs" / run / "files").glob("*"):
            os.truncate(file, 3)
        (signs / "2").touch()
        ended = self.finish(run)
        self.assertEqual((ended["status"], len(ended["attempts"])), ("Completed", 1))
        self.assertEqual(self.points(run), list(range(150)))
        self.assertEqual(self.console(run), "".join(f"line {i}\n" for i in range(150)))
        status, own = self.http("GET", f"/api/v1/runs/{run}/files/logs/own.txt")
        self.assertEqual(own, b"part 0\npart 1\npart 2\n")
        self.assertTrue(ended["startedAt"])
        self.ok("run", "download", run, "-d", self.scratch / "got")
        self.assertEqual([p.read_text() for p in (self.scratch / "got").rglob("result")], ["done"])
        self.assertEqual(self.run_cli("server", "check").code, 0)

    def test_the_server_restarted_after_everything_was_sent_and_before_the_end_was(self):
        """Nothing more is printed, so only the comparison at the end can find what is missing."""
        self.write("parts.py", PARTS.replace("open('outputs", "\nwhile not (folder / 'end').exists():\n"
                                             "    time.sleep(0.01)\nopen('outputs"))
        signs = self.scratch / "signs"
        signs.mkdir()
        for sign in "012":
            (signs / sign).touch()
        run = self.submit("--", "python3", "parts.py", signs)
        wait_until(lambda: "line 149\n" in self.console(run) and len(self.points(run)) == 150, "all to be sent")
        self.kill_server()
        os.truncate(self.home / "runs" / run / "console-0.log", 0)
        self.show(run)
        (signs / "end").touch()
        self.assertEqual(self.finish(run)["status"], "Completed")
        self.assertEqual(self.console(run), "".join(f"line {i}\n" for i in range(150)))

    def test_a_restored_backup_has_no_zeros_where_bytes_are_gone(self):
        self.write("large.py", LARGE)
        sign = self.scratch / "sign"
        run = self.submit("--", "python3", "large.py", sign)
        whole = "".join(f"{i:0100}\n" for i in range(160000)) + "the end\n"
        log = self.home / "runs" / run / "console-0.log"
        wait_until(lambda: log.exists() and log.stat().st_size == len(whole) - len("the end\n"), "all to be sent")
        wait_until(lambda: list((self.home / "node" / f"{run}.1" / "spool").glob("console-0.rel")),
                   "the supervisor to give its copy back")
        self.kill_server()
        os.truncate(log, 1010)
        sign.touch()
        self.assertEqual(self.finish(run)["status"], "Completed")
        status, got = self.http("GET", f"/api/v1/runs/{run}/files/user_logs/std_log.txt")
        got = got.decode()
        self.assertNotIn("\0", got)
        begin, end = got.split("\n--- ", 1)
        self.assertEqual(begin, whole[:1010])
        lost, _, end = end.partition(" bytes were lost with the disk of the server ---\n")
        self.assertEqual(end, whole[1010 + int(lost):])

    def test_a_second_supervisor_with_the_same_assignment_runs_nothing(self):
        starts = self.scratch / "starts"
        sign = self.scratch / "sign"
        run = self.submit("--", "sh", "-c", f"echo start >> {starts}; while [ ! -e {sign} ]; do sleep 0.05; done; echo end")
        wait_until(starts.exists, "the script to run")
        folder = self.home / "node" / "elsewhere"
        folder.mkdir()
        shutil.copy(self.home / "node" / f"{run}.1" / "assignment.json", folder)
        second = self.start("supervise", "--folder", folder)
        second.communicate(timeout=30)
        self.assertEqual(starts.read_text(), "start\n")
        status, note = self.http("GET", f"/api/v1/runs/{run}/files/system_logs/server.txt")
        self.assertEqual(status, 200)
        self.assertIn("second supervisor", note.decode())
        sign.touch()
        self.assertEqual(self.finish(run)["status"], "Completed")
        self.assertEqual(self.console(run), "end\n")
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
