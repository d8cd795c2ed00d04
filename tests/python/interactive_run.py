"""Runs that a program reports by itself, and what becomes of their words when the server is away."""
import contextlib
import io
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
from fake_yard import PACKAGE, TOKEN, FakeServer, ServedTest
import trainyard.courier
import trainyard.warn
from trainyard import Conflict, Experiment, Unavailable
from trainyard.__main__ import main


class Interactive(ServedTest):
    def setUp(self):
        super().setUp()
        trainyard.warn._said.clear()
        self.experiment = Experiment(self.workspace, "exp")

    def spools(self):
        folder = self.scratch / "home" / "spool"
        return sorted(folder.glob("*.records")) if folder.exists() else []

    def values(self, run, name):
        return [line["v"] for line in self.yard.records.get(run.id, []) if line.get("n") == name]

    def silent(self):
        self.err = io.StringIO()
        return contextlib.redirect_stderr(self.err)


class Life(Interactive):
    def test_with_a_run_is_made_told_of_and_completed(self):
        with self.experiment.start_logging(display_name="by hand", tags={"a": 1}) as run:
            self.assertEqual((run.name, run.status, run.type), ("by hand", "Running", "interactive"))
            for i in range(1000):
                run.log("loss", i)
            run.tag("host", "h")
            run.add_properties({"p": 1})
        shown = self.yard.runs[run.id]
        self.assertEqual((shown["status"], shown["tags"]), ("Completed", {"a": "1", "host": "h"}))
        self.assertEqual(self.values(run, "loss"), list(range(1000)))
        self.assertEqual(run.get_metrics("loss"), {"loss": list(range(1000))})
        self.assertEqual(self.spools(), [])
        with self.assertRaises(Conflict):
            run.add_properties({"p": 2})

    def test_an_exception_fails_it_and_goes_on(self):
        with self.assertRaises(KeyError):
            with self.experiment.start_logging() as run:
                raise KeyError("x")
        shown = self.yard.runs[run.id]
        self.assertEqual((shown["status"], shown["error"]), ("Failed", "KeyError: 'x'"))

    def test_its_code_and_its_outputs_are_kept(self):
        pathlib.Path("note.py").write_text("1")
        os.mkdir("results")
        pathlib.Path("results/model.pt").write_bytes(b"m")
        run = self.experiment.start_logging(snapshot_directory=".", outputs="results")
        run.upload_file("outputs/ü/x.txt", io.StringIO("text"))
        run.complete()
        self.assertEqual(self.yard.outputs, {(run.id, "ü/x.txt"): b"text", (run.id, "model.pt"): b"m"})
        self.assertIn(self.yard.runs[run.id]["snapshotId"], self.yard.blobs)

    def test_children_are_runs_of_their_own(self):
        with self.experiment.start_logging() as run:
            with run.child_run("fold") as child:
                child.log("loss", 1)
                child.upload_file("a.txt", io.BytesIO(b"a"))
            run.flush()
            self.assertEqual([found.id for found in run.get_children()], [child.id])
            self.assertEqual(run.get_metrics(recursive=True), {child.id: {"loss": 1}})
        self.assertEqual(self.yard.runs[child.id]["status"], "Completed")
        self.assertEqual(self.yard.outputs, {(child.id, "a.txt"): b"a"})

    def test_words_about_a_run_of_somebody_else_are_sent_too_and_a_refusal_is_a_warning(self):
        self.yard.add_run("other", interactive=True)
        other = self.workspace.get_run("other")
        other.log("late", 1)
        other.flush()
        self.assertEqual(self.values(other, "late"), [1])
        gone = self.workspace.get_run("other")
        del self.yard.runs["other"]
        with self.silent():
            gone.log("late", 2)
            gone.flush(10)
            gone.log("late", 3)
        self.assertEqual(self.err.getvalue().count("warning"), 1, self.err.getvalue())

    def test_without_a_server_there_is_no_run(self):
        self.server.close()
        with self.assertRaises(Unavailable):
            self.experiment.start_logging()
        self.restart_server()


