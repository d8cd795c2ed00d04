"""Machines that pull their work: joined ones, targets by their name; and `local` under a server elsewhere, which is
the machine where the command was typed. A second home plays the second machine; no process of one sees the other's."""
import json
import os
import pathlib
import pty
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from yard import TRAINYARD, YardTest, alive, main, processes_with, wait_until

HOLD = ["sh", "-c", "echo attempt $TRAINYARD_ATTEMPT; test $TRAINYARD_ATTEMPT = 2 || while :; do sleep 0.1; done"]


class Yard(YardTest):
    """A server that listens on TCP, a person's laptop (`self.laptop`) and a machine (`self.box`), each a home."""

    listen = ["--listen", "127.0.0.1:0"]

    def setUp(self):
        super().setUp()
        self.box = self.scratch / "box"
        self.laptop = self.scratch / "laptop"
        self.serve()
        self.url = self.server()["url"]

    def serve(self, *more):
        self.serving = self.start("server", "run", *self.listen, *more)
        wait_until(lambda: self.run_cli("server", "status").code == 0, "the server runs")

    def leave_nothing(self):
        for home in (self.box, self.laptop):
            for daemon in self.daemons(home):
                os.kill(daemon, signal.SIGTERM)
                wait_until(lambda: not alive(daemon), "the daemon to end")
            for pid in processes_with(f"{home}/machines"):
                os.kill(pid, signal.SIGKILL)
        self.run_cli("server", "stop")
        self.serving.wait(20)
        super().leave_nothing()

    def daemons(self, home):
        found = []
        for file in home.glob("machines/*/lock"):
            text = file.read_text()
            if text and alive(int(text)) and int(text) in processes_with("node\0run\0"):
                found.append(int(text))
        return found

    def daemon(self, home):
        [pid] = self.daemons(home)
        return pid

    def token(self, *args):
        return json.loads(self.ok("node", "token", *args, "-o", "json"))["token"]

    def join(self, *args, token=None, code=0, home=None):
        env = {"TRAINYARD_HOME": str(home or self.box), "TRAINYARD_TOKEN": self.token() if token is None else token}
        done = self.run_cli("node", "join", "--server", self.url, *args, env=env)
        self.assertEqual(done.code, code, done)
        return done

    def reboot(self, home):
        """All that runs for the home dies at once."""
        daemon = self.daemon(home)
        os.kill(daemon, signal.SIGSTOP)  # It must not see the others go.
        for pid in processes_with(f"{home}/machines"):
            if pid != daemon:
                os.kill(pid, signal.SIGKILL)
        os.kill(daemon, signal.SIGKILL)
        wait_until(lambda: not processes_with(f"{home}/machines"), "nothing runs there")

    def kill_server_now(self):
        self.serving.kill()
        self.serving.wait()

    def says(self, run, text):
        wait_until(lambda: text in self.ok("run", "logs", run), f"it says {text}")


