"""kill -9 in the middle: of the server, of a supervisor, of both."""
import os
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from yard import FINAL, YardTest, alive, main, processes_with, wait_until

COUNT = ("import sys, time\n"
         "for i in range(300):\n"
         "    print('line', i, flush=True)\n"
         "    if i % 3 == 0: print('err', i, file=sys.stderr, flush=True)\n"
         "    time.sleep(0.005)\n"
         "open('outputs/result', 'w').write('done')\n")


class Kills(YardTest):
    def test_runs_go_on_without_their_server_and_nothing_is_lost(self):
        self.write("count.py", COUNT)
        runs = [self.submit("--", "python3", "-u", "count.py") for _ in range(2)]
        for run in runs:
            wait_until(lambda: "line 20\n" in self.console(run), "the run to be under way")
        self.kill_server()
        # The scripts end while nobody listens; then the next command starts a server.
        wait_until(lambda: all((self.home / "node" / f"{run}.1" / "work" / "outputs" / "result").exists()
                               or not (self.home / "node" / f"{run}.1" / "work").exists() for run in runs),
                   "the scripts to end without a server")
        for run in runs:
            ended = self.finish(run)
            self.assertEqual((ended["status"], ended["exitCode"]), ("Completed", 0))
            status, out = self.http("GET", f"/api/v1/runs/{run}/files/stdout.txt")
            self.assertEqual(out.decode(), "".join(f"line {i}\n" for i in range(300)))
            status, err = self.http("GET", f"/api/v1/runs/{run}/files/stderr.txt")
            self.assertEqual(err.decode(), "".join(f"err {i}\n" for i in range(0, 300, 3)))
            self.assertEqual(len(ended["attempts"]), 1)

    def test_the_server_killed_again_and_again(self):
        self.write("count.py", COUNT)
        run = self.submit("--", "python3", "-u", "count.py")
        for _ in range(5):
            self.show(run)
            self.kill_server()
        ended = self.finish(run)
        self.assertEqual(ended["status"], "Completed")
        status, out = self.http("GET", f"/api/v1/runs/{run}/files/stdout.txt")
        self.assertEqual(out.decode(), "".join(f"line {i}\n" for i in range(300)))

    def test_a_follower_outlives_a_killed_server(self):
        self.write("count.py", COUNT)
        follower = self.start("submit", "-e", "t", "--", "python3", "-u", "count.py")
        wait_until(lambda: self.json("run", "list"), "the run to be there")
        run = self.json("run", "list")[0]["id"]
        self.wait_for_status(run, "Running")
        self.kill_server()
        out, err = follower.communicate(timeout=60)
        self.assertEqual(follower.returncode, 0, err)
        self.assertEqual(out, "".join(f"line {i}\n" for i in range(300)))

    def test_a_killed_supervisor_ends_its_run_with_a_reason_and_takes_all_its_children_along(self):
        mark = f"orphan-{os.getpid()}"
        self.write("fork.py", "import os, subprocess, time\n"
                   f"subprocess.Popen(['setsid', 'bash', '-c', '(exec -a {mark} sleep 300) & disown; exit'])\n"
                   f"subprocess.Popen(['setsid', 'bash', '-c', 'exec -a {mark} sleep 300'])\n"
                   "print('forked', flush=True)\nopen('outputs/partial', 'w').write('kept')\ntime.sleep(300)\n")
        run = self.submit("--", "python3", "fork.py")
        wait_until(lambda: "forked" in self.console(run), "the script to fork")
        wait_until(lambda: len(processes_with(mark)) >= 2, "its children to be there")
        os.kill(self.supervisor_of(run), signal.SIGKILL)
        ended = self.finish(run)
        self.assertEqual(ended["status"], "Failed")
        self.assertIn("supervisor", ended["reason"])
        self.assertEqual(processes_with(mark), [])
        self.assertIn("forked", self.console(run))
        self.assertEqual(self.run_cli("run", "wait", run).code, 1)

    def test_server_and_supervisor_killed_together(self):
        run = self.submit("--", "sh", "-c", "echo here; sleep 300")
        wait_until(lambda: "here" in self.console(run), "the script to run")
        supervisor = self.supervisor_of(run)
        server = self.server_pid()
        os.kill(server, signal.SIGKILL)
        os.kill(supervisor, signal.SIGKILL)
        wait_until(lambda: not alive(server) and not alive(supervisor), "both to be dead")
        ended = self.finish(run)
        self.assertEqual(ended["status"], "Failed")
        self.assertEqual(self.console(run), "here\n")

    def test_a_graceful_stop_leaves_runs_running(self):
        run = self.submit("--", "sh", "-c", "echo one; sleep 1; echo two")
        wait_until(lambda: "one" in self.console(run), "the script to run")
        self.ok("server", "stop")
        self.assertTrue(alive(self.supervisor_of(run)))
        self.assertEqual(self.run_cli("server", "status").code, 6)
        ended = self.finish(run)
        self.assertEqual(ended["status"], "Completed")
        self.assertEqual(self.console(run), "one\ntwo\n")

    def test_the_port_stays_over_restarts(self):
        self.ok("server", "start")
        url = self.server()["url"]
        self.ok("server", "stop")
        self.ok("server", "start")
        self.assertEqual(self.server()["url"], url)
        self.kill_server()
        self.ok("run", "list")
        self.assertEqual(self.server()["url"], url)


if __name__ == "__main__":
    main()