class ServerAway(Interactive):
    def test_what_is_logged_meanwhile_is_sent_when_it_is_back(self):
        run = self.experiment.start_logging()
        run.log("x", 0)
        run.flush()
        self.server.close()
        for i in range(1, 100_000):
            run.log("x", i)
        child = run.child_run("made meanwhile")
        child.log("y", 1)
        child.complete()
        self.restart_server()
        run.complete()
        self.assertEqual(self.values(run, "x"), list(range(100_000)))
        self.assertEqual(self.yard.runs[child.id]["status"], "Completed")
        self.assertEqual(self.yard.runs[run.id]["status"], "Completed")
        self.assertEqual(self.spools(), [])

    def test_an_answer_that_is_lost_doubles_nothing(self):
        run = self.experiment.start_logging()
        for i in range(5):
            self.yard.lose = 3  # Kept connection, new connection, and once more later.
            run.log("x", i)
            self.assertTrue(run._sink.flush(20))
        self.yard.lose = 1
        run.complete()
        self.assertEqual(self.values(run, "x"), list(range(5)))
        self.assertEqual((self.yard.runs[run.id]["status"], self.spools()), ("Completed", []))

    def test_a_server_that_stays_away_leaves_a_file_that_flush_sends(self):
        import trainyard.interactive_run
        run = self.experiment.start_logging()
        run.log("x", 1)
        run.flush()
        self.server.close()
        self.addCleanup(setattr, trainyard.interactive_run, "_END_S", trainyard.interactive_run._END_S)
        trainyard.interactive_run._END_S = 0.2
        with self.silent():
            run.log("x", 2)
            run.complete()
        self.assertIn("nothing is lost", self.err.getvalue())
        spool, = self.spools()
        self.assertIn(f"python -m trainyard flush {spool}", self.err.getvalue())
        for path, mode in ((spool, 0o600), (spool.parent, 0o700), (spool.parent.parent, 0o700)):
            self.assertEqual(os.stat(path).st_mode & 0o777, mode)
        self.assertNotIn(TOKEN, spool.read_text())
        self.restart_server()
        self.set_env(TRAINYARD_TOKEN=TOKEN)
        with self.silent():
            self.assertEqual(main(["flush", str(spool)]), 0)
        self.assertEqual(self.values(run, "x"), [1, 2])
        self.assertEqual(self.yard.runs[run.id]["status"], "Completed")
        self.assertEqual(self.spools(), [])

    def test_a_killed_program_leaves_all_it_logged(self):
        self.server.close()
        self.restart_server()
        script = ("import os, signal\nfrom trainyard import Experiment, Workspace\n"
                  "run = Experiment(Workspace(), 'e').start_logging()\nprint(run.id, flush=True)\ninput()\n"
                  "for i in range(5000): run.log('x', i)\nos.kill(os.getpid(), signal.SIGKILL)")
        child = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 text=True, env=dict(os.environ, PYTHONPATH=str(PACKAGE), TRAINYARD_TOKEN=TOKEN,
                                                     TRAINYARD_SERVER=self.server.url))
        run_id = child.stdout.readline().strip()
        self.server.close()
        child.communicate("\n")
        self.assertEqual(child.returncode, -signal.SIGKILL)
        self.restart_server()
        self.set_env(TRAINYARD_TOKEN=TOKEN)
        with self.silent():
            self.assertEqual(main(["flush", *map(str, self.spools())]), 0)
        self.assertEqual([line["v"] for line in self.yard.records[run_id]], list(range(5000)))

    def test_the_exit_of_a_program_sends_the_rest_without_being_asked(self):
        script = ("from trainyard import Experiment, Workspace\nrun = Experiment(Workspace(), 'e').start_logging()\n"
                  "for i in range(100): run.log('x', i)\nprint(run.id)")
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60,
                              env=dict(os.environ, PYTHONPATH=str(PACKAGE), TRAINYARD_TOKEN=TOKEN,
                                       TRAINYARD_SERVER=self.server.url))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual([line["v"] for line in self.yard.records[done.stdout.strip()]], list(range(100)))
        self.assertEqual(self.spools(), [])

    def test_a_file_that_cannot_be_sent_is_kept_here(self):
        run = self.experiment.start_logging()
        self.server.close()
        with self.silent(), unittest.mock.patch("trainyard.run_files._TRIES", 2):
            run.upload_file("m.txt", io.BytesIO(b"m"))
        self.assertEqual(pathlib.Path(f"outputs/{run.id}/m.txt").read_bytes(), b"m")
        self.assertIn("could not be sent", self.err.getvalue())
        self.restart_server()
        run.complete()

    def test_a_file_is_sent_again_when_the_server_restarts_in_the_middle(self):
        run = self.experiment.start_logging()
        self.server.close()
        back = threading.Timer(0.5, self.restart_server)
        back.start()
        run.upload_file("m.txt", io.BytesIO(b"m" * 3_000_000))
        back.join()
        self.assertEqual(self.yard.outputs[run.id, "m.txt"], b"m" * 3_000_000)
        self.assertFalse(os.path.exists(f"outputs/{run.id}"))
        run.complete()

    def test_reading_its_labels_and_metrics_works_meanwhile(self):
        run = self.experiment.start_logging()
        self.server.close()
        run.log("x", 1)
        run.log("x", 2)
        run.tag("a", 1)
        self.assertEqual(run.get_metrics(), {"x": [1, 2]})
        self.assertEqual((run.get_tags(), run.status), ({"a": "1"}, "Running"))
        self.restart_server()
        run.complete()


class ManyWriters(Interactive):
    def test_threads_and_a_forked_child_lose_nothing(self):
        run = self.experiment.start_logging()
        run.log("first", 0)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                for i in range(200):
                    run.log("child", i)
                status = 0 if run._sink.flush(20) else 1
                run._sink.close(5)
            finally:
                os._exit(status)
        threads = [threading.Thread(target=lambda n=n: [run.log(f"t{n}", i) for i in range(200)]) for n in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        run.complete()
        for name in ("child", "t0", "t1", "t2"):
            self.assertEqual(self.values(run, name), list(range(200)), name)
        self.assertEqual(self.spools(), [])

    def test_where_the_home_cannot_be_written_the_temporary_folder_serves(self):
        home = self.scratch / "home"
        home.write_text("a file")
        with self.experiment.start_logging() as run:
            run.log("x", 1)
        self.assertEqual(self.values(run, "x"), [1])

    def test_the_end_of_the_run_itself_is_told_apart_from_a_childs(self):
        lines = b'{"k":"metric","n":"x","v":1}\n{"k":"end","v":"Completed","r":"c"}\n'
        end = b'{"k":"end","v":"Completed"}\n'
        before = trainyard.courier.before_end
        self.assertEqual(before(lines + end), (lines, None))
        self.assertEqual(before(end + lines), (b"", end))
        self.assertEqual(before(lines), (lines, None))
        self.assertEqual(before(b""), (b"", None))


if __name__ == "__main__":
    unittest.main(verbosity=2)
