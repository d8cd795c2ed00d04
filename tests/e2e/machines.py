"""Machines that pull their work: joined ones, targets by their name; and `local` under a server elsewhere, which is
the machine where the command was typed. A second home plays the second machine; no process of one sees the other's."""
import contextlib
import json
import os
import pathlib
import pty
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from wheels import wheel
from yard import ROOT, TRAINYARD, YardTest, alive, main, processes_with, wait_until

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
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self.run_cli("server", "stop")
        self.serving.wait(20)
        super().leave_nothing()

    def daemons(self, home):
        found = []
        for file in home.glob("machines/*/lock"):
            text = file.read_text().split("\n")[0]
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
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        os.kill(daemon, signal.SIGKILL)
        wait_until(lambda: not processes_with(f"{home}/machines"), "nothing runs there")

    def kill_daemon(self, home):
        daemon = self.daemon(home)
        os.kill(daemon, signal.SIGKILL)
        wait_until(lambda: not alive(daemon), "the daemon to be dead")

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

    def test_a_machine_builds_environments_and_runs_in_them(self):
        self.join("--name", "box")
        self.ok("workspace", "update", "--image-build-compute", "box")
        wheel(self.scratch / "wheels", "pear", "2.5")
        self.write("requirements.txt", f"--no-index\n--find-links {self.scratch / 'wheels'}\npear\n")
        done = self.run_cli("submit", "--target", "box", "--requirements", "requirements.txt", "--",
                            "python", "-c", "import pear, sys; print(pear.version, sys.prefix)")
        self.assertEqual((done.code, done.out.split()[0]), (0, "2.5"), done)
        self.assertIn(str(self.box), done.out)
        [build] = self.json("run", "list", "--experiment", "environments")
        self.assertEqual((build["target"], build["status"]), ("box", "Completed"))

    def test_a_virtual_environment_stands_on_the_machine_s_own_python(self):
        """The server's Python is at a path that the machine does not have."""
        real = pathlib.Path(self.ok("submit", "--", "python3", "-c", "import os, sys; print(os.path.realpath(sys.executable))")
                            .strip())
        self.kill_server_now()
        elsewhere = self.scratch / "elsewhere"
        elsewhere.mkdir()
        (elsewhere / "lib").symlink_to(real.parent.parent / "lib")
        (elsewhere / "bin").mkdir()
        shutil.copy(real, elsewhere / "bin" / "python3")
        wheel(self.scratch / "wheels", "pear", "2.5")
        path = self.env["PATH"]
        self.env["PATH"] = f"{elsewhere / 'bin'}:{path}"
        self.serve()
        self.url = self.server()["url"]
        self.write("requirements.txt", f"--no-index\n--find-links {self.scratch / 'wheels'}\npear\n")
        self.ok("environment", "register", "-n", "fruit", "--requirements", "requirements.txt")
        self.ok("environment", "build", "fruit")
        self.env["PATH"] = path
        self.join("--name", "box")
        elsewhere.rename(self.scratch / "gone")
        words = ("submit", "--target", "box", "--environment", "fruit", "--async", "--", "python", "-c",
                 "import pear, sys; print(pear.version, sys.base_prefix)")
        run = self.ok(*words).strip()
        self.assertEqual(self.run_cli("run", "wait", run).code, 0, self.show(run))
        self.assertEqual(self.ok("run", "logs", run), f"2.5 {real.parent.parent}\n")

    def test_a_machine_without_the_python_of_an_environment_is_refused_at_submit(self):
        programs = self.scratch / "programs"
        programs.mkdir()
        fake = programs / "python3"  # All that the machine has.
        fake.write_text("#!/bin/sh\nprintf '3.5.1\\ncpython\\nx86_64\\n%s\\n' \"$0\"\n")
        fake.chmod(0o755)
        self.env.update(PYENV_ROOT=str(self.scratch / "none"), UV_PYTHON_INSTALL_DIR=str(self.scratch / "none"))
        env = {"PATH": f"{programs}", "TRAINYARD_HOME": str(self.box), "TRAINYARD_TOKEN": self.token()}
        done = self.run_cli("node", "join", "--server", self.url, "--name", "old", env=env)
        self.assertEqual(done.code, 0, done)
        wait_until(lambda: self.json("node", "show", "old").get("pythons"), "the machine to say what it has")
        self.write("requirements.txt", "--no-index\n")
        done = self.run_cli("submit", "--target", "old", "--requirements", "requirements.txt", "--", "python", "-V")
        self.assertEqual(done.code, 2, done)
        self.assertRegex(done.err, r"the environment is made with Python 3\.\d+, and target old has 3\.5\n.*python=")

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
        self.kill_daemon(self.box)
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
        done = self.join(token="tyn_unknown", code=3, home=self.laptop)
        self.assertIn("An admin makes another with: trainyard node token", done.err)
        self.assertNotIn("token create", done.err)
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

    def test_a_command_runs_on_the_machine_for_an_admin_and_for_nobody_else(self):
        self.join("--name", "box")
        done = self.run_cli("node", "exec", "-n", "box", "--", "sh", "-c", "echo here; echo there >&2; exit 7")
        self.assertEqual((done.code, done.out), (7, "here\nthere\n"), done)
        self.assertEqual(self.run_cli("node", "exec", "-n", "box", "--", "no-such-program").code, 127)
        done = self.run_cli("node", "exec", "-n", "box", "--timeout", "1", "--", "sh", "-c", "echo up; sleep 60")
        self.assertEqual(done.code, 124, done)
        self.assertIn("up\n", done.out)
        wait_until(lambda: not processes_with("sleep\x0060"), "it was ended")
        self.ok("user", "create", "ann")
        token = self.json("token", "create", "--user", "ann")["token"]
        self.refused(3, "--server", self.url, "node", "exec", "-n", "box", "--", "true", env={"TRAINYARD_TOKEN": token})
        self.refused(4, "node", "exec", "-n", "bax", "--", "true")

    def test_a_command_runs_beside_a_run_in_its_folder_with_its_variables_and_ends_with_it(self):
        self.join("--name", "box")
        for target in ("local", "box"):
            run = self.submit("--target", target, "--env-var", "MARK=seven", "--", "sh", "-c",
                              "echo up > made; echo up; while ! test -e go; do sleep 0.1; done")
            self.says(run, "up")
            done = self.run_cli("node", "exec", "-r", run, "--", "sh", "-c", "cat made; echo $MARK $TRAINYARD_RUN_ID; exit 3")
            self.assertEqual((done.code, done.out), (3, f"up\nseven {run}\n"), done)
            name = self.show(run)["nodes"][0]
            for which in (["--node", "0"], ["--node", name], ["--all"]):
                self.assertEqual(self.ok("node", "exec", "-r", run, *which, "--", "echo", "hi"), "hi\n")
            self.refused(2, "node", "exec", "-r", run, "--node", "5", "--", "true")
            self.refused(4, "node", "exec", "-r", run, "--node", "nowhere", "--", "true")
            self.assertEqual(self.run_cli("node", "exec", "-r", run, "--", "no-such-program").code, 127)
            last = self.start("node", "exec", "-r", run, "--timeout", "1h", "--", "sh", "-c", "echo in; sleep 600")
            self.assertEqual(last.stdout.readline(), "in\n")
            self.ok("node", "exec", "-r", run, "--", "touch", "go")
            self.assertEqual(self.finish(run)["status"], "Completed")
            self.assertNotEqual(last.wait(20), 0)
            wait_until(lambda: not processes_with("sleep\x00600"), "it ended with the run")
            self.assertIn("has no node", self.refused(5, "node", "exec", "-r", run, "--", "true"))

    def test_a_command_on_nodes_needs_to_know_which_and_what(self):
        self.assertIn("on which nodes?", self.refused(2, "node", "exec", "--", "true"))
        self.assertIn("no command", self.refused(2, "node", "exec", "-n", "box"))
        self.refused(2, "node", "exec", "-r", "x", "--all", "--node", "1", "--", "true")


