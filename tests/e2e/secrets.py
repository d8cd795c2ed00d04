"""Secrets: given without being seen, handed to the runs that name them, and found nowhere else."""
import base64
import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import pty
import signal
import stat
import subprocess
import sys
import termios
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from yard import TRAINYARD, YardTest, alive, main, wait_until

VALUE = 'Tr0ub4dor&3/+="q x-7f3a'
FORMS = (VALUE, base64.b64encode(VALUE.encode()).decode(), urllib.parse.quote(VALUE), json.dumps(VALUE)[1:-1])
SHOW_HASH = ("sh", "-c", 'printf %s "$API_KEY" | sha256sum')
HASH = hashlib.sha256(VALUE.encode()).hexdigest()


class Secrets(YardTest):
    def set(self, name="API_KEY", value=VALUE, *more, **how):
        return self.ok("secret", "set", name, *more, stdin=None, input=value + "\n", **how)

    def set_fails(self, code, *args, **how):
        return self.refused(code, "secret", "set", *args, **how)

    def hash_in_a_run(self, *more, **how):
        return self.ok("submit", "-e", "t", "--secret", "API_KEY", *more, "--", *SHOW_HASH, **how).split()[0]

    def assert_hidden(self, text, where):
        if isinstance(text, bytes):
            text = text.decode(errors="replace")
        for form in FORMS:
            self.assertNotIn(form, text, where)

    def assert_no_file_has_it(self, root):
        looked = 0
        for path in root.rglob("*"):
            with contextlib.suppress(FileNotFoundError):
                if not path.is_symlink() and path.is_file() and path.name != "secrets.key":
                    self.assert_hidden(path.read_bytes(), path)
                    looked += 1
        self.assertGreater(looked, 5)


class Giving(Secrets):
    def test_by_the_standard_input_and_by_a_file(self):
        answer = self.set()
        self.assertEqual(json.loads(answer)["name"], "API_KEY")
        self.assert_hidden(answer, "what set prints")
        self.assertEqual(self.hash_in_a_run(), HASH)
        file = self.write("../key.txt", "of the file 1\r\n")
        self.ok("secret", "set", "API_KEY", "--file", file)
        self.assertEqual(self.hash_in_a_run(), hashlib.sha256(b"of the file 1").hexdigest())
        self.ok("secret", "set", "-n", "API_KEY", "-f", self.write("../two.txt", "two\nlines\n\n"))
        self.assertEqual(self.hash_in_a_run(), hashlib.sha256(b"two\nlines\n").hexdigest())

    def test_as_an_argument_is_warned_of_and_not_seen_by_ps(self):
        self.ok("server", "start")
        server = self.server_pid()
        for words in (["--value", VALUE], [VALUE], [f"--value={VALUE}"]):
            # A server that does not answer keeps the command waiting, for as long as we look.
            os.kill(server, signal.SIGSTOP)
            try:
                child = self.start("secret", "set", "API_KEY", *words)
                line = pathlib.Path(f"/proc/{child.pid}/cmdline")
                wait_until(lambda: b"secret" not in line.read_bytes(), "the arguments to be wiped", 10)
                self.assertTrue(alive(child.pid))
                self.assertIsNone(child.poll())
                listed = subprocess.run(["ps", "-ww", "-e", "-o", "args"], capture_output=True, text=True)
                self.assert_hidden(listed.stdout, "ps")
            finally:
                os.kill(server, signal.SIGCONT)
            out, err = child.communicate(timeout=30)
            self.assertEqual(child.returncode, 0, err)
            self.assertIn("warning: ", err)
            self.assertIn("history", err)
            self.assert_hidden(out + err, "what set prints")
            self.assertEqual(self.hash_in_a_run(), HASH)

    def test_what_is_no_value_or_no_name_is_refused(self):
        for empty in ("", "\n"):
            self.assertIn("empty", self.set_fails(2, "API_KEY", stdin=None, input=empty))
        self.assertIn("nothing.txt", self.set_fails(4, "API_KEY", "--file", "nothing.txt"))
        self.set_fails(2, "API_KEY", "--file", ".")
        self.assertIn("twice", self.set_fails(2, "API_KEY", "--value", VALUE, "--file", "key.txt"))
        self.assertIn("twice", self.set_fails(2, "API_KEY", VALUE, "--value", VALUE))
        self.assertIn("twice", self.set_fails(2, "-n", "API_KEY", "OTHER", VALUE))
        self.set_fails(2)
        self.set_fails(2, "a key", stdin=None, input=VALUE)
        self.set_fails(2, "../key", stdin=None, input=VALUE)
        self.set_fails(2, "API_KEY", stdin=None, input="a\0b")
        self.assertIn("64 kB", self.set_fails(2, "API_KEY", stdin=None, input="x" * 70_000))
        self.assertIn("1 MB", self.set_fails(2, "API_KEY", stdin=None, input="x" * 2_000_000))
        self.assertEqual(self.json("secret", "list"), [])

    def test_a_value_too_short_to_be_masked_is_warned_of(self):
        done = self.run_cli("secret", "set", "PIN", stdin=None, input="x%z\n")
        self.assertEqual(done.code, 0, done)
        self.assertIn("short", done.err)
        self.assertNotIn("x%z", done.err + done.out)
        done = self.run_cli("secret", "set", "PIN", stdin=None, input="1234\n")
        self.assertEqual((done.code, done.err), (0, ""), done)

    def test_the_list_has_names_and_no_values(self):
        self.set("FIRST")
        self.set("SECOND", "another value")
        listed = self.json("secret", "list")
        self.assertEqual([s["name"] for s in listed], ["SECOND", "FIRST"])
        self.assertEqual({*listed[0]}, {"name", "createdBy", "createdAt", "changedAt"})
        self.assert_hidden(json.dumps(listed), "the list")
        self.assertEqual(self.ok("secret", "list", "--last", "1", "--query", "[].name", "-o", "tsv"), "SECOND\n")
        self.set("FIRST", "changed by now")
        again = {s["name"]: s for s in self.json("secret", "list")}["FIRST"]
        self.assertEqual(again["createdAt"], listed[1]["createdAt"])
        self.assertGreater(again["changedAt"], listed[1]["changedAt"])
        self.assertIn("FIRST", self.refused(4, "secret", "delete", "FIRS"))
        self.ok("secret", "delete", "FIRST")
        self.refused(4, "secret", "delete", "FIRST")
        self.assertEqual([s["name"] for s in self.json("secret", "list")], ["SECOND"])