class Joined(Yard):
    def test_a_run_goes_to_the_machine_by_its_name(self):
        self.join("--name", "box")
        self.write("train.py", "import os\nfrom trainyard import Run\nRun.get_context().log('loss', 0.5)\n"
                   "print('here', os.getcwd())\nopen('outputs/x', 'w').write('weights')\n")
        done = self.run_cli("submit", "--target", "box", "--", "python3", "train.py")
        self.assertEqual(done.code, 0, done)
        self.assertIn(str(self.box), done.out)
        run = self.json("run", "list")[0]
        self.assertEqual((run["target"], run["metrics"]["loss"]), ("box", 0.5))
        self.ok("run", "download", run["id"], "-d", self.scratch / "got")
        self.assertEqual((self.scratch / "got/outputs/x").read_text(), "weights")
        wait_until(lambda: not list(self.box.glob("machines/*/node/[a-z]*")), "nothing is left of it there")
        [node] = self.json("node", "list")
        self.assertEqual((node["name"], node["state"], node["live"]), ("box", "ready", 0))
        self.assertEqual(self.json("node", "show", "box")["cpus"], os.cpu_count())

    def test_exit_codes_cancel_and_grace_are_as_everywhere(self):
        self.join("--name", "box")
        self.assertEqual(self.run_cli("submit", "--target", "box", "--", "sh", "-c", "exit 7").code, 7)
        run = self.submit("--target", "box", "--", "sh", "-c",
                          "trap 'echo saved; exit 3' TERM; echo up; while :; do sleep 0.1; done")
        self.says(run, "up")
        self.ok("run", "cancel", run)
        self.assertEqual(self.finish(run)["status"], "Canceled")
        self.assertIn("saved", self.console(run))

    def test_a_daemon_that_is_killed_harms_no_run_and_the_next_takes_it_up(self):
        self.join("--name", "box")
        run = self.submit("--target", "box", "--", "sh", "-c", "echo up; while ! test -e go; do sleep 0.1; done; echo last")
        self.says(run, "up")
        os.kill(self.daemon(self.box), signal.SIGKILL)
        self.join()  # Starts it again.
        self.assertEqual(len(self.daemons(self.box)), 1)
        [work] = self.box.glob("machines/*/node/*/work")
        (work / "go").write_text("")
        ended = self.finish(run)
        self.assertEqual((ended["status"], len(ended["attempts"])), ("Completed", 1), ended["reason"])
        self.assertEqual(self.console(run), "up\nlast\n")

    def test_a_machine_that_went_down_evicts_its_run_which_goes_on_when_it_is_back(self):
        self.join("--name", "box")
        run = self.submit("--target", "box", "--", *HOLD)
        self.says(run, "attempt 1")
        self.reboot(self.box)
        self.join()
        ended = self.finish(run)
        self.assertEqual(ended["status"], "Completed", ended["reason"])
        self.assertEqual([a["status"] for a in ended["attempts"]], ["evicted", "exited"])
        self.assertEqual(ended["retries"], 0)
        self.assertIn("attempt 2", self.console(run))

    def test_a_supervisor_that_is_killed_is_a_lost_attempt_and_the_machine_stays(self):
        self.join("--name", "box")
        run = self.submit("--target", "box", "--max-retries", 1, "--", *HOLD)
        self.says(run, "attempt 1")
        daemon = self.daemon(self.box)
        supervisors = [p for p in processes_with(f"supervise\0--folder\0{self.box}") if p != daemon]
        os.kill(min(supervisors), signal.SIGKILL)
        ended = self.finish(run)
        self.assertEqual([a["status"] for a in ended["attempts"]], ["lost", "exited"], ended["reason"])
        self.assertEqual(self.daemon(self.box), daemon)

    def test_a_server_that_is_killed_finds_its_machines_and_runs_again(self):
        self.join("--name", "box")
        run = self.submit("--target", "box", "--", "sh", "-c", "echo up; while ! test -e go; do sleep 0.1; done; echo last")
        self.says(run, "up")
        self.kill_server_now()
        [work] = self.box.glob("machines/*/node/*/work")
        (work / "go").write_text("")
        wait_until(lambda: not (work / "outputs").exists() or "last" in "".join(
            f.read_text(errors="replace") for f in work.parent.glob("spool/console-0.log")), "it went on alone")
        self.serve()
        self.assertEqual(self.server()["url"], self.url)
        ended = self.finish(run)
        self.assertEqual((ended["status"], len(ended["attempts"])), ("Completed", 1), ended["reason"])
        self.assertEqual(self.console(run), "up\nlast\n")
        self.assertEqual(self.run_cli("submit", "--target", "box", "--", "true").code, 0)

    def test_a_run_placed_while_nobody_is_there_waits_and_starts_with_the_machine(self):
        self.join("--name", "box")
        self.reboot(self.box)
        run = self.submit("--target", "box", "--", "echo", "here")
        self.kill_server_now()  # With the order not told: the next attempt is made by itself.
        self.serve()
        self.join()
        self.assertEqual(self.finish(run)["status"], "Completed")
        self.assertEqual(self.console(run).splitlines()[-1], "here")

    def test_joining_again_is_the_same_and_a_taken_name_is_refused(self):
        self.join("--name", "box")
        pid = self.daemon(self.box)
        done = self.join(token="none is needed")
        self.assertIn("has joined", done.err)
        self.assertEqual((self.daemon(self.box), len(self.json("node", "list"))), (pid, 1))
        done = self.join("--name", "box", code=5, home=self.laptop)
        self.assertIn("taken by another machine", done.err)

    def test_a_token_is_good_once_and_never_an_argument(self):
        token = self.token("--name", "box")
        self.join(token=token)
        done = self.join(token=token, code=3, home=self.laptop)
        self.assertIn("used by another machine", done.err)
        self.assertIn("lets a machine join, and nothing else",
                      self.refused(3, "--server", self.url, "run", "list", env={"TRAINYARD_TOKEN": self.token()}))
        credential = json.loads(next(self.box.glob("machines/*/machine.json")).read_text())["credential"]
        self.assertTrue(credential.startswith("tym_"))
        self.assertEqual(next(self.box.glob("machines/*/machine.json")).stat().st_mode & 0o777, 0o600)
        for pid in processes_with(str(self.box)):
            words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes() + pathlib.Path(f"/proc/{pid}/environ").read_bytes()
            self.assertNotIn(b"tym_", words)
            self.assertNotIn(token.encode(), words)
        self.refused(3, "--server", self.url, "run", "list", env={"TRAINYARD_TOKEN": credential})

    def test_tokens_come_by_file_and_by_a_prompt_that_shows_nothing(self):
        file = self.scratch / "token"
        file.write_text(self.token() + "\n")
        env = {k: v for k, v in self.env.items() if k != "TRAINYARD_TOKEN"}
        env["TRAINYARD_HOME"] = str(self.box)
        done = subprocess.run([TRAINYARD, "node", "join", "--server", self.url, "--token-file", file, "--no-start"],
                              env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 0, done)
        self.assertEqual(self.daemons(self.box), [])
        env["TRAINYARD_HOME"] = str(self.laptop)
        done = subprocess.run([TRAINYARD, "node", "join", "--server", self.url], env=env, capture_output=True,
                              text=True, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 2, done)
        self.assertIn("one-time token is needed", done.stderr)
        ours, theirs = pty.openpty()
        child = subprocess.Popen([TRAINYARD, "node", "join", "--server", self.url, "--name", "typed", "--no-start"],
                                 env=env, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
        os.close(theirs)
        shown = b""
        while b"one-time token: " not in shown:
            shown += os.read(ours, 1000)
        token = self.token()
        os.write(ours, token.encode() + b"\n")
        try:
            while piece := os.read(ours, 1000):
                shown += piece
        except OSError:
            pass  # The other end was closed.
        self.assertEqual(child.wait(20), 0, shown)
        self.assertNotIn(token.encode(), shown)
        os.close(ours)

    def test_a_machine_leaves_and_one_that_is_gone_is_removed(self):
        self.join("--name", "box")
        run = self.submit("--target", "box", "--", *HOLD)
        self.says(run, "attempt 1")
        env = {"TRAINYARD_HOME": str(self.box)}
        self.assertIn("1 live", self.refused(5, "node", "leave", env=env))
        self.ok("run", "cancel", run)
        self.finish(run)
        self.ok("node", "leave", env=env)
        self.assertEqual((self.json("node", "list"), self.daemons(self.box)), ([], []))
        self.assertIn("does not exist", self.refused(4, "submit", "--target", "box", "--", "true"))
        self.join("--name", "box")
        run = self.submit("--target", "box", "--", *HOLD)
        self.says(run, "attempt 1")
        self.ok("node", "remove", "box", "--force", "--yes")
        ended = self.finish(run)
        self.assertEqual((ended["status"], ended["reason"]), ("Failed", "machine box was removed"))
        wait_until(lambda: not self.daemons(self.box), "its daemon ends")
        wait_until(lambda: not processes_with(f"{self.box}/machines"), "and what it ran")
        self.refused(4, "node", "remove", "box", "--yes")

    def test_bad_input_is_refused_with_what_to_do(self):
        self.assertIn("which server?", self.refused(2, "node", "join"))
        self.refused(6, "node", "join", "--server", "http://127.0.0.1:9", env={"TRAINYARD_TOKEN": "tyn_x"})
        self.assertIn("not known here", self.join(token="tyn_wrong", code=3).err)
        self.refused(2, "node", "token", "--name", "local")
        self.refused(2, "token", "create", "--kind", "odd")
        self.join("--name", "box")
        self.assertIn("CPUs", self.refused(2, "submit", "--target", "box", "--cpus", 9999, "--", "true"))
        self.assertIn("Did you mean 'box'?", self.refused(4, "submit", "--target", "bix", "--", "true"))
        self.assertIn("has not joined", self.refused(4, "node", "run", env={"TRAINYARD_HOME": str(self.laptop)}))


if __name__ == "__main__":
    main()
