"""What people may do on a server for a team, and what is left of it a moment after it was taken away."""
import json
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from yard import YardTest, alive, main, wait_until

HOLD = """
import os, time
with open(os.environ["NOTE"] + ".new", "w") as note:
    note.write(os.environ["TRAINYARD_TOKEN"] + " " + str(os.getpid()))
os.rename(os.environ["NOTE"] + ".new", os.environ["NOTE"])
time.sleep(600)
"""
STOPPED_S = 1.0  # What a right may outlive its end.


class Rights(YardTest):
    def setUp(self):
        super().setUp()
        self.write("hold.py", HOLD)
        self.note = self.scratch / "note"
        self.ok("server", "start")
        self.url = self.server()["url"]

    def person(self, name, role="submitter", *more):
        self.ok("user", "create", name, "--role", role)
        token = self.json("token", "create", "--user", name, *more)["token"]
        return {"TRAINYARD_HOME": str(self.scratch / name), "TRAINYARD_SERVER": self.url, "TRAINYARD_TOKEN": token}

    def hold(self, person, *more):
        """A run of theirs that is live, its attempt's token and the pid of its script."""
        run = self.submit("--target", "server", "--env-var", f"NOTE={self.note}", *more, "--", "python3", "hold.py",
                          env=person)
        token, _ = wait_until(lambda: self.note.exists() and self.note.read_text().split(), "the script runs")
        return run, token

    def status_of(self, token, path="/api/v1/runs"):
        status, body = self.http("GET", path, headers={"Authorization": f"Bearer {token}"})
        return status, body.decode()

    def assert_ended(self, run, token, why):
        """The token stops at once, its processes go, the run says why."""
        begun = time.monotonic()
        status, body = self.status_of(token)
        self.assertLess(time.monotonic() - begun, STOPPED_S)
        self.assertEqual(status, 409, body)
        self.assertIn(why, body)
        ended = self.finish(run)
        self.assertEqual(ended["status"], "Canceled")
        self.assertEqual(ended["error"], why)
        wait_until(lambda: not self.live_supervisors(), "no process of it is left")

    def test_a_deleted_users_runs_end_and_their_tokens_stop(self):
        sam = self.person("sam")
        run, token = self.hold(sam)
        self.assertEqual(self.status_of(token)[0], 200)
        self.ok("user", "delete", "sam", "--yes")
        self.assertEqual(self.status_of(sam["TRAINYARD_TOKEN"])[0], 401)
        self.assert_ended(run, token, "user 'sam' was deleted")

    def test_a_demoted_users_runs_end(self):
        sam = self.person("sam")
        run, token = self.hold(sam)
        self.assertEqual(self.json("user", "update", "sam", "--role", "reader")["role"], "reader")
        self.assert_ended(run, token, "user 'sam' is reader now")
        self.assertIn("needs the role submitter", self.refused(3, "submit", "--", "true", env=sam))

    def test_a_workspace_for_its_members(self):
        ann, bob = self.person("ann"), self.person("bob")
        self.ok("workspace", "create", "-w", "vision")
        self.ok("secret", "set", "KEY", "-w", "vision", stdin=None, input="s3same\n")
        self.ok("run", "list", "-w", "vision", env=bob)
        done = self.run_cli("workspace", "share", "add", "-w", "vision", "--user", "ann", "--role", "submitter")
        self.assertEqual(done.code, 0, done)
        self.assertIn("is for its members now", done.err)
        self.assertEqual([m["user"] for m in self.json("workspace", "share", "list", "-w", "vision")], ["ann"])
        self.assertIn("vision", [w["name"] for w in self.json("workspace", "list", env=ann)])
        self.assertNotIn("vision", [w["name"] for w in self.json("workspace", "list", env=bob)])
        for args in (("run", "list"), ("secret", "list"), ("compute", "list"), ("environment", "list"),
                     ("workspace", "share", "list"), ("workspace", "show"), ("secret", "delete", "KEY", "--yes"),
                     ("experiment", "list"), ("submit", "--target", "server", "-e", "t")):
            words = (*args, "-w", "vision", *(("--", "true") if args[0] == "submit" else ()))
            self.assertIn("not a member of workspace 'vision'", self.run_cli(*words, env=bob).err, words)
        run, token = self.hold(ann, "-w", "vision")
        self.refused(3, "run", "show", run, env=bob)
        self.assertEqual([r["id"] for r in self.json("run", "list", "-w", "vision", env=ann)], [run])
        self.ok("workspace", "share", "remove", "-w", "vision", "--user", "ann")
        self.assert_ended(run, token, "user 'ann' is no member of workspace 'vision' any more")
        self.ok("workspace", "update", "-w", "vision", "--access", "everyone")
        self.ok("run", "list", "-w", "vision", env=bob)

    def test_tokens_hand_on_no_more_than_they_have(self):
        sam = self.person("sam", "submitter", "--expires", "1h")
        self.assertIn("cannot be good for longer", self.refused(3, "token", "create", "--expires", "2h", env=sam))
        self.assertIn("cannot have more", self.refused(3, "token", "create", "--role", "admin", env=sam))
        child = self.json("token", "create", "--role", "reader", env=sam)
        self.assertIsNotNone(child["expiresAt"])
        self.assertEqual(self.status_of(child["token"])[0], 200)
        self.ok("token", "revoke", child["parent"])
        self.assertEqual(self.status_of(child["token"])[0], 401)

    def test_a_scripts_children_have_only_its_secrets(self):
        for name in ("MINE", "OTHER"):
            self.ok("secret", "set", name, stdin=None, input=f"value-{name}\n")
        _, token = self.hold(self.person("sam"), "--secret", "MINE")
        spec = {"workspace": "default", "experiment": "e", "command": ["env"]}
        answers = [self.http("POST", "/api/v1/runs", {"id": f"child-{name}".lower(), "spec": dict(spec, secrets=[name])},
                             {"Authorization": f"Bearer {token}"}) for name in ("MINE", "OTHER")]
        self.assertEqual([status for status, _ in answers], [201, 403], answers)
        self.assertIn("does not name the secret 'OTHER'", json.loads(answers[1][1])["error"]["message"])


