"""What a person meets at a terminal: lists, short forms, several runs at once, saved settings, dry runs."""
import fcntl
import json
import os
import pathlib
import pty
import struct
import subprocess
import sys
import termios

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from yard import TRAINYARD, YardTest, main


class Keyboard(YardTest):
    def setUp(self):
        super().setUp()
        self.env["XDG_CONFIG_HOME"] = str(self.scratch / "config")
        self.env.pop("NO_COLOR", None)
        self.env["TERM"] = "xterm"

    def on_terminal(self, *args, width=100, env=None):
        """Runs a command with all three on a terminal; returns what it showed."""
        above, below = pty.openpty()
        fcntl.ioctl(below, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
        child = subprocess.Popen([TRAINYARD, *map(str, args)], cwd=self.code, env=dict(self.env, **(env or {})),
                                 stdin=below, stdout=below, stderr=below, start_new_session=True)
        os.close(below)
        shown = b""
        while True:
            try:
                piece = os.read(above, 65536)
            except OSError:
                break
            if not piece:
                break
            shown += piece
        os.close(above)
        self.last_code = child.wait(60)
        return shown.decode().replace("\r\n", "\n")

    # ---- lists ----

    def test_a_large_snapshot_shows_how_far_it_is(self):
        with open(self.code / "large.bin", "wb") as file:
            file.truncate(3 << 30)  # Takes no disk; reading it takes more than the half second without a word.
        shown = self.on_terminal("submit", "--dry-run", "--", "true")
        self.assertRegex(shown, r"read  \d+ files, [\d.]+ [MG]B")

    def test_a_list_shows_names_and_says_what_to_do_when_it_is_empty(self):
        self.assertIn("start one with: trainyard submit", self.on_terminal("run", "list"))
        done = self.run_cli("run", "list")
        self.assertEqual((done.out, done.err), ("[]\n", ""))
        run = self.submit("--name", "my try", "--", "true")
        self.finish(run)
        self.assertIn("fits; all of them are listed by", self.on_terminal("ps", "--status", "failed"))
        lines = self.ok("ps", "-o", "table", "--status", "COMPLETED,failed").splitlines()
        self.assertEqual(lines[0].split()[:3], ["RUN", "NAME", "EXPERIMENT"])
        self.assertIn(f"{run}  my try", lines[1])
        self.assertEqual(self.ok("run", "list", "-o", "tsv").split("\t")[:3], [run, "my try", "test"])
        self.assertIn("later version", self.refused(2, "run", "list", "--order-by", "name"))

    def test_a_table_fits_the_terminal_and_states_are_coloured(self):
        self.submit("--name", "n" * 60, "--", "false")
        self.assertEqual(self.run_cli("run", "wait", "latest").code, 1)
        text = self.on_terminal("run", "list", width=90)
        self.assertIn("\x1b[31mFailed\x1b[0m", text)
        self.assertIn("…", text)
        plain = self.on_terminal("run", "list", width=90, env={"NO_COLOR": "1"})
        self.assertNotIn("\x1b", plain)
        self.assertTrue(all(len(line) <= 90 for line in plain.splitlines()), plain)
        self.assertNotIn("\x1b", self.on_terminal("run", "list", env={"TERM": "dumb"}))
        self.assertIn("n" * 60, self.ok("run", "list", "-o", "table"))
        self.assertIn("\x1b[31mFailed, exit 1\x1b[0m", self.on_terminal("run", "show", "latest"))
        self.assertIn("\x1b[31merror:\x1b[0m", self.on_terminal("run", "show", "nothing-like-it"))

    def test_long_metrics_are_summarised(self):
        self.write("train.py", "from trainyard import Run\nrun = Run.get_context()\nrun.log('loss', 0.5)\n"
                   "labels = [str(i) for i in range(10)]\n"
                   "run.log_confusion_matrix('cm', {'class_labels': labels, 'matrix': [[1] * 10] * 10})\n")
        run = self.submit("--", "python3", "train.py")
        self.assertEqual(self.finish(run)["status"], "Completed")
        text = self.ok("run", "show", run, "-o", "table")
        self.assertRegex(text, r"cm +matrix 10x10\n")
        self.assertRegex(text, r"loss +0.5\n")

    # ---- several runs ----

    def test_several_runs_are_shown_waited_for_and_canceled(self):
        good = self.submit("--", "sh", "-c", "echo good")
        bad = self.submit("--", "sh", "-c", "echo bad; exit 3")
        done = self.run_cli("run", "wait", good, bad)
        self.assertEqual(done.code, 3, done)
        self.assertEqual([line for line in done.err.splitlines() if line.startswith("run ")],
                         [f"run {good}: Completed, exit 0", f"run {bad}: Failed, exit 3"])
        self.assertEqual(self.json("run", "wait", good, good)["id"], good)
        self.assertEqual([run["id"] for run in json.loads(self.run_cli("run", "wait", good, bad, "-o", "json").out)],
                         [good, bad])
        done = self.run_cli("run", "logs", good, bad)
        self.assertEqual(done.out, "good\nbad\n")
        self.assertEqual(done.err.splitlines(), [f"==> run {good} <==", f"==> run {bad} <=="])
        self.assertEqual(self.run_cli("logs", "latest").out, "bad\n")
        for option in (["--since", "10m"], ["--timestamps"]):
            self.assertIn("keeps no times", self.refused(2, "run", "logs", good, *option))
        first, second = (self.submit("--", "sleep", "600") for _ in range(2))
        shown = self.json("run", "cancel", "--no-wait", first, second)
        self.assertEqual([run["id"] for run in shown], [first, second])
        for run in (first, second):
            self.assertEqual(self.finish(run)["status"], "Canceled")
        done = self.run_cli("run", "delete", "-y", good, bad)
        self.assertEqual(done.code, 0, done)

    def test_all_of_ones_own_runs_are_canceled(self):
        runs = [self.submit("--", "sleep", "600") for _ in range(3)]
        self.assertIn("Cancel 3 runs of yours?", self.refused(2, "run", "cancel", "--all"))
        self.assertEqual({r["id"] for r in self.json("run", "cancel", "--all", "-y")}, set(runs))
        for run in runs:
            self.finish(run)
        done = self.run_cli("run", "cancel", "--all", "-y")
        self.assertEqual((done.code, done.out), (0, "[]\n"), done)
        self.assertIn("no run of yours", done.err)

    def test_all_of_ones_own_runs_are_waited_for_followed_and_deleted(self):
        gate = self.scratch / "gate"
        runs = [self.submit("--", "sh", "-c", f"echo here; until [ -e {gate} ]; do sleep 0.05; done") for _ in range(2)]
        followed = subprocess.Popen([TRAINYARD, "logs", "-f", "--all"], env=self.env, cwd=self.code, text=True,
                                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.assertEqual(followed.stdout.readline(), "here\n")
        gate.touch()
        self.assertEqual(self.run_cli("run", "wait", "--all").code, 0)
        self.assertEqual(followed.communicate(timeout=60)[0], "here\n")
        self.assertIn("Delete the runs", self.refused(2, "run", "delete", "--all"))
        self.ok("run", "delete", "--all", "-y")
        self.assertEqual(self.json("run", "list"), [])
        self.assertEqual({run["id"] for run in self.json("run", "list", "--deleted")}, set(runs))

    def test_a_traceback_is_shown_as_it_was_printed(self):
        self.write("train.py", "def f():\n    raise ValueError('no')\nf()\n")
        run = self.submit("--", "python3", "train.py")
        self.finish(run)
        shown = self.ok("run", "show", run, "-o", "table")
        self.assertRegex(shown, r"(?m)^reason +rank 0 exited with code 1: ValueError: no.*$")
        self.assertRegex(shown, r"(?m)^  Traceback \(most recent call last\):$")
        self.assertRegex(shown, r"(?m)^      raise ValueError\('no'\)$")
        self.assertEqual(shown.count("Traceback"), 1)

    def test_a_runs_files_are_listed(self):
        self.write("train.py", "open('outputs/model.txt', 'w').write('42')\n")
        run = self.submit("--", "python3", "train.py")
        self.finish(run)
        files = {file["path"]: file for file in self.json("run", "files", run)}
        self.assertEqual(files["outputs/model.txt"]["size"], 2)
        self.assertIn("user_logs/std_log.txt", files)
        self.assertRegex(self.ok("run", "files", "latest", "-o", "table"), r"outputs/model.txt +2 B +output")

    # ---- settings ----

    def test_defaults_are_saved_and_variables_and_options_win(self):
        self.ok("workspace", "create", "lab")
        self.assertIsNone(self.json("configure")["output"])
        self.ok("configure", "--defaults", "output=tsv", "workspace=lab")
        run = self.submit("--", "true")
        self.finish(run)
        self.assertTrue(self.ok("run", "list").startswith(f"{run}\t"))
        self.assertEqual(self.json("run", "list")[0]["workspace"], "lab")
        self.assertEqual(self.json("run", "list", "-w", "default"), [])
        text = self.ok("run", "list", env={"TRAINYARD_OUTPUT": "yaml"})
        self.assertTrue(text.startswith("- id: "), text)
        self.assertIn("TRAINYARD_OUTPUT", self.refused(2, "run", "list", env={"TRAINYARD_OUTPUT": "xml"}))
        self.assertIn("not known", self.refused(2, "configure", "--defaults", "colour=red"))
        self.ok("configure", "--defaults", "output=", "workspace=")
        self.assertEqual(json.loads(self.ok("run", "list")), [])

    def test_a_server_is_saved_with_its_token_and_used(self):
        status = self.json("server", "start") and self.json("server", "status", "--show-token")
        url, token = status["url"], status["token"]
        elsewhere = {"HOME": str(self.scratch / "user"), "TRAINYARD_HOME": ""}
        self.assertIn("token", self.refused(2, "login", url, env=elsewhere))
        self.refused(3, "login", url, env=dict(elsewhere, TRAINYARD_TOKEN="wrong"))
        self.assertEqual(self.json("login", "--list", env=elsewhere), [])
        done = subprocess.run([TRAINYARD, "login", url + "/"], input=token + "\n", text=True, capture_output=True,
                              env=dict(self.env, **elsewhere), cwd=self.code)
        self.assertEqual(done.returncode, 0, done)
        self.assertNotIn(token, done.stdout + done.stderr)
        file = self.scratch / "config/trainyard/settings.json"
        self.assertEqual(file.stat().st_mode & 0o777, 0o600)
        self.assertEqual(self.json("login", "--list", env=elsewhere),
                         [{"url": url, "user": status["user"], "current": True}])
        self.assertEqual(self.json("server", "status", env=elsewhere)["pid"], status["pid"])
        # A variable or an option wins.
        self.assertEqual(self.run_cli("server", "status", "--home", self.scratch / "none", env=elsewhere).code, 6)
        self.ok("logout", env=elsewhere)
        self.assertNotIn(token, file.read_text())
        self.assertEqual(self.run_cli("server", "status", env=elsewhere).code, 6)

    # ---- submit ----

    def test_a_dry_run_shows_what_would_be_sent_and_run(self):
        self.write("train.py", "print(1)\n")
        self.write(".amlignore", "data/\n")
        (self.code / "data").mkdir()
        self.write("data/big.bin", "x" * 1000)
        plan = json.loads(self.ok("submit", "--dry-run", "--env-var", "A=secret", "--", "python3", "train.py"))
        self.assertEqual(plan["command"], ["python3", "train.py"])
        self.assertEqual([f["path"] for f in plan["code"]["files"]], [".amlignore", "train.py"])
        self.assertEqual(plan["code"]["ignored"], ["data/"])
        self.assertEqual(plan["environmentVariables"], ["A"])
        done = self.run_cli("submit", "--dry-run", "-o", "table", "--", "python3", "train.py")
        self.assertIn("nothing was submitted", done.err)
        self.assertRegex(done.out, r"command +python3 train.py\n")
        self.assertRegex(done.out, r"  train.py +9 B\n")
        self.write("job.yml", "command: python3 train.py\ncode: .\nenvironment: azureml:x:1\ncompute: azureml:local\n")
        self.assertEqual(self.json("job", "create", "-f", "job.yml", "--dry-run")["target"], "local")
        self.assertFalse(self.home.exists() and (self.home / "socket").exists())
        self.assertEqual(self.json("run", "list"), [])

    def test_code_that_is_seldom_meant_is_told_with_what_to_ignore(self):
        (self.code / ".venv").mkdir()
        self.write(".venv/pyvenv.cfg", "x" * 2000)
        self.write(".env", "KEY=1\n")
        done = self.run_cli("submit", "-e", "t", "--", "true")
        self.assertEqual(done.code, 0, done)
        self.assertIn("warning: the code has .venv/ (1 file, 2.0 kB), .env (1 file, 6 B). "
                      "To leave them out, add to .amlignore: .env .venv/\n", done.err)
        self.write(".amlignore", ".env\n.venv/\n")
        self.assertNotIn("warning", self.run_cli("submit", "-e", "t", "--", "true").err)
        for i in range(5001):
            (self.code / f"f{i}").touch()
        self.assertIn("warning: the code is 5002 files", self.run_cli("submit", "-e", "t", "--", "true").err)


if __name__ == "__main__":
    main()
