"""Garbage collection: what nothing refers to goes, beside writers and through kill -9."""
import datetime
import hashlib
import json
import os
import pathlib
import signal
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))
sys.path.insert(0, str(ROOT / "bench"))
from gc_bench import OLD_S, collect_beside_writers, fill
from yard import YardTest, alive, main, wait_until


def parse_time(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


class Collection(YardTest):
    def blobs(self):
        root = self.home / "blobs"
        return {folder + name for folder in os.listdir(root) for name in os.listdir(root / folder)}

    def age(self):
        """As if nobody had touched a file of the home for two days."""
        old = time.time() - OLD_S
        for folder, _, files in os.walk(self.home / "blobs"):
            for name in files:
                os.utime(os.path.join(folder, name), (old, old))

    def check_is_whole(self):
        found = self.json("server", "check", "--content")
        self.assertTrue(found["ok"], found)

    def test_the_report_says_what_goes_and_a_dry_run_removes_nothing(self):
        self.write("a.py", "print('kept')")
        run = self.submit("--", "sh", "-c", "mkdir -p outputs; echo result > outputs/r.txt")
        self.finish(run)
        before = self.blobs()
        status, answer = self.http("POST", "/api/v1/blobs", self.pack(b"never submitted"))
        self.assertEqual((status, json.loads(answer)["kept"]), (200, 1))
        self.assertEqual(self.json("server", "gc")["youngBlobs"], 1)
        self.age()
        self.assertEqual(self.json("server", "gc", "--dry-run")["removedBlobs"], 1)
        self.assertEqual(len(self.blobs()), len(before) + 1)
        shown = self.ok("server", "gc", "--dry-run", "-o", "table")
        self.assertRegex(shown, r"WHAT +WOULD BE REMOVED +OF +SIZE\nblobs +1 +\d+ +15 B\nfolders of deleted runs +0 *\n")
        self.assertIn("Nothing was removed.", shown)
        self.assertEqual(len(self.blobs()), len(before) + 1)
        self.assertRegex(self.ok("server", "gc", "-o", "table"), r"WHAT +REMOVED +OF +SIZE\nblobs +1 +\d+ +15 B\n")
        self.assertEqual(self.blobs(), before)
        self.check_is_whole()
        self.ok("run", "download", run, "-d", self.scratch / "out")
        self.assertEqual((self.scratch / "out" / "outputs" / "r.txt").read_text(), "result\n")

    @staticmethod
    def pack(*blobs):
        return b"".join(hashlib.sha256(b).digest() + len(b).to_bytes(8, "little") + b for b in blobs)

    def test_eight_writers_beside_a_collection_lose_nothing(self):
        self.ok("server", "start", "--gc-every", "0")
        _, beside, report, lost, stayed = collect_beside_writers(self.home, self.env, 1000, 0.5)
        self.assertFalse(lost)
        self.assertFalse(stayed)
        self.assertGreater(beside, 0)
        self.assertGreater(report["removedBlobs"], 200)
        self.check_is_whole()

    def test_a_collection_killed_in_the_middle_leaves_a_whole_home_and_is_done_again(self):
        used, garbage, left = set(), set(), set()
        for _ in range(10):  # Until the kill comes in the middle.
            self.ok("server", "start", "--gc-every", "0")
            pid = self.server_pid()
            more_used, more_garbage = fill(self.home, 1000)
            used |= set(more_used)
            garbage |= set(more_garbage)
            self.assertEqual(self.http("POST", "/api/v1/server/gc", {})[0], 202)
            wait_until(lambda: json.loads(self.http("GET", "/api/v1/server/gc")[1])["removed"] > 0, "the first to go")
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda: not alive(pid), "the server to be dead")
            left = self.blobs() & garbage
            if left:
                break
        self.assertTrue(left, "killed too late each time")
        self.ok("server", "start", "--gc-every", "0")
        self.check_is_whole()
        self.ok("server", "gc")
        self.assertFalse(self.blobs() & garbage)
        self.assertFalse(used - self.blobs())
        self.check_is_whole()

    def test_deleted_runs_are_hidden_restored_and_collected(self):
        self.write("a.py", "print('deleted')")
        runs = [self.submit("--", "sh", "-c", f"mkdir -p outputs; echo {i} > outputs/r.txt") for i in range(3)]
        for run in runs:
            self.finish(run)
        first, second, third = runs
        self.refused(2, "run", "delete", first)  # Nobody is there to say yes.
        self.assertEqual(self.json("run", "delete", first, second, "-y"), [first, second])
        self.assertEqual([run["id"] for run in self.json("run", "list")], [third])
        self.assertIn(f"trainyard run restore {first}", self.refused(4, "run", "show", first))
        self.assertEqual(self.json("run", "restore", first)[0]["id"], first)
        self.assertEqual(self.ok("run", "logs", first), "")
        self.ok("run", "delete", second, "--now", "-y")
        self.refused(4, "run", "restore", second)
        wait_until(lambda: not (self.home / "runs" / second).exists(), "its folder to be gone")
        self.age()
        self.assertGreater(self.json("server", "gc")["removedBlobs"], 0)
        self.check_is_whole()
        self.ok("experiment", "delete", "test", "-y")
        self.assertEqual(self.json("run", "list"), [])
        deleted = self.json("run", "list", "--deleted")
        self.assertEqual(len(deleted), 2)
        week = parse_time(deleted[0]["restorableUntil"]) - parse_time(deleted[0]["deletedAt"])
        self.assertEqual(week, datetime.timedelta(days=7))
        head, row, *_ = self.ok("run", "list", "--deleted", "-o", "table").splitlines()
        self.assertRegex(head, r"RUN +EXPERIMENT +STATUS +USER +DELETED +RESTORABLE UNTIL")
        self.assertIn(deleted[0]["restorableUntil"], row)
        self.assertEqual(self.json("experiment", "restore", "test")["restored"], 2)
        self.assertEqual(self.json("run", "list", "--deleted"), [])
        live = self.submit("--", "sleep", "1000")
        self.assertIn(f"run cancel {live}", self.refused(5, "run", "delete", live, "-y"))
        self.ok("run", "cancel", live)
        self.finish(live)
        self.ok("workspace", "update", "--retention", "90d")
        self.assertEqual(self.json("workspace", "show")["retentionSeconds"], 90 * 24 * 3600)
        for command in (("workspace", "show"), ("workspace", "list")):
            head, row, *_ = self.ok(*command, "-o", "table").splitlines()
            self.assertIn("RETENTION", head)
            self.assertIn(" 90d ", row)
        self.refused(2, "workspace", "update", "--retention", "1h")
        error = self.refused(2, "workspace", "update", "--retention", "90")
        self.assertIn("--retention: '90' is 90s", error)
        self.assertIn("90d", error)
        self.assertNotIn("retentionSeconds", error)

    def test_the_key_is_left_out_of_a_backup_and_given_at_the_restore(self):
        self.ok("secret", "set", "password", input="correct horse", stdin=None)
        done = self.run_cli("server", "backup", self.scratch / "with")
        self.assertIn("secrets.key opens every secret", done.err)
        self.ok("server", "backup", self.scratch / "without", "--without-key")
        self.assertFalse((self.scratch / "without" / "secrets.key").exists())
        self.ok("server", "stop")
        done = self.run_cli("server", "restore", self.scratch / "without", "--home", self.scratch / "second")
        self.assertEqual(done.code, 0, done)
        self.assertIn("the backup has no key", done.err)
        done = self.run_cli("server", "restore", self.scratch / "without", "--home", self.scratch / "third",
                            "--key-file", self.home / "secrets.key")
        self.assertEqual(done.code, 0, done)
        self.assertNotIn("no key", done.err)

    def test_bad_input_is_refused(self):
        self.refused(2, "server", "gc", "--wet-run")
        self.refused(2, "server", "run", "--gc-every", "soon")


if __name__ == "__main__":
    main()
