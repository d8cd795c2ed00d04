"""Bad input and faults: each gets a clear word, and nothing is lost or half-done."""
import json
import os
import pathlib
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from yard import TRAINYARD, YardTest, main, wait_until


class BadInput(YardTest):
    def test_an_unknown_run_is_exit_4(self):
        for command in (["show"], ["cancel"], ["wait"], ["logs"], ["download", "-d", "x"]):
            self.refused(4, "run", command[0], "no-such-run", *command[1:])

    def test_a_name_with_dots_goes_nowhere(self):
        self.ok("server", "start")
        self.refused(2, "workspace", "create", "-n", "../../etc")
        self.refused(2, "workspace", "create", "-n", "..")
        self.refused(2, "user", "create", "..")
        status, _ = self.http("GET", "/api/v1/runs/..%2F..%2Fetc%2Fpasswd")
        self.assertIn(status, (400, 404))
        status, _ = self.http("POST", "/api/v1/runs", {"id": "../x", "spec": {"experiment": "e", "command": ["true"]}})
        self.assertEqual(status, 400)
        self.ok("submit", "-e", "../../etc/passwd", "--", "true")
        run = self.json("run", "list")[0]
        self.assertEqual(run["experiment"], "../../etc/passwd")
        for path in ("..%2f..%2ftrainyard.db", "../../../trainyard.db", "outputs/../../x", "%2e%2e/x"):
            status, body = self.http("GET", f"/api/v1/runs/{run['id']}/files/{path}")
            self.assertIn(status, (400, 404), (path, body[:200]))

    def test_unknown_words_are_told_with_the_nearest_known(self):
        self.assertIn("submit", self.refused(2, "sumbit"))
        self.assertIn("list", self.refused(2, "run", "lst"))
        self.assertIn("--cpus", self.refused(2, "submit", "--cpu", "1", "--", "true"))
        self.refused(2, "submit", "-e", "t")
        self.refused(2, "submit", "-e", "t", "--cpus", "two", "--", "true")
        self.refused(2, "submit", "-e", "t", "--mem", "lots", "--", "true")

    def test_what_comes_later_is_refused_not_ignored(self):
        for options in (["--input", "d=mount"], ["--distribution", "ray"], ["--checkpoint", "x"]):
            self.refused(2, "submit", "-e", "t", *options, "--", "true")
        self.assertEqual(self.json("run", "list"), [])

    def test_a_request_body_of_a_gigabyte_is_refused_unread(self):
        self.ok("server", "start")
        connection = self.socket()
        connection.sendall(b"POST /api/v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1073741824\r\n\r\n")
        self.assertIn(b" 413 ", connection.recv(4096).split(b"\r\n")[0] + b" ")
        self.assertEqual(self.http("GET", "/health")[0], 200)

    def test_a_client_of_one_byte_a_minute_is_cut(self):
        self.ok("server", "start")
        connection = self.socket()
        connection.sendall(b"GET /hea")
        start = time.monotonic()
        answer = connection.recv(4096)  # The deadline of the server, not of the test, ends this.
        self.assertLess(time.monotonic() - start, 35)
        self.assertTrue(answer == b"" or b" 408 " in answer.split(b"\r\n")[0] + b" ", answer)

    def test_malformed_requests_get_a_word(self):
        self.ok("server", "start")
        for body in (b"{", b"[]", b"{\"id\": 7}", b"{\"id\":\"a\",\"spec\":{\"command\":\"true\"}}", b"\xff\xfe"):
            status, answer = self.http("POST", "/api/v1/runs", body)
            self.assertEqual(status, 400, answer)
            self.assertEqual(json.loads(answer)["error"]["kind"], "invalid")
        self.assertEqual(self.http("GET", "/api/v1/nothing")[0], 404)
        self.assertEqual(self.http("DELETE", "/health")[0], 405)