class Local(Yard):
    """`local` of people whose server is elsewhere."""

    def setUp(self):
        super().setUp()
        self.tokens = {}
        for user in ("ann", "bob"):
            self.ok("user", "create", user)
            self.tokens[user] = self.json("token", "create", "--user", user)["token"]

    def person(self, user="ann", home=None):
        return {"TRAINYARD_HOME": str(home or self.laptop), "TRAINYARD_SERVER": self.url,
                "TRAINYARD_TOKEN": self.tokens[user]}

    def own(self, *args, user="ann", home=None):
        """A run that holds, of a person on their machine."""
        return self.submit(*args, "--", *HOLD, env=self.person(user, home))

    def test_a_run_of_local_is_carried_where_the_command_was_typed(self):
        self.write("train.py", "import os\nprint(os.getcwd(), os.environ['PATH'])\n"
                   "open('outputs/x', 'w').write('weights')\n")
        path = f"{self.scratch}:{os.environ['PATH']}"
        done = self.run_cli("submit", "--download", self.scratch / "got", "--", "python3", "train.py",
                            env=dict(self.person(), PATH=path))
        self.assertEqual(done.code, 0, done)
        where, seen = done.out.split(" ", 1)
        self.assertTrue(where.startswith(str(self.laptop)), done)
        self.assertEqual(seen.strip(), path)
        self.assertEqual((self.scratch / "got/outputs/x").read_text(), "weights")
        run = self.show(self.json("run", "list")[0]["id"])
        self.assertEqual((run["target"], run["user"], run["nodes"]), ("local", "ann", [os.uname().nodename]))
        self.assertEqual(self.run_cli("submit", "--", "sh", "-c", "exit 7", env=self.person()).code, 7)
        self.assertEqual(len(self.daemons(self.laptop)), 1)
        [node] = self.json("node", "list", env=self.person())
        self.assertEqual((node["personal"], node["state"]), (True, "ready"))
        self.assertEqual(self.json("node", "list", env=self.person("bob")), [])

    def test_no_token_is_in_arguments_or_variables_of_what_is_left_running(self):
        run = self.own()
        self.says(run, "attempt 1")
        self.assertEqual(processes_with(self.tokens["ann"]), [])

    def test_each_has_a_queue_of_their_own_and_nobody_another_s(self):
        cpus = os.cpu_count()
        ann = self.own("--cpus", cpus)
        bob = self.own("--cpus", cpus, user="bob", home=self.box)
        self.says(ann, "attempt 1")
        self.says(bob, "attempt 1")  # Ann's run takes nothing of Bob's machine.
        [node] = self.json("node", "list", env=self.person("bob", self.box))
        spec = {"experiment": "x", "command": ["true"], "host": node["key"]}
        for user, status in (("ann", 403), ("bob", 201)):
            got, body = self.http("POST", "/api/v1/runs", {"id": f"forged-{user}", "spec": spec},
                                  {"Authorization": f"Bearer {self.tokens[user]}"})
            self.assertEqual(got, status, body)
        # Nor the orders of another's machine.
        got, _ = self.http("POST", f"/api/v1/machines/{node['key']}/poll",
                           {"facts": {"cpus": 1}}, {"Authorization": f"Bearer {self.tokens['ann']}"})
        self.assertEqual(got, 403)

    def test_a_cancel_and_two_interrupts_stop_it(self):
        run = self.own()
        self.says(run, "attempt 1")
        self.ok("run", "cancel", run, env=self.person())
        self.assertEqual(self.finish(run)["status"], "Canceled")
        child = subprocess.Popen([TRAINYARD, "submit", "--", *HOLD], cwd=self.code, env=dict(self.env, **self.person()),
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(child.stdout.readline(), "attempt 1\n")
        child.send_signal(signal.SIGINT)
        self.assertTrue(any("Ctrl-C again" in line for line in iter(child.stderr.readline, "")))
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=40)
        self.assertEqual(self.finish(self.json("run", "list")[0]["id"])["status"], "Canceled")

    def test_a_daemon_that_is_killed_is_started_by_the_next_submission_and_takes_up_what_runs(self):
        run = self.own()
        self.says(run, "attempt 1")
        self.kill_daemon(self.laptop)
        self.assertEqual(self.run_cli("submit", "--", "true", env=self.person()).code, 0)
        self.ok("run", "cancel", run)
        ended = self.finish(run)
        self.assertEqual((ended["status"], len(ended["attempts"])), ("Canceled", 1))
        wait_until(lambda: not list(self.laptop.glob("machines/*/node/[a-z]*")), "nothing is left of them")

    def test_a_server_that_is_killed_finds_them_again(self):
        run = self.own()
        self.says(run, "attempt 1")
        self.kill_server_now()
        self.serve()
        self.assertEqual(self.run_cli("submit", "--", "true", env=self.person()).code, 0)
        self.assertEqual(self.show(run)["status"], "Running")

    def test_a_run_that_submits_to_local_does_so_where_it_is(self):
        done = self.run_cli("submit", "--", TRAINYARD, "submit", "--", "pwd",
                            env=dict(self.person(), TRAINYARD_HOME=str(self.laptop)))
        self.assertEqual(done.code, 0, done)
        self.assertTrue(done.out.startswith(str(self.laptop)), done)

    def test_a_daemon_without_work_ends_by_itself(self):
        self.assertEqual(self.run_cli("submit", "--", "true", env=self.person()).code, 0)
        os.kill(self.daemon(self.laptop), signal.SIGTERM)
        wait_until(lambda: not self.daemons(self.laptop), "it ended")
        [place] = (self.laptop / "machines").iterdir()
        done = self.run_cli("node", "run", "--place", place.name, "--token-fd", "0", "--idle", "1",
                            env={"TRAINYARD_HOME": str(self.laptop)}, input=self.tokens["ann"], stdin=None)
        self.assertEqual(done.code, 0, done)

    def test_a_daemon_with_a_token_that_was_revoked_makes_way_and_who_may_not_submit_gets_none(self):
        self.ok("user", "create", "eve", "--role", "reader")
        self.tokens["eve"] = self.json("token", "create", "--user", "eve")["token"]
        self.refused(3, "submit", "--", "true", env=self.person("eve"))
        self.assertEqual(self.daemons(self.laptop), [])
        self.assertEqual(self.run_cli("submit", "--", "true", env=self.person()).code, 0)
        daemon = self.daemon(self.laptop)
        for token in self.json("token", "list"):
            if token["user"] == "ann":
                self.ok("token", "revoke", token["id"])
        self.refused(3, "submit", "--", "true", env=self.person())
        self.tokens["ann"] = self.json("token", "create", "--user", "ann")["token"]
        self.assertEqual(self.run_cli("submit", "--", "true", env=self.person()).code, 0)
        self.assertNotEqual(self.daemon(self.laptop), daemon)


