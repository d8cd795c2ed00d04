"""Hostile records: the server takes them once, warns, and lives."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from yard import YardTest, main, wait_until

DEEP = 200_000


class Poison(YardTest):
    def test_a_record_that_nests_without_end_is_counted_once_and_warned_of(self):
        self.write("train.py", f"""
import os, time
from trainyard import Run
run = Run.get_context()
run.log('before', 1)
run.flush()
for path in [os.environ['TRAINYARD_RECORDS']]:
    with open(path, 'a') as file:
        file.write('{{"k":"doc","n":"deep","v":' + '[' * {DEEP} + ']' * {DEEP} + '}}\\n')
run.log('after', 2)
while not os.path.exists('{self.scratch}/go'):
    time.sleep(0.05)
""")
        run = self.submit("--", "python3", "train.py")
        wait_until(lambda: "after" in self.show(run)["metrics"], "what follows the poison", 30)
        pid = self.server_pid()
        self.kill_server()
        self.assertEqual(self.show(run)["status"], "Running")
        self.assertNotEqual(self.server_pid(), pid)
        (self.scratch / "go").touch()
        shown = self.finish(run)
        self.assertEqual(shown["status"], "Completed")
        self.assertEqual(shown["metrics"], {"before": 1, "after": 2})
        self.assertEqual(shown["warnings"], ["a record was not taken: this JSON nests deeper than 128 levels"])
        self.assertIn("nests deeper than 128 levels", self.ok("run", "show", run))

    def test_a_request_that_nests_without_end_is_refused(self):
        self.ok("server", "start")
        pid = self.server_pid()
        for path in ("/api/v1/runs", "/api/v1/users", "/api/v1/workspaces"):
            status, body = self.http("POST", path, b'{"a":' * DEEP + b"1" + b"}" * DEEP)
            self.assertIn(status, (400, 413), body)
            status, body = self.http("POST", path, b"[" * DEEP)
            self.assertEqual(status, 400, body)
        self.assertEqual(self.server_pid(), pid)


if __name__ == "__main__":
    main()
