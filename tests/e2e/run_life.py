"""A run's whole life, from submit to its kept results."""
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
import pathlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from yard import FINAL, YardTest, main, processes_with, wait_until


class RunLife(YardTest):
    def test_a_script_runs_here_and_its_outputs_are_kept(self):
        self.write("train.py", "import os\nprint('hello')\nopen('outputs/model.txt', 'w').write('42')\n")
        done = self.run_cli("submit", "-e", "first", "--", "python3", "train.py")
        self.assertEqual(done.code, 0, done)
        self.assertEqual(done.out, "hello\n")
        run = self.json("run", "list")[0]
        self.assertEqual(run["status"], "Completed")
        self.assertEqual(run["experiment"], "first")
        self.assertEqual(done.err.splitlines()[-1], f"run {run['id']}: Completed, exit 0")
        self.ok("run", "download", run["id"], "-d", self.scratch / "got")
        found = list((self.scratch / "got").rglob("model.txt"))
        self.assertEqual([f.read_text() for f in found], ["42"])

    def test_downloads_without_a_folder_are_in_one_named_after_the_run(self):
        self.write("train.py", "open('outputs/model.txt', 'w').write('42')\n")
        run = self.submit("--", "python3", "train.py")
        self.finish(run)
        here = self.scratch / "here"
        here.mkdir()
        for words in (["download"], ["download", "--snapshot"], ["download-logs"]):
            self.ok("run", *words, run[:-2], cwd=here)
        self.assertEqual(sorted(os.listdir(here)), [run, f"{run}-code"])
        self.assertEqual((here / run / "outputs/model.txt").read_text(), "42")
        self.assertTrue((here / run / "user_logs/std_log.txt").exists())
        self.assertTrue((here / f"{run}-code/train.py").exists())

    def test_the_two_outputs_stay_apart_and_as_they_are(self):
        done = self.run_cli("submit", "-e", "t", "--", "sh", "-c", "printf 'out no newline'; echo err >&2")
        self.assertEqual(done.out, "out no newline")
        self.assertIn("err\n", done.err)
        self.assertNotIn("out no newline", done.err)

    def test_bytes_that_are_no_text_come_through(self):
        done = self.run_cli("submit", "-e", "t", "--", "sh", "-c", r"printf '\000\377\r\033[0m'", text=False)
        self.assertEqual(done.out, b"\x00\xff\r\x1b[0m")

    def test_the_exit_code_is_the_runs_own(self):
        for command, code, status in [("exit 3", 3, "Failed"), ("exit 0", 0, "Completed"),
                                      ("kill -9 $$", 137, "Failed"), ("kill -15 $$", 143, "Failed")]:
            done = self.run_cli("submit", "-e", "t", "--", "sh", "-c", command)
            self.assertEqual(done.code, code, (command, done))
            run = self.json("run", "list")[0]
            self.assertEqual(run["status"], status)
            self.assertEqual(run["exitCode"], code)
            self.assertEqual(done.err.splitlines()[-1], f"run {run['id']}: {status}, exit {code}")

    def test_a_missing_program_is_127_and_says_so(self):
        done = self.run_cli("submit", "-e", "t", "--", "no-such-program-here")
        self.assertEqual(done.code, 127, done)
        self.assertIn("no-such-program-here", done.err)
        self.assertIn("not found", done.err)

    def test_a_file_that_cannot_be_executed_is_126(self):
        self.write("plain.txt", "not a program", 0o644)
        done = self.run_cli("submit", "-e", "t", "--", "./plain.txt")
        self.assertEqual(done.code, 126, done)

    def test_a_missing_python_module_is_told_with_the_package_that_has_it(self):
        done = self.run_cli("submit", "-e", "test", "--", sys.executable, "-c", "import nosuchmodule.part")
        self.assertEqual(done.code, 1)
        self.assertIn("Python finds no module nosuchmodule. Add nosuchmodule to the environment", done.err)
        self.assertIn("--requirements FILE", self.json("run", "show", "latest")["error"])
        done = self.run_cli("submit", "-e", "test", "--", sys.executable, "-c", "raise ValueError('no module')")
        self.assertNotIn("Python finds no module", done.err)

    def test_the_phases_add_up_to_the_whole_time(self):
        self.ok("submit", "-e", "t", "--", "sleep", "1")
        run = self.show(self.json("run", "list")[0]["id"])
        from datetime import datetime
        parse = lambda text: datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
        whole = parse(run["endedAt"]) - parse(run["createdAt"])
        total = sum(p["seconds"] for p in run["timeline"])
        self.assertGreater(whole, 1.0)
        self.assertLess(abs(total - whole), 0.02 * whole, run["timeline"])
        self.assertEqual([p["phase"] for p in run["timeline"]],
                         ["queue", "provision", "prepare", "start", "run", "capture"])

    def test_files_outside_outputs_are_named_as_not_kept(self):
        self.write("train.py", "open('model.pkl', 'w'); open('outputs/kept', 'w'); import os; os.mkdir('plots')\n")
        done = self.run_cli("submit", "-e", "t", "--", "python3", "train.py")
        warning = "written outside outputs/ and not kept: model.pkl, plots/; write to outputs/ what is to be kept"
        self.assertIn("warning: " + warning, done.err)
        self.assertEqual(self.show(self.json("run", "list")[0]["id"])["warnings"], [warning])
        done = self.run_cli("submit", "-e", "t", "--", "sh", "-c", "touch outputs/kept logs/x; mkdir __pycache__")
        self.assertNotIn("warning", done.err)

    def test_the_error_of_one_rank_has_its_exception_and_its_last_lines(self):
        self.write("train.py", "print('epoch 1')\ndef load():\n    raise ValueError('no data')\nload()\n")
        done = self.run_cli("submit", "-e", "t", "--", "python3", "train.py")
        error = self.json("run", "list")[0]["error"]
        lines = error.splitlines()
        self.assertEqual(lines[0], "rank 0 exited with code 1: ValueError: no data; its last lines:")
        self.assertEqual((lines[1], lines[-1]), ("epoch 1", "ValueError: no data"))
        # They are on the screen already.
        self.assertEqual(done.err.splitlines()[-2], "Failed: rank 0 exited with code 1: ValueError: no data")
        self.run_cli("submit", "-e", "t", "--", "sh", "-c", "echo 'no such file' >&2; exit 2")
        self.assertEqual(self.json("run", "list")[0]["error"],
                         "rank 0 exited with code 2; its last lines:\nno such file")
        self.run_cli("submit", "-e", "t", "--", "sh", "-c", "exit 2")
        self.assertEqual(self.json("run", "list")[0]["error"], "rank 0 exited with code 2")

    def test_memory_over_the_limit_ends_the_run_and_is_told(self):
        grab = "x = bytearray(400 << 20)\nimport time\ntime.sleep(60)"
        # Three processes more that share 60 MB with their parent are not 240 MB.
        fork = ("import os, time\nx = b'x' * (60 << 20)\n"
                "for _ in range(3):\n    if os.fork() == 0:\n        break\n"
                "time.sleep(1.5)")
        def check(**more):
            done = self.run_cli("submit", "-e", "t", "--mem", "100MB", "--", "python3", "-c", grab, **more)
            self.assertEqual(done.code, 137, done)
            self.assertIn("SIGKILL): out of memory: the run's limit is 100 MB", done.err)
            done = self.run_cli("submit", "-e", "t", "--mem", "150MB", "--", "python3", "-c", fork, **more)
            self.assertEqual(done.code, 0, done)
        check()
        if os.geteuid() != 0:
            return
        # One who may make no control group has it watched.
        self.ok("server", "stop")
        self.home = self.scratch / "nobodys"
        self.home.mkdir()
        self.env["TRAINYARD_HOME"] = str(self.home)
        for folder in (self.scratch, self.code, self.home):
            os.chown(folder, 65534, 65534)
        check(user=65534, group=65534, extra_groups=[])

    def test_the_environment_is_the_submitters_and_ours_and_nothing_else(self):
        env = {"SECRET_OF_THE_SHELL": "1", "VIRTUAL_ENV": "/v", "CONDA_PREFIX": "/c"}
        out = self.ok("submit", "-e", "exp", "--env-var", "MINE=yes", "--", "env", env=env)
        seen = dict(line.split("=", 1) for line in out.splitlines() if "=" in line)
        self.assertNotIn("SECRET_OF_THE_SHELL", seen)
        self.assertNotIn("LOCAL_RANK", seen)
        self.assertNotIn("TRAINYARD_HOME", seen)
        for name, value in [("VIRTUAL_ENV", "/v"), ("CONDA_PREFIX", "/c"), ("MINE", "yes"),
                            ("PATH", self.env["PATH"]), ("TRAINYARD_ATTEMPT", "1"),
                            ("TRAINYARD_RESTORED", "0"), ("AZUREML_ARM_WORKSPACE_NAME", "default"),
                            ("AZUREML_ARM_PROJECT_NAME", "exp")]:
            self.assertEqual(seen.get(name), value, name)
        run = self.json("run", "list")[0]["id"]
        self.assertEqual(seen["TRAINYARD_RUN_ID"], run)
        self.assertEqual(seen["AZUREML_RUN_ID"], run)
        self.assertTrue(seen["TRAINYARD_SERVER"].startswith("http://127.0.0.1:"))
        self.assertTrue(seen["TRAINYARD_TOKEN"])

    def test_several_ranks_have_their_variables_and_their_logs(self):
        script = "echo $RANK $LOCAL_RANK $WORLD_SIZE $OMPI_COMM_WORLD_RANK $AZ_BATCHAI_TASK_INDEX $MASTER_ADDR"
        done = self.run_cli("submit", "-e", "t", "--processes-per-node", "3", "--", "sh", "-c", script)
        self.assertEqual(done.code, 0, done)
        lines = sorted(done.out.splitlines())
        self.assertEqual(lines, [f"[{r}] {r} {r} 3 {r} {r} 127.0.0.1" for r in range(3)])
        run = self.json("run", "list")[0]["id"]
        self.ok("run", "download-logs", run, "-d", self.scratch / "logs")
        names = {str(p.relative_to(self.scratch / "logs")) for p in (self.scratch / "logs").rglob("*.txt")}
        flat = " ".join(sorted(names))
        for rank in range(3):
            self.assertIn(f"std_log_process_{rank}.txt", flat)

    def test_the_first_rank_to_fail_gives_the_exit_code_and_is_named(self):
        script = "test $RANK = 2 && exit 7; exec sleep 60"
        done = self.run_cli("submit", "-e", "t", "--processes-per-node", "4", "--", "sh", "-c", script)
        self.assertEqual(done.code, 7, done)
        self.assertIn("rank 2", self.show(self.json("run", "list")[0]["id"])["error"])

    def test_nothing_is_left_behind_after_success(self):
        mark = f"left-behind-{os.getpid()}"
        self.ok("submit", "-e", "t", "--", "sh", "-c", f"setsid sh -c 'exec -a {mark} sleep 300' & sleep 0.2")
        self.assertEqual(processes_with(mark), [])

    def test_a_time_limit_ends_a_run(self):
        done = self.run_cli("submit", "-e", "t", "--time", "1s", "--", "sleep", "60")
        self.assertEqual(done.code, 1, done)
        run = self.show(self.json("run", "list")[0]["id"])
        self.assertEqual(run["status"], "Canceled")
        self.assertIn("time limit", run["reason"] + str(run["error"]))

    def test_cancel_lets_a_script_save_first(self):
        self.write("save.py", "import signal, subprocess, sys, time\n"
                   "child = subprocess.Popen(['sleep', '60'])\n"
                   "def save(*_):\n"
                   "    assert child.poll() is None, 'the data loader was killed first'\n"
                   "    open('outputs/saved', 'w').write('yes'); sys.exit(0)\n"
                   "signal.signal(signal.SIGTERM, save)\nprint('ready', flush=True)\ntime.sleep(60)\n")
        run = self.submit("--", "python3", "save.py")
        wait_until(lambda: "ready" in self.console(run), "the script to be ready")
        self.ok("run", "cancel", run)
        ended = self.finish(run)
        self.assertEqual(ended["status"], "Canceled")
        self.assertEqual(self.run_cli("run", "wait", run).code, 1)
        self.ok("run", "download", run, "-d", self.scratch / "got")
        self.assertTrue(list((self.scratch / "got").rglob("saved")))

    def test_what_python_prints_is_seen_at_once_and_survives_a_cancel(self):
        self.write("train.py", "import os, time\nprint('epoch 1')\ntime.sleep(60)\n")
        run = self.submit("--", "python3", "train.py")
        wait_until(lambda: "epoch 1" in self.console(run), "the line that is not flushed")
        self.ok("run", "cancel", run)
        self.assertEqual(self.finish(run)["status"], "Canceled")
        self.assertIn("epoch 1", self.console(run))

    def test_a_run_sees_no_variable_of_mlflow(self):
        done = self.run_cli("submit", "--env-var", "PYTHONUNBUFFERED=", "--", "env")
        self.assertIn("TRAINYARD_RUN_ID=", done.out)
        self.assertNotIn("MLFLOW_", done.out)
        self.assertIn("PYTHONUNBUFFERED=\n", done.out)

    def test_a_cancelled_queued_run_never_starts(self):
        cpus = str(len(os.sched_getaffinity(0)))
        first = self.submit("--cpus", cpus, "--", "sleep", "60")
        self.wait_for_status(first, "Running")
        second = self.submit("--cpus", cpus, "--", "touch", "outputs/started")
        waiting = self.wait_for_status(second, "Queued")
        self.assertIn(f"waits for {cpus} CPU", waiting["reason"])
        self.assertIn("position 1", waiting["reason"])
        self.ok("run", "cancel", second)
        self.assertEqual(self.finish(second)["status"], "Canceled")
        self.assertEqual(self.show(second)["attempts"], [])
        self.ok("run", "cancel", first)
        self.assertEqual(self.finish(first)["status"], "Canceled")

    def test_first_come_first_served(self):
        cpus = str(len(os.sched_getaffinity(0)))
        order = self.scratch / "order"
        runs = [self.submit("--cpus", cpus if i % 2 == 0 else "1", "--", "sh", "-c",
                            f"date +%s%N >> {order}.{i}") for i in range(6)]
        for run in runs:
            self.assertEqual(self.finish(run)["status"], "Completed")
        starts = [self.show(run)["startedAt"] for run in runs]
        self.assertEqual(starts, sorted(starts))

    def test_more_than_the_machine_has_is_refused(self):
        error = self.refused(2, "submit", "-e", "t", "--cpus", "100000", "--", "true")
        self.assertIn("100000", error)
        self.refused(2, "submit", "-e", "t", "--mem", "900000G", "--", "true")
        self.assertEqual(self.json("run", "list"), [])

    def test_a_script_that_closed_its_stdout_goes_on(self):
        self.write("old.py", "import os, sys\nprint('before', flush=True)\nos.close(1)\n"
                   "try:\n    os.write(1, b'lost')\nexcept OSError: pass\n"
                   "open('outputs/done', 'w').write('1')\n")
        done = self.run_cli("submit", "-e", "t", "--", "python3", "old.py")
        self.assertEqual(done.code, 0, done)
        self.assertEqual(done.out, "before\n")

    def test_a_quarter_of_a_gigabyte_of_console_loses_nothing(self):
        source = self.scratch / "source"
        with open(source, "wb") as out:
            for i in range(256):
                out.write((b"%05d " % i + b"x" * 57 + b"\n") * (1 << 14))
        run = self.submit("--", "sh", "-c", f"cat {source}; echo end >&2")
        self.assertEqual(self.finish(run, 120)["status"], "Completed")
        kept = self.scratch / "kept"
        self.ok("run", "cp", f"{run}:stdout.txt", kept)
        self.assertEqual(subprocess.run(["cmp", str(source), str(kept)]).returncode, 0)
        self.assertEqual(self.http("GET", f"/api/v1/runs/{run}/files/stderr.txt")[1], b"end\n")

    def test_a_log_is_read_by_its_link_whole_or_in_ranges(self):
        run = self.submit("--", "sh", "-c", "echo one; echo two")
        links = self.finish(run)["logFiles"]

        def read(link, **headers):
            try:
                with urllib.request.urlopen(urllib.request.Request(link, headers=headers), timeout=20) as answer:
                    return answer.status, answer.read()
            except urllib.error.HTTPError as error:
                return error.code, b""
        link = links["user_logs/std_log.txt"]
        self.assertEqual(read(link), (200, b"one\ntwo\n"))
        self.assertEqual(read(link, Range="bytes=4-6"), (206, b"two"))
        self.assertEqual(read(link, Range="bytes=-4"), (206, b"two\n"))
        self.assertEqual(read(links["stdout.txt"], Range="bytes=4-"), (206, b"two\n"))
        self.assertEqual(read(link, Range="bytes=8-")[0], 416)
        self.assertIn(b"running", read(links["azureml-logs/60_control_log.txt"])[1])
        self.assertEqual(read(link.replace("std_log", "other"))[0], 403)
        self.assertEqual(read(link.partition("?")[0])[0], 401)

    def test_logs_folder_is_there_live(self):
        self.write("slow.py", "import time\nf = open('logs/train.log', 'a')\n"
                   "f.write('epoch 1\\n'); f.flush()\n"
                   "import os\nwhile not os.path.exists('outputs/../stop'): time.sleep(0.05)\n")
        run = self.submit("--", "python3", "slow.py")
        def seen():
            status, body = self.http("GET", f"/api/v1/runs/{run}/files/logs/train.log")
            return status == 200 and body == b"epoch 1\n"
        wait_until(seen, "the run's own log to be readable while it runs")
        self.assertEqual(self.show(run)["status"], "Running")
        self.ok("run", "cancel", run)
        self.finish(run)

    def test_a_final_run_does_not_change(self):
        self.ok("submit", "-e", "t", "--", "true")
        run = self.json("run", "list")[0]["id"]
        before = self.show(run)
        self.refused(5, "run", "cancel", run)
        self.assertEqual(self.show(run), before)


if __name__ == "__main__":
    main()