class AtATerminal(Secrets):
    def typed(self, keys):
        """`secret set API_KEY` in a terminal of its own, with these keys -> (exit code, all it showed)."""
        terminal, end = pty.openpty()
        self.addCleanup(os.close, terminal)
        self.addCleanup(os.close, end)  # Its settings last as long as somebody has it open.
        os.set_blocking(terminal, False)
        child = subprocess.Popen([TRAINYARD, "secret", "set", "API_KEY"], cwd=self.code, env=self.env,
                                 stdin=end, stdout=end, stderr=end, start_new_session=True,
                                 preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.echoes = lambda: bool(termios.tcgetattr(end)[3] & termios.ECHO)
        shown = b""

        def read():
            nonlocal shown
            with contextlib.suppress(BlockingIOError):
                shown += os.read(terminal, 65536)
            return shown
        wait_until(lambda: b"API_KEY: " in read(), "the prompt")
        self.assertFalse(self.echoes())
        os.write(terminal, keys)
        wait_until(lambda: (read(), child.poll())[1] is not None, "the command to end")
        read()
        return child.returncode, shown.decode()

    def test_the_prompt_shows_nothing_of_what_is_typed(self):
        code, shown = self.typed(VALUE.encode() + b"z\x7f\n")
        self.assertEqual(code, 0, shown)
        self.assert_hidden(shown, "the terminal")
        self.assertNotIn("Tr0ub", shown)
        self.assertTrue(self.echoes())
        self.assertEqual(self.hash_in_a_run(), HASH)

    def test_ctrl_c_at_the_prompt_leaves_a_terminal_that_echoes(self):
        for keys, code in ((b"half\x03", 130), (b"half\x1c", 130), (b"\x04", 2)):
            got, shown = self.typed(keys)
            self.assertEqual(got, code, shown)
            self.assertTrue(self.echoes(), keys)
        self.assertEqual(self.json("secret", "list"), [])


class InARun(Secrets):
    def setUp(self):
        super().setUp()
        self.set()

    def test_it_is_masked_wherever_the_run_printed_it(self):
        self.write("tell.py", """
import base64, json, os, pathlib, sys, time, urllib.parse
def wait_for(name):
    while not pathlib.Path(name).exists(): time.sleep(0.01)
key = os.environ['API_KEY']
print('plain', key, flush=True)
print('error', key, file=sys.stderr, flush=True)
print('base64', base64.b64encode(key.encode()).decode(), flush=True)
print('basic', base64.b64encode(('user:' + key).encode()).decode(), flush=True)
print('url', urllib.parse.quote(key), flush=True)
print('json', json.dumps({'key': key}), flush=True)
os.write(1, ('half ' + key[:9]).encode())
wait_for('go')
os.write(1, (key[9:] + ' whole\\n').encode())
for c in 'slow ' + key + ' end\\n': os.write(1, c.encode())
wait_for('end')
""")
        child = self.start("submit", "-e", "t", "--secret", "API_KEY", "--", "python3", "tell.py")
        run = wait_until(lambda: self.json("run", "list"), "the run")[0]["id"]
        wait_until(lambda: "half" in self.console(run), "the first half to be written")
        self.assert_hidden(self.console(run), "the console")
        self.assertNotIn(VALUE[:9], self.console(run))
        work = self.home / "node" / f"{run}.1" / "work"
        (work / "go").touch()
        wait_until(lambda: "end" in self.console(run), "all to be written")
        self.assert_no_file_has_it(self.home)
        (work / "end").touch()
        out, err = child.communicate(timeout=30)
        self.assertEqual(child.returncode, 0, err)
        self.assert_hidden(out + err, "what submit shows")
        for line in ("plain ***\n", "base64 ***\n", "url ***\n", "half *** whole\n", "slow *** end\n"):
            self.assertIn(line, out)
        self.assertIn("error ***\n", err)

        self.assert_hidden(self.console(run), "run logs")
        self.assertIn("half *** whole\n", self.console(run))
        self.ok("run", "download-logs", run, "-d", self.scratch / "logs")
        found = "".join(f.read_text() for f in (self.scratch / "logs").rglob("*") if f.is_file())
        self.assertIn("plain ***\n", found)
        self.assert_hidden(found, "downloaded logs")
        for file in ("stdout.txt", "stderr.txt", "user_logs/std_log.txt", "azureml-logs/70_driver_log.txt"):
            status, body = self.http("GET", f"/api/v1/runs/{run}/files/{file}")
            self.assertEqual(status, 200)
            self.assertIn(b"***", body)
            self.assert_hidden(body, file)
        self.assert_no_file_has_it(self.home)

    def test_it_is_masked_in_files_of_logs_and_in_commands_on_its_node(self):
        self.write("log.py", """
import os, pathlib, time
with open('logs/own.txt', 'w', buffering=1) as log:
    log.write('key ' + os.environ['API_KEY'] + ' end\\n')
    while not pathlib.Path('end').exists(): time.sleep(0.01)
    log.write('half ' + os.environ['API_KEY'][:9])
""")
        run = self.submit("--secret", "API_KEY", "--", "python3", "log.py")
        self.wait_for_status(run, "Running")
        out = self.ok("node", "exec", "-r", run, "--", "sh", "-c", 'echo "it is $API_KEY."; printf %s "$API_KEY" | base64')
        self.assert_hidden(out, "node exec")
        self.assertIn("it is ***.\n", out)
        (self.home / "node" / f"{run}.1" / "work" / "end").touch()
        self.finish(run)
        status, body = self.http("GET", f"/api/v1/runs/{run}/files/logs/own.txt")
        self.assertEqual(status, 200)
        self.assert_hidden(body, "logs/own.txt")
        self.assertEqual(body.decode(), f"key {'*' * len(VALUE)} end\nhalf {VALUE[:9]}")
        self.assert_no_file_has_it(self.home)

    def test_no_description_of_a_run_has_it(self):
        self.ok("submit", "-e", "t", "--secret", "API_KEY", "--", *SHOW_HASH)
        run = self.json("run", "list")[0]["id"]
        self.ok("run", "rerun", run, "-t", self.scratch / "rerun.json")
        again = self.json("run", "list")[0]
        self.assertEqual(again["secrets"], ["API_KEY"])
        for words in (["run", "show", run], ["run", "list"], ["run", "diff", run, again["id"], "--all"],
                      ["secret", "list"], ["job", "show", run]):
            self.assert_hidden(self.ok(*words, "-o", "json"), words)
        for route in (f"runs/{run}/spec", f"runs/{run}", f"runs/{run}/attempts/1/secrets",
                      "workspaces/default/secrets", "workspaces/default/secrets/API_KEY"):
            self.assert_hidden(self.http("GET", f"/api/v1/{route}")[1], route)
        status, _ = self.http("GET", f"/api/v1/runs/{run}/attempts/1/secrets")
        self.assertEqual(status, 403)
        self.assert_hidden((self.scratch / "rerun.json").read_text(), "-t")

    def test_neither_the_servers_log_nor_a_backup_has_it(self):
        self.ok("server", "stop")
        self.ok("server", "start", "--debug")
        done = self.run_cli("secret", "set", "API_KEY", "--debug", stdin=None, input=VALUE)
        self.assertEqual(done.code, 0, done)
        self.assert_hidden(done.out + done.err, "--debug")
        done = self.run_cli("submit", "--debug", "-e", "t", "--secret", "API_KEY", "--",
                            "sh", "-c", 'echo "$API_KEY"; exit 3')
        self.assertEqual(done.code, 3, done)
        self.assert_hidden(done.out + done.err, "submit --debug")
        self.assert_hidden((self.home / "log" / "server.log").read_bytes(), "server.log")
        self.ok("server", "backup", self.scratch / "backup")
        self.assert_no_file_has_it(self.scratch / "backup")

    def test_a_backup_keeps_them_usable(self):
        self.ok("server", "backup", self.scratch / "backup")
        self.assertEqual(stat.S_IMODE((self.scratch / "backup" / "secrets.key").stat().st_mode), 0o600)
        self.ok("server", "stop")
        self.home = self.scratch / "second"
        self.env["TRAINYARD_HOME"] = str(self.home)
        self.ok("server", "restore", self.scratch / "backup")
        self.assertEqual(stat.S_IMODE((self.home / "secrets.key").stat().st_mode), 0o600)
        self.assertEqual(self.hash_in_a_run(), HASH)

    def test_the_key_file_is_the_owners_alone(self):
        key = self.home / "secrets.key"
        self.assertEqual(stat.S_IMODE(key.stat().st_mode), 0o600)
        self.ok("server", "stop")
        key.chmod(0o640)
        error = self.set_fails(3, "OTHER", stdin=None, input=VALUE)
        self.assertIn("secrets.key", error)
        self.assertIn("chmod 600", error)
        done = self.run_cli("submit", "-e", "t", "--secret", "API_KEY", "--", "touch", "outputs/ran")
        self.assertNotEqual(done.code, 0, done)
        self.assertIn("can be read or written by others", done.err)
        self.assertIsNone(self.json("run", "list")[0]["outputsId"])
        self.assertEqual(self.ok("submit", "-e", "t", "--", "echo", "without"), "without\n")
        key.chmod(0o600)
        self.assertEqual(self.hash_in_a_run(), HASH)

    def test_a_run_that_does_not_name_it_does_not_have_it(self):
        self.set("OTHER", "another value")
        self.assertNotIn("API_KEY=", self.ok("submit", "-e", "t", "--secret", "OTHER", "--", "env"))
        self.write("ask.py", """
import json, os, sys, urllib.request, urllib.error
def ask(run):
    request = urllib.request.Request(f"{os.environ['TRAINYARD_SERVER']}/api/v1/runs/{run}/attempts/1/secrets",
                                     headers={'Authorization': 'Bearer ' + os.environ['TRAINYARD_TOKEN']})
    try: return sorted(json.load(urllib.request.urlopen(request))['secrets'])
    except urllib.error.HTTPError as error: return error.code
print(ask(os.environ['TRAINYARD_RUN_ID']), ask(sys.argv[1]))
""")
        named = self.submit("--secret", "API_KEY", "--", "true")
        self.assertEqual(self.ok("submit", "-e", "t", "--secret", "OTHER", "--", "python3", "ask.py", named),
                         "['OTHER'] 403\n")

    def test_one_that_does_not_exist_is_refused_with_the_nearest(self):
        error = self.refused(4, "submit", "-e", "t", "--secret", "API_KYE", "--", "true")
        self.assertIn("API_KYE", error)
        self.assertIn("Did you mean 'API_KEY'?", error)
        self.refused(2, "submit", "-e", "t", "--secret", "no name", "--", "true")
        self.refused(2, "submit", "-e", "t", "--secret", "API_KEY", "--env-var", "API_KEY=seen", "--", "true")
        self.assertEqual(self.json("run", "list"), [])

    def test_one_of_another_workspace_is_out_of_reach(self):
        self.ok("workspace", "create", "-n", "lab")
        self.set("LAB_KEY", VALUE, "-w", "lab")
        self.refused(4, "submit", "-e", "t", "--secret", "LAB_KEY", "--", "true")
        self.refused(4, "submit", "-w", "lab", "-e", "t", "--secret", "API_KEY", "--", "true")
        self.refused(4, "secret", "delete", "LAB_KEY")
        self.assertEqual([s["name"] for s in self.json("secret", "list", "-w", "lab")], ["LAB_KEY"])
        self.assertEqual([s["name"] for s in self.json("secret", "list")], ["API_KEY"])
        # The same name is another secret there.
        self.set("API_KEY", "the lab's own", "-w", "lab")
        self.assertEqual(self.hash_in_a_run("-w", "lab"), hashlib.sha256(b"the lab's own").hexdigest())
        self.assertEqual(self.hash_in_a_run(), HASH)

    def test_a_run_whose_secret_was_deleted_fails_before_its_program_runs(self):
        cpus = str(len(os.sched_getaffinity(0)))
        blocker = self.submit("--cpus", cpus, "--", "sh", "-c", "until test -e go; do sleep 0.01; done")
        run = self.submit("--secret", "API_KEY", "--", "sh", "-c", "echo ran; touch outputs/ran")
        self.assertEqual(self.show(run)["status"], "Queued")
        self.ok("secret", "delete", "API_KEY")
        self.wait_for_status(blocker, "Running")
        (self.home / "node" / f"{blocker}.1" / "work" / "go").touch()
        ended = self.finish(run)
        self.assertEqual(ended["status"], "Failed")
        self.assertIn("API_KEY", ended["reason"])
        self.assertIn("does not exist", ended["reason"])
        self.assertEqual((self.console(run), ended["outputsId"]), ("", None))
        self.refused(4, "run", "rerun", run)

    def test_a_changed_one_reaches_the_next_run(self):
        self.assertEqual(self.hash_in_a_run(), HASH)
        self.set("API_KEY", "changed by now")
        self.assertEqual(self.hash_in_a_run(), hashlib.sha256(b"changed by now").hexdigest())
        run = self.json("run", "list")[-1]["id"]
        self.assertEqual(self.ok("run", "rerun", run).split()[0], hashlib.sha256(b"changed by now").hexdigest())

    def test_such_a_run_leaves_no_core(self):
        self.assertEqual(self.ok("submit", "-e", "t", "--secret", "API_KEY", "--",
                                 "sh", "-c", "ulimit -c; ulimit -H -c"), "0\n0\n")

    def test_a_reader_may_not_set_or_delete_one(self):
        self.ok("user", "create", "rita", "--role", "reader")
        self.ok("user", "create", "sam", "--role", "submitter")
        url = self.server()["url"]
        def seen_by(name):
            return {"TRAINYARD_SERVER": url, "TRAINYARD_TOKEN": self.json("token", "create", "--user", name)["token"]}
        rita, sam = seen_by("rita"), seen_by("sam")
        self.set_fails(3, "OTHER", stdin=None, input=VALUE, env=rita)
        self.refused(3, "secret", "delete", "API_KEY", env=rita)
        self.assertEqual([s["name"] for s in self.json("secret", "list", env=rita)], ["API_KEY"])
        self.set("OTHER", VALUE, env=sam)
        self.assertEqual(self.json("secret", "list")[0]["createdBy"], "sam")


if __name__ == "__main__":
    main()