class Beyond(Yard):
    """A server that others reach: its own machine is no target for them."""

    listen = ["--listen", "0.0.0.0:0", "--advertise", "http://127.0.0.1:1", "--insecure"]

    def setUp(self):
        super().setUp()
        self.port = json.loads((self.home / "server.json").read_text())["port"]
        self.url = f"http://127.0.0.1:{self.port}"
        token = self.json("token", "create")["token"]
        self.person = {"TRAINYARD_HOME": str(self.laptop), "TRAINYARD_SERVER": self.url, "TRAINYARD_TOKEN": token}

    def test_the_server_s_own_machine_is_switched_off_unless_the_admin_allows_it(self):
        err = self.refused(3, "submit", "--target", "server", "--", "true", env=self.person)
        self.assertIn("--allow-server-target", err)
        self.assertEqual(self.run_cli("submit", "--", "true").code, 0)  # Typed there, over its socket.
        done = self.run_cli("submit", "--", "pwd", env=self.person)
        self.assertTrue(done.out.startswith(str(self.laptop)), done)
        status, _ = self.http("GET", "/api/v1/server")
        self.assertEqual(status, 200)
        self.ok("server", "stop")
        self.serving.wait(20)
        self.serve("--allow-server-target")
        done = self.run_cli("submit", "--target", "server", "--", "pwd", env=self.person)
        self.assertEqual(done.code, 0, done)
        self.assertTrue(done.out.startswith(str(self.home)), done)
        self.ok("server", "stop")
        self.serving.wait(20)
        self.ok("server", "start", *self.listen, "--allow-server-target")
        done = self.run_cli("submit", "--target", "server", "--", "true", env=self.person)
        self.assertEqual(done.code, 0, done)

    def submit_by_python(self, **more):
        """A run of `local` by the package, waited for; the program."""
        self.write("train.py", "import os, sys; print(os.getcwd(), sys.executable)")
        text = ("from trainyard import Experiment, Workspace\n"
                "run = Experiment(Workspace(), 'sdk').submit(script='train.py')\n"
                "run.wait_for_completion()\n"
                "print(run.id)\n")
        variables = dict(self.env, **self.person, PYTHONPATH=str(ROOT / "python"),
                         PATH=f"{pathlib.Path(TRAINYARD).parent}:{self.env['PATH']}")
        return subprocess.run([sys.executable, "-c", text], cwd=self.code, env=dict(variables, **more), text=True,
                              capture_output=True, timeout=120)

    def test_the_python_package_runs_local_where_it_is_called(self):
        for _ in range(2):  # The second finds the daemon at work.
            done = self.submit_by_python()
            self.assertEqual(done.returncode, 0, done.stderr)
            run = done.stdout.split()[-1]
            where, program = self.console(run).split()
            self.assertTrue(where.startswith(str(self.laptop)), where)
            self.assertEqual(program, sys.executable)
        self.assertEqual((self.show(run)["target"], len(self.daemons(self.laptop))), ("local", 1))
        self.assertEqual(processes_with(self.person["TRAINYARD_TOKEN"]), [])

    def test_the_python_package_says_why_local_cannot_be_here(self):
        done = self.submit_by_python(TRAINYARD_TOKEN="tyu_wrong")
        self.assertIn("trainyard.errors.Denied", done.stderr)
        self.assertEqual((self.daemons(self.laptop), self.json("run", "list")), ([], []))


if __name__ == "__main__":
    main()