class Home(YardTest):
    def test_what_was_open_to_others_is_closed_with_a_line_in_the_log(self):
        self.ok("server", "start")
        self.ok("server", "stop")
        wait_until(lambda: self.run_cli("server", "status").code == 6, "the server is gone")
        for path, mode in ((".", 0o755), ("runs", 0o777), ("trainyard.db", 0o644)):
            os.chmod(self.home / path, mode)
        self.ok("server", "start")
        for path, mode in ((".", 0o700), ("runs", 0o700), ("trainyard.db", 0o600)):
            self.assertEqual((self.home / path).stat().st_mode & 0o777, mode, path)
        for file in self.home.glob("trainyard.db*"):
            self.assertEqual(file.stat().st_mode & 0o777, 0o600, file)
        self.assertIn("was open to others", (self.home / "log" / "server.log").read_text())


class Texts(YardTest):
    def test_no_text_of_a_run_moves_the_cursor(self):
        evil = "\x1b]0;owned\x07\x1b[2J\u009b31m"
        run = self.submit("--name", evil + "name", "--tag", f"k={evil}", "--", "sh", "-c", "exit 3")
        self.finish(run)
        self.http("PATCH", f"/api/v1/runs/{run}", {"description": evil})
        for args in (("run", "wait", run), ("run", "show", run, "-o", "table"), ("run", "list", "-o", "table"),
                     ("run", "show", run, "-o", "json"), ("run", "show", run, "-o", "yaml"), ("run", "list", "-o", "tsv"),
                     ("job", "stream", "-n", run), ("run", "show", "no\x1b[2Jsuch")):
            done = self.run_cli(*args)
            for text in (done.out, done.err):
                self.assertNotIn("\x1b", text, args)
                self.assertNotIn("\u009b", text, args)
                self.assertNotIn("\x07", text, args)


if __name__ == "__main__":
    main()