class Homes(YardTest):
    def test_a_home_without_write_permission(self):
        self.home.mkdir(mode=0o555)
        if os.geteuid() == 0:
            self.scratch.chmod(0o755)
            more = dict(user=65534, group=65534, extra_groups=[])
        else:
            more = {}
        error = self.refused(3, "run", "list", **more)
        self.assertIn(str(self.home), error)

    def test_a_socket_path_over_108_bytes(self):
        deep = self.scratch / ("d" * 60) / ("e" * 60) / "home"
        deep.mkdir(parents=True)
        self.home = deep
        self.env["TRAINYARD_HOME"] = str(deep)
        self.assertEqual(self.ok("submit", "-e", "t", "--", "echo", "deep"), "deep\n")
        self.assertGreater(len(str(deep / "socket")), 108)

    def test_a_second_server_refuses_clearly(self):
        self.ok("server", "start")
        pid = self.server_pid()
        error = self.refused(5, "server", "run")
        self.assertIn(str(pid), error)
        self.assertEqual(self.server_pid(), pid)

    def test_a_lock_of_another_host_names_it(self):
        self.ok("server", "start")
        self.ok("server", "stop")
        (self.home / "lock").write_text(json.dumps(
            {"host": "far-away", "pid": 1, "bootId": "x", "port": 1, "started": "2026-01-01T00:00:00Z"}))
        error = self.refused(5, "run", "list")
        self.assertIn("far-away", error)
        (self.home / "lock").unlink()

    def test_a_newer_home_is_refused(self):
        self.ok("server", "start")
        self.ok("server", "stop")
        import sqlite3
        db = sqlite3.connect(self.home / "trainyard.db")
        db.execute("PRAGMA user_version = 9999")
        db.close()
        error = self.refused(5, "run", "list")
        self.assertIn("9999", error)


class Disk(YardTest):
    """A home on a small disk of its own that fills up."""

    def setUp(self):
        super().setUp()
        if os.geteuid() != 0:
            self.skipTest("skipped: mounting a small disk needs root")
        self.home.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=56m", "tmpfs", str(self.home)], check=True)

    def before_removal(self):
        subprocess.run(["umount", "-l", str(self.home)])

    def check_database(self):
        import sqlite3
        db = sqlite3.connect(self.home / "trainyard.db")
        self.assertEqual(db.execute("PRAGMA integrity_check").fetchone(), ("ok",))
        db.close()

    def test_outputs_that_fill_the_disk_fail_the_run_and_nothing_else(self):
        self.ok("submit", "-e", "t", "--", "true")
        done = self.run_cli("submit", "-e", "t", "--", "sh", "-c", "head -c 100M /dev/zero > outputs/big; true")
        self.assertNotEqual(done.code, 0, done)
        run = self.show(self.json("run", "list")[0]["id"])
        self.assertEqual(run["status"], "Failed")
        self.assertIn("no space", (run["error"] + run["reason"]).lower())
        self.check_database()
        # Its folder is removed after its end; then there is space again.
        again = wait_until(lambda: [d for d in [self.run_cli("submit", "-e", "t", "--", "echo", "again")]
                                    if d.code == 0], "new runs are taken again")
        self.assertEqual(again[0].out, "again\n")

    def test_a_console_that_fills_the_disk_fails_the_run(self):
        self.ok("submit", "-e", "t", "--", "true")
        run = self.submit("--", "head", "-c", "200M", "/dev/zero")
        ended = self.finish(run, 60)
        self.assertEqual(ended["status"], "Failed")
        self.assertIn("no space", (ended["error"] + ended["reason"]).lower())
        self.check_database()


class Many(YardTest):
    def test_200_submissions_at_once(self):
        children = [self.start("submit", "--async", "-e", f"e{i % 5}", "--", "true") for i in range(200)]
        ids = []
        for child in children:
            out, err = child.communicate(timeout=120)
            self.assertEqual(child.returncode, 0, err)
            ids.append(out.strip())
        self.assertEqual(len(set(ids)), 200)
        wait_until(lambda: all(r["status"] == "Completed" for r in self.json("run", "list")),
                   "all of them to be done", 120)
        listed = self.json("run", "list")
        self.assertEqual({r["id"] for r in listed}, set(ids))
        self.assertEqual(len(listed), 200)

    def test_the_same_submit_twice_is_one_run(self):
        self.ok("server", "start")
        spec = {"experiment": "e", "command": ["true"], "submitEnvironment": {"PATH": "/usr/bin:/bin"}}
        body = {"id": "twice-1", "spec": spec}
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(self.http("POST", "/api/v1/runs", body)[0]))
                   for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(answers), [200] * 19 + [201])
        other = {"id": "twice-1", "spec": dict(spec, command=["false"])}
        self.assertEqual(self.http("POST", "/api/v1/runs", other)[0], 409)
        self.assertEqual(self.finish("twice-1")["status"], "Completed")
        self.assertEqual(len(self.json("run", "list")), 1)
        self.assertEqual(len(self.show("twice-1")["attempts"]), 1)


if __name__ == "__main__":
    main()
