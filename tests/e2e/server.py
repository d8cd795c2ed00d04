"""The server and its home, users and tokens."""
import json
import os
import pathlib
import resource
import select
import subprocess
import sys
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from yard import YardTest, main, wait_until


class Server(YardTest):
    def get(self, path, token=None, host=None, method="GET", body=None):
        request = urllib.request.Request(self.server()["url"] + path, method=method,
                                         data=None if body is None else json.dumps(body).encode())
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        if host:
            request.add_header("Host", host)
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def test_status_starts_nothing(self):
        self.assertEqual(self.run_cli("server", "status").code, 6)
        self.assertFalse((self.home / "socket").exists())
        self.ok("server", "start")
        status = self.server()
        self.assertEqual({"pid", "url", "socket", "version"} - status.keys(), set())
        self.assertNotIn("token", status)

    def test_how_it_listens_is_kept(self):
        self.ok("server", "start", "--listen", "0.0.0.0:0", "--insecure", "--advertise", "http://gpu-box:1234")
        for _ in range(2):
            self.ok("server", "stop")
            self.ok("run", "list")  # Starts it.
            self.assertEqual(self.server()["url"], "http://gpu-box:1234")
        self.ok("server", "stop")
        self.ok("server", "start", "--listen", "127.0.0.1")
        self.assertTrue(self.server()["url"].startswith("http://127.0.0.1:"))
        self.ok("server", "stop")
        self.ok("run", "list")
        self.assertTrue(self.server()["url"].startswith("http://127.0.0.1:"))

    def test_tcp_needs_a_token_but_for_health_and_version(self):
        self.ok("server", "start")
        self.assertEqual(self.get("/health")[0], 200)
        self.assertEqual(self.get("/version")[0], 200)
        self.assertEqual(self.get("/metrics")[0], 401)
        self.assertEqual(self.get("/api/v1/runs")[0], 401)
        self.assertEqual(self.get("/api/v1/runs", "tyu_wrong")[0], 401)
        token = self.json("server", "status", "--show-token")["token"]
        self.assertEqual(self.get("/api/v1/runs", token)[0], 200)
        self.assertEqual(self.get("/metrics", token)[0], 200)
        self.assertIn(self.get("/api/v1/runs", token, host="evil.example")[0], (400, 403, 421))

    def test_the_socket_is_the_owners_alone(self):
        self.ok("server", "start")
        self.assertEqual((self.home / "socket").stat().st_mode & 0o777, 0o600)
        self.assertEqual(self.home.stat().st_mode & 0o077, 0)

    def test_a_remote_client_submits_over_tcp(self):
        self.ok("server", "start")
        env = {"TRAINYARD_SERVER": self.server()["url"],
               "TRAINYARD_TOKEN": self.json("server", "status", "--show-token")["token"]}
        self.write("a.txt", "over tcp")
        done = self.run_cli("submit", "-e", "t", "--", "cat", "a.txt", env=env)
        self.assertEqual((done.code, done.out), (0, "over tcp"), done)

    def test_roles(self):
        self.ok("user", "create", "rita", "--role", "reader")
        self.ok("user", "create", "sam", "--role", "submitter")
        url = self.server()["url"]
        tokens = {name: self.json("token", "create", "--user", name)["token"] for name in ("rita", "sam")}
        def as_user(name, *args):
            return self.run_cli(*args, env={"TRAINYARD_SERVER": url, "TRAINYARD_TOKEN": tokens[name]})
        self.assertEqual(as_user("rita", "run", "list").code, 0)
        self.assertEqual(as_user("rita", "submit", "--async", "-e", "t", "--", "true").code, 3)
        done = as_user("sam", "submit", "-e", "t", "--", "true")
        self.assertEqual(done.code, 0, done)
        self.assertEqual(self.json("run", "list")[0]["user"], "sam")
        self.assertEqual(as_user("sam", "user", "create", "eve").code, 3)
        listed = self.json("token", "list")
        self.assertFalse(any(tokens["sam"] in json.dumps(t) for t in listed))
        sams = next(t["id"] for t in listed if t["user"] == "sam")
        self.ok("token", "revoke", str(sams))
        self.assertEqual(as_user("sam", "run", "list").code, 3)

    def test_backup_and_restore(self):
        self.write("a.txt", "precious")
        self.ok("submit", "-e", "t", "--", "sh", "-c", "echo said; cp a.txt outputs/b.txt")
        run = self.json("run", "list")[0]["id"]
        self.ok("server", "backup", self.scratch / "backup")
        self.ok("server", "check")
        self.ok("server", "stop")
        self.env["TRAINYARD_HOME"] = str(self.scratch / "second")
        self.home = self.scratch / "second"
        self.ok("server", "restore", self.scratch / "backup")
        self.assertEqual(self.console(run), "said\n")
        self.ok("run", "download", run, "-d", self.scratch / "got")
        self.assertEqual(next((self.scratch / "got").rglob("b.txt")).read_text(), "precious")
        self.ok("run", "download", run, "--snapshot", "-d", self.scratch / "code2")
        self.assertEqual((self.scratch / "code2" / "a.txt").read_text(), "precious")
        self.ok("server", "check")

    def test_check_finds_what_is_missing(self):
        self.write("a.txt", "precious")
        self.ok("submit", "-e", "t", "--", "true")
        for blob in (self.home / "blobs").rglob("*"):
            if blob.is_file() and blob.read_bytes() == b"precious":
                blob.unlink()
        done = self.run_cli("server", "check")
        self.assertNotEqual(done.code, 0, done)

    def test_the_own_log_is_structured_and_keeps_no_secret(self):
        token = None
        self.ok("submit", "-e", "t", "--", "true")
        token = self.json("server", "status", "--show-token")["token"]
        self.get("/api/v1/nothing", token)
        self.ok("server", "stop")
        text = (self.home / "log" / "server.log").read_text()
        self.assertNotIn(token, text)
        for line in text.splitlines():
            self.assertEqual({"at", "level", "event"} - json.loads(line).keys(), set())

    def test_metrics_count_runs(self):
        self.ok("submit", "-e", "t", "--", "true")
        status, text = self.http("GET", "/metrics")
        self.assertEqual(status, 200)
        self.assertIn('trainyard_runs{status="Completed"} 1', text.decode())

    def test_the_server_may_have_many_files_open_and_runs_as_many_as_its_user_says(self):
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        few = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (321, hard))}
        self.ok("server", "start", **few)
        limits = pathlib.Path(f"/proc/{self.server_pid()}/limits").read_text()
        [line] = [line for line in limits.splitlines() if line.startswith("Max open files")]
        self.assertEqual(line.split()[3:5], [str(hard), str(hard)])
        said = self.ok("submit", "-e", "t", "--", "sh", "-c", "ulimit -Sn; ulimit -Hn", **few)
        self.assertEqual(said, f"321\n{hard}\n")

    def test_connections_leave_the_server_the_files_that_it_needs_for_its_work(self):
        tight = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 200))
        self.ok("server", "start", preexec_fn=tight)
        held = [self.socket() for _ in range(170)]  # 150 are taken; the others are closed at once.
        closed = lambda: select.select(held, [], [], 0)[0]
        wait_until(lambda: len(closed()) >= 20, "too many connections to be closed")
        self.assertLess(len(closed()), 25)
        for connection in held[:20]:
            connection.close()
        wait_until(lambda: self.run_cli("submit", "-e", "t", "--", "true").code == 0, "a run beside them")

    def test_workspaces_and_experiments(self):
        self.assertEqual([w["name"] for w in self.json("workspace", "list")], ["default"])
        self.ok("workspace", "create", "--workspace_name", "lab", "-g", "group", "-l", "westeurope")
        self.assertEqual(self.json("workspace", "show", "--workspace_name=lab")["location"], "westeurope")
        self.assertEqual({w["name"]: w["location"] for w in self.json("workspace", "list")},
                         {"default": "", "lab": "westeurope"})
        self.refused(5, "workspace", "create", "-n", "lab")
        self.ok("submit", "-w", "lab", "-e", "näme / any", "--", "true")
        self.assertEqual([e["name"] for e in self.json("experiment", "list", "-w", "lab")], ["näme / any"])
        self.assertEqual(self.json("experiment", "list"), [])
        self.assertEqual(self.json("workspace", "show", "-w", "lab")["resourceGroup"], "group")
        (self.code / ".azureml").mkdir()
        (self.code / ".azureml" / "config.json").write_text(
            '{"subscription_id": "s", "resource_group": "group", "workspace_name": "lab"}')
        (self.code / "sub").mkdir()
        self.ok("submit", "-e", "x", "--", "true", cwd=self.code / "sub")
        self.assertEqual(self.json("run", "list", "-w", "lab")[0]["experiment"], "x")
        self.refused(4, "run", "list", "-w", "nowhere")
        self.ok("workspace", "delete", "-w", "lab", "-y")
        self.refused(4, "workspace", "show", "-w", "lab")


if __name__ == "__main__":
    main()
