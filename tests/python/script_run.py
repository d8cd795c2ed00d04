"""A script in a run: what it logs is in the record file, whatever happens."""
import json
import math
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
from fake_yard import PACKAGE, FakeServer, Yard, TOKEN
import trainyard.warn
from trainyard import Conflict, Run, UserError
from trainyard.script_run import ScriptRun

HERE = pathlib.Path(__file__).resolve().parent


class Number:
    """As numpy and torch have it."""

    def __init__(self, value):
        self.value = value

    def item(self):
        return self.value


class InRun(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.work = pathlib.Path(scratch.name) / "work"
        (self.work / "outputs").mkdir(parents=True)
        self.records = pathlib.Path(scratch.name) / "records-0.jsonl"
        self.records.touch()
        self.variables = {"TRAINYARD_RUN_ID": "calm-otter-aaaaaaaa", "TRAINYARD_RECORDS": str(self.records),
                          "TRAINYARD_WORK": str(self.work), "TRAINYARD_ATTEMPT": "1",
                          "TRAINYARD_SERVER": "http://127.0.0.1:9", "TRAINYARD_TOKEN": TOKEN,
                          "AZUREML_ARM_PROJECT_NAME": "my exp", "AZUREML_ARM_WORKSPACE_NAME": "ws"}
        before = dict(os.environ)
        os.environ.update(self.variables)
        self.addCleanup(lambda: (os.environ.clear(), os.environ.update(before)))
        trainyard.warn._said.clear()
        self.run_ = ScriptRun()

    def lines(self):
        return [json.loads(line) for line in self.records.read_text().splitlines()]

    def values(self):
        return [line["v"] for line in self.lines()]

    def script(self, text, *words, env=None, **more):
        """Runs a script in the run and returns what became of it."""
        return subprocess.run([sys.executable, *words, "-c", text], cwd=self.work, text=True,
                              env=dict(os.environ, PYTHONPATH=str(PACKAGE), **(env or {})),
                              capture_output=True, timeout=60, **more)


class Logging(InRun):
    def test_a_metric_is_one_line_with_name_value_time_and_step(self):
        before = time.time_ns() // 1000
        self.run_.log("loss", 0.5)
        self.run_.log("loss", 2, "some words", step=7)
        first, second = self.lines()
        self.assertEqual({k: first[k] for k in ("k", "n", "v")}, {"k": "metric", "n": "loss", "v": 0.5})
        self.assertNotIn("s", first)
        self.assertTrue(before <= first["t"] <= second["t"] <= time.time_ns() // 1000)
        self.assertEqual((second["v"], second["s"]), (2, 7))

    def test_numbers_of_any_library_and_odd_ones_are_taken(self):
        for value in (Number(1.5), Number(3), True, False, "text", math.nan, math.inf, -math.inf, 10**30,
                      10**400, 1e-300, Number(math.nan)):
            self.run_.log("x", value)
        self.assertEqual(self.values(), [1.5, 3, 1, 0, "text", "NaN", "Infinity", "-Infinity", 1e30, "Infinity",
                                         1e-300, "NaN"])

    def test_what_is_no_number_is_logged_as_text_with_one_warning(self):
        done = self.script("from trainyard import Run\nrun = Run.get_context()\n"
                           "for value in (None, [1, 2], object, 1j): run.log('x', value)")
        self.assertEqual(self.values(), ["None", "[1, 2]", "<class 'object'>", "1j"])
        self.assertEqual(done.stderr.count("warning"), 1, done.stderr)
        self.assertEqual(done.returncode, 0)

    def test_names_are_any_text(self):
        names = ["größe", "a b/c", "日本", "\U0001f600", 'quote"\\', "line\nbreak", ""]
        for name in names:
            self.run_.log(name, 1)
        self.run_.log("half \ud83d", 1)
        self.run_.log(7, 1)
        self.assertEqual([line["n"] for line in self.lines()], names + ["half \ufffd", "7"])

    def test_lists_rows_tables_and_documents(self):
        self.run_.log_list("series", (1, Number(2.5), math.nan))
        self.run_.log_row("row", epoch=1, name="a", rate=Number(0.5), ok=True)
        self.run_.log_row(name="by keyword", description="words", a=1)
        self.run_.log_table("table", {"x": [1, 2], "y": range(2)})
        self.run_.log_confusion_matrix("cm", {"class_labels": ["a"], "matrix": [[1]]})
        self.run_.log_residuals("res", '{"schema_type": "residuals", "data": {}}')
        self.run_.log_accuracy_table("acc", {"probability_tables": []})
        self.run_.log_predictions("pred", {"bin_edges": [0.5]})
        self.run_.log_parameter("lr", 0.1)
        self.run_.log_parameters({"batch": 32})
        found = [(line["k"], line["n"], line["v"]) for line in self.lines()]
        self.assertEqual(found.pop(2), ("row", "by keyword", {"a": 1}))
        self.assertEqual(found[:3], [
            ("list", "series", [1, 2.5, "NaN"]),
            ("row", "row", {"epoch": 1, "name": "a", "rate": 0.5, "ok": True}),
            ("table", "table", {"x": [1, 2], "y": [0, 1]})])
        self.assertEqual(found[3], ("doc", "cm", {"schema_type": "confusion_matrix", "schema_version": "v1",
                                                  "data": {"class_labels": ["a"], "matrix": [[1]]}}), found)
        self.assertEqual(found[4], ("doc", "res", {"schema_type": "residuals", "data": {}}))
        self.assertEqual([line[0] for line in found[5:]], ["doc", "doc", "param", "param"])
        self.assertEqual(found[7:], [("param", "lr", "0.1"), ("param", "batch", "32")])

    def test_a_long_list_is_several_lines_in_order(self):
        self.run_.log_list("long", range(25_000))
        self.assertEqual([len(line["v"]) for line in self.lines()], [10_000, 10_000, 5_000])
        self.assertEqual(sum(self.values(), []), list(range(25_000)))

    def test_a_long_table_is_several_lines_and_what_is_too_large_is_a_warning(self):
        self.run_.log_table("t", {"a": range(2500), "b": [1]})
        self.assertEqual([(len(v["a"]), len(v["b"])) for v in self.values()], [(1000, 1), (1000, 0), (500, 0)])
        self.assertEqual(self.run_.get_metrics("t"), {"t": {"a": list(range(2500)), "b": [1]}})
        before = len(self.lines())
        done = self.script("from trainyard import Run\nrun = Run.get_context()\nrun.log('x', 'y' * 2**20)\n"
                           "run.log_row('r', text='y' * 2**20)\nrun.log_parameter('p', 'y' * 2**20)\n"
                           "run.tag('t', 'y' * 2**20)")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(self.lines()[before:], [{"k": "dropped", "n": name} for name in "xrpt"])
        self.assertIn("larger than 1 MB", done.stderr)

    def test_what_nests_too_deeply_is_left_out_with_a_warning_on_the_run(self):
        done = self.script("from trainyard import Run\nrun = Run.get_context()\ndeep = []\n"
                           "for _ in range(100): deep = [deep]\nrun.log_row('r', a=deep)\n"
                           "run.log_table('t', {'a': deep})\nrun.log_residuals('d', {'a': deep})")
        self.assertEqual(done.returncode, 0)
        why = "nests deeper than 64 levels"
        self.assertEqual(self.lines(), [{"k": "dropped", "n": name, "e": why} for name in "rtd"])
        self.assertIn(why, done.stderr)

    def test_a_hundred_thousand_metrics_are_all_there_and_quick_while_the_server_is_away(self):
        began = time.perf_counter()
        for i in range(100_000):
            self.run_.log("loss", i * 0.5, step=i)
        per_call = (time.perf_counter() - began) / 100_000
        lines = self.lines()
        self.assertEqual(len(lines), 100_000)
        self.assertEqual([line["s"] for line in lines], list(range(100_000)))
        self.assertLess(per_call, 100e-6)  # The figure is bench/python_bench.py's; this is a guard.

    def test_a_kill_loses_nothing_that_was_logged(self):
        done = self.script("import os, signal\nfrom trainyard import Run\nrun = Run.get_context()\n"
                           "for i in range(1000): run.log('x', i)\nos.kill(os.getpid(), signal.SIGKILL)")
        self.assertEqual(done.returncode, -signal.SIGKILL)
        self.assertEqual(self.values(), list(range(1000)))

    def test_threads_and_forked_processes_never_mix_lines(self):
        def work(name):
            for i in range(500):
                self.run_.log(name, i)
        child = os.fork()
        if child == 0:
            try:
                work("child")
            finally:
                os._exit(0)
        threads = [threading.Thread(target=work, args=(f"thread {n}",)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        by_name = {}
        for line in self.lines():
            by_name.setdefault(line["n"], []).append(line["v"])
        self.assertEqual(by_name, {name: list(range(500)) for name in
                                   ["child"] + [f"thread {n}" for n in range(4)]})

    def test_a_run_can_be_pickled_and_sent_to_another_process(self):
        self.run_.log("x", 1)
        pickle.loads(pickle.dumps(self.run_)).log("x", 2)
        self.assertEqual(self.values(), [1, 2])

    def test_a_closed_descriptor_is_opened_again(self):
        self.run_.log("x", 1)
        os.close(self.run_._sink._fd)
        self.run_.log("x", 2)
        self.assertEqual(self.values(), [1, 2])


class NeverFails(InRun):
    ALL = ("run.log('x', 1); run.log_list('x', [1]); run.log_row('x', a=1); run.log_table('x', {'a': [1]})\n"
           "run.log_table('x', 5); run.log('only a name'); run.log_image('i'); run.log_image('i', path='no such')\n"
           "run.log_confusion_matrix('c', 'no json'); run.tag('a', 1); run.set_tags({'a': 2})\n"
           "run.remove_tags(['a']); run.set_tags(5); run.remove_tags(5); run.tag(); run.log_parameter('p', 1); run.log('x', 1, step='seven')\n"
           "class Bad:\n    def __str__(self): raise RuntimeError('bad')\n    def item(self): raise OSError('bad')\n"
           "run.log('x', Bad()); run.log(Bad(), 1); run.child_run('c').log('x', 1)\nprint('trained')\n")
    HEAD = "from trainyard import Run\nrun = Run.get_context()\n"

    def test_a_full_disk_is_one_warning_and_then_silence(self):
        done = self.script(self.HEAD + "for _ in range(50): run.log('x', 1); run.log_row('r', a=1); run.tag('t')\nprint('trained')",
                           env={"TRAINYARD_RECORDS": "/dev/full"})
        self.assertEqual((done.returncode, done.stdout), (0, "trained\n"), done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn("No space left", done.stderr)

    def test_no_call_fails_a_training_with_a_file_that_cannot_be_written(self):
        for place in ("/dev/full", "/no/such/folder/records", str(self.work)):
            done = self.script(self.HEAD + self.ALL, env={"TRAINYARD_RECORDS": place})
            self.assertEqual((done.returncode, done.stdout), (0, "trained\n"), done.stderr)

    def test_bad_arguments_do_not_fail_a_training(self):
        done = self.script(self.HEAD + self.ALL)
        self.assertEqual((done.returncode, done.stdout), (0, "trained\n"), done.stderr)
        self.assertIn(("metric", "x"), [(line["k"], line["n"]) for line in self.lines()])

    def test_no_stderr_is_no_reason_to_fail(self):
        done = self.script(self.HEAD + self.ALL, env={"TRAINYARD_RECORDS": "/dev/full"},
                           preexec_fn=lambda: os.close(2))
        self.assertEqual((done.returncode, done.stdout), (0, "trained\n"))

    def test_after_a_torn_line_the_next_one_is_whole(self):
        sink = self.run_._sink
        self.run_.log("x", 1)
        os.write(sink._fd, b'{"k":"metric","n":"to')  # As a disk that was full in between leaves it.
        sink._torn = True
        self.run_.log("x", 2)
        good = []
        for line in self.records.read_text().splitlines():
            try:
                good.append(json.loads(line)["v"])
            except ValueError:
                good.append("torn")
        self.assertEqual(good, [1, "torn", 2])


class Labels(InRun):
    def test_tags_are_records_and_known_at_once(self):
        self.run_.tag("host", "a1")
        self.run_.tag("seen")
        self.run_.set_tags({"n": 3})
        self.run_.remove_tags("host")
        self.assertEqual([(line["k"], line["n"], line["v"]) for line in self.lines()],
                         [("tag", "host", "a1"), ("tag", "seen", ""), ("tag", "n", "3"), ("tag", "host", None)])
        self.assertEqual(self.run_.get_tags(), {"seen": "", "n": "3"})

    def test_a_property_is_written_once(self):
        self.run_.add_properties({"commit": "abc"})
        self.run_.add_properties({"commit": "abc"})
        with self.assertRaisesRegex(Conflict, "commit.*abc"):
            self.run_.add_properties({"commit": "def"})
        self.assertEqual([line["v"] for line in self.lines()], ["abc", "abc"])
        self.assertEqual(self.run_.get_properties(), {"commit": "abc"})

    def test_the_servers_labels_are_seen_too(self):
        yard = Yard()
        yard.add_run("calm-otter-aaaaaaaa", tags={"t": "1"}, properties={"p": "1"}, name="shown")
        server = FakeServer(yard)
        self.addCleanup(server.close)
        os.environ["TRAINYARD_SERVER"] = server.url
        run = ScriptRun()
        run.tag("own", 2)
        self.assertEqual(run.get_tags(), {"t": "1", "own": "2"})
        self.assertEqual(run.get_details()["tags"], {"t": "1", "own": "2"})
        self.assertEqual(run.display_name, "shown")
        with self.assertRaises(Conflict):
            run.add_properties({"p": "2"})

    def test_it_runs_whatever_the_server_was_told_so_far(self):
        yard = Yard()
        server = FakeServer(yard)
        self.addCleanup(server.close)
        os.environ["TRAINYARD_SERVER"] = server.url
        run = ScriptRun()
        for told, seen in (("Preparing", "Running"), ("Running", "Running"), ("CancelRequested",) * 2):
            yard.add_run(run.id, status=told)
            self.assertEqual(run.get_status(), seen)

    def test_it_knows_who_it_is_without_a_server(self):
        run = self.run_
        self.assertEqual((run.id, run.name, run.experiment.name, run.experiment.workspace.name, run.status),
                         ("calm-otter-aaaaaaaa",) * 2 + ("my exp", "ws", "Running"))
        self.assertIsNone(run.parent)
        self.assertIs(Run.get_context(), Run.get_context())
        self.assertIsInstance(Run.get_context(allow_offline=False), ScriptRun)


class Metrics(InRun):
    def test_all_that_was_logged_comes_back_without_a_server(self):
        run = self.run_
        run.log("once", 1.5)
        run.log("twice", 1)
        run.log("twice", math.inf)
        run.log_list("list", [7])
        run.log_row("row", a=1, b="x")
        run.log_row("row", a=2, b="y")
        run.log_table("table", {"c": [1, 2]})
        run.child_run().log("once", 9)
        self.assertEqual(run.get_metrics(), {"once": 1.5, "twice": [1, math.inf], "list": [7],
                                             "row": {"a": [1, 2], "b": ["x", "y"]}, "table": {"c": [1, 2]}})
        self.assertEqual(run.get_metrics("once"), {"once": 1.5})
        self.assertEqual(run.get_metrics("none"), {})

    def test_what_the_server_has_and_what_it_has_not_taken_yet_are_one_series(self):
        yard = Yard()
        yard.add_run("calm-otter-aaaaaaaa")
        server = FakeServer(yard)
        self.addCleanup(server.close)
        os.environ["TRAINYARD_SERVER"] = server.url
        run = ScriptRun()
        run.log("x", 2)
        yard.streams["calm-otter-aaaaaaaa"] = {"1/0": self.records.stat().st_size}
        yard.series["calm-otter-aaaaaaaa", "x"] = ("scalar", [1, 2])  # 1 is another attempt's.
        run.log("x", 3)
        self.assertEqual(run.get_metrics(), {"x": [1, 2, 3]})


class Children(InRun):
    def test_a_child_is_made_told_of_and_ended_by_records(self):
        child = self.run_.child_run("fold 1")
        self.assertRegex(child.id, r"^[a-z]+-[a-z]+-[a-z2-9]{8}$")
        child.log("loss", 1)
        child.tag("fold", 1)
        child.complete()
        child.complete()
        failed = self.run_.child_run()
        failed.fail("no data", error_code=7)
        found = [{k: v for k, v in line.items() if k != "t"} for line in self.lines()]
        self.assertEqual(found, [
            {"k": "child", "r": child.id, "n": "fold 1"},
            {"k": "metric", "n": "loss", "v": 1, "r": child.id},
            {"k": "tag", "n": "fold", "v": "1", "r": child.id},
            {"k": "end", "v": "Completed", "r": child.id},
            {"k": "child", "r": failed.id, "n": failed.id},
            {"k": "end", "v": "Failed", "e": "7: no data", "r": failed.id}])
        self.assertEqual((child.name, child.status, failed.status), ("fold 1", "Completed", "Failed"))
        self.assertIs(child.parent, self.run_)
        self.assertEqual(child.get_metrics(), {"loss": 1})

    def test_with_ends_a_child_well_or_not(self):
        with self.run_.child_run() as good:
            pass
        with self.assertRaises(ZeroDivisionError):
            with self.run_.child_run() as bad:
                1 / 0
        ends = {line["r"]: line for line in self.lines() if line["k"] == "end"}
        self.assertEqual(ends[good.id]["v"], "Completed")
        self.assertEqual((ends[bad.id]["v"], ends[bad.id]["e"]), ("Failed", "ZeroDivisionError: division by zero"))

    def test_several_children_by_count_or_by_tags(self):
        self.assertEqual(len(self.run_.create_children(3)), 3)
        tagged = self.run_.create_children(tag_key="fold", tag_values=[1, 2])
        self.assertEqual([child.get_tags() for child in tagged], [{"fold": "1"}, {"fold": "2"}])
        for wrong in ({}, {"count": 1, "tag_values": [1]}, {"tag_values": [1]}):
            with self.assertRaises(UserError):
                self.run_.create_children(**wrong)

    def test_a_child_of_a_child_names_its_parent(self):
        child = self.run_.child_run()
        grandchild = child.child_run()
        self.assertEqual([line.get("p") for line in self.lines()], [None, child.id])
        self.assertIs(grandchild.parent, child)


class Files(InRun):
    def test_files_go_where_the_run_keeps_them(self):
        source = self.work / "model.bin"
        source.write_bytes(b"model")
        for name, kept in [("outputs/a.bin", "outputs/a.bin"), ("logs/b.bin", "logs/b.bin"),
                           ("deep/c.bin", "outputs/deep/c.bin"), ("./outputs/d", "outputs/d"),
                           ("d.bin", "outputs/d.bin")]:
            self.run_.upload_file(name, source)
            self.assertEqual((self.work / kept).read_bytes(), b"model", name)
        with open(source, "rb") as stream:
            self.run_.upload_file("outputs/stream", stream)
        self.assertEqual((self.work / "outputs/stream").read_bytes(), b"model")
        self.run_.upload_files(["x", "y"], [source, str(source)])
        self.assertTrue((self.work / "outputs/y").exists())

    def test_a_file_that_lies_where_it_belongs_stays_as_it_is(self):
        kept = self.work / "outputs/model.bin"
        kept.write_bytes(b"model")
        self.run_.upload_file("outputs/model.bin", kept)
        self.assertEqual(kept.read_bytes(), b"model")
        self.assertEqual(os.listdir(self.work / "outputs"), ["model.bin"])

    def test_paths_that_leave_the_folder_are_refused(self):
        source = self.work / "f"
        source.write_text("x")
        os.symlink(self.work.parent, self.work / "outputs" / "out")
        for name in ("../x", "outputs/../../x", "/etc/x", "a/../../b", "", "..", "a\0b", "outputs/out/x"):
            with self.assertRaises(UserError, msg=name):
                self.run_.upload_file(name, source)
        self.assertEqual(sorted(os.listdir(self.work.parent)), ["records-0.jsonl", "work"])

    def test_a_file_that_is_not_there_is_said_clearly(self):
        with self.assertRaisesRegex(UserError, "no file 'nothing'"):
            self.run_.upload_file("x", "nothing")
        with self.assertRaisesRegex(UserError, "upload_folder"):
            self.run_.upload_file("x", str(self.work))

    def test_a_folder_with_all_below_it_even_its_own_parent(self):
        (self.work / "a/b").mkdir(parents=True)
        (self.work / "a/b/c.txt").write_text("c")
        (self.work / "top.txt").write_text("t")
        self.run_.upload_folder("kept", str(self.work / "a"))
        self.assertEqual((self.work / "outputs/kept/b/c.txt").read_text(), "c")
        self.run_.upload_folder("all", str(self.work))
        self.assertEqual((self.work / "outputs/all/top.txt").read_text(), "t")
        self.assertFalse((self.work / "outputs/all/outputs/all").exists())

    def test_images_by_path_and_by_plot(self):
        class Plot:
            def savefig(self, path):
                pathlib.Path(path).write_bytes(b"png")
        picture = self.work / "p.JPG"
        picture.write_bytes(b"jpg")
        self.run_.log_image("../loss / acc", plot=Plot())
        self.run_.log_image("photo", path=str(picture), description="words")
        plot, photo = self.lines()
        self.assertRegex(plot["v"]["path"], r"^outputs/images/[\w-]+\.png$")
        self.assertEqual((self.work / plot["v"]["path"]).read_bytes(), b"png")
        self.assertEqual((self.work / photo["v"]["path"]).read_bytes(), b"jpg")
        self.assertTrue(photo["v"]["path"].endswith(".jpg"))
        self.assertEqual(photo["v"]["description"], "words")

    def test_a_disk_that_is_full_does_not_fail_an_upload(self):
        source = _file(self.work / "f", "x")
        (self.work / "outputs").rmdir()
        (self.work / "outputs").write_text("a file where the folder should be")
        with self.assertLogsOnStderr("is not kept"):
            self.run_.upload_file("f", source)

    def test_a_childs_file_is_sent_or_else_kept_under_its_id(self):
        child = self.run_.child_run()
        with self.assertLogsOnStderr("could not be sent"):
            child.upload_file("outputs/m.txt", _file(self.work / "m.txt", "m"))
        self.assertEqual((self.work / "outputs" / child.id / "m.txt").read_text(), "m")
        yard = Yard()
        yard.add_run(child.id, parentId=self.run_.id)
        server = FakeServer(yard)
        self.addCleanup(server.close)
        os.environ["TRAINYARD_SERVER"] = server.url
        child = ScriptRun()._make_child(child.id, None, None)
        child.upload_file("outputs/sub/m ü.txt", self.work / "m.txt")
        self.assertEqual(yard.outputs, {(child.id, "sub/m ü.txt"): b"m"})

    def test_its_own_files_are_listed_while_it_runs(self):
        self.run_.upload_file("a b/ü.txt", _file(self.work / "f", "x"))
        self.run_.upload_file("logs/l.txt", self.work / "f")
        self.assertEqual(self.run_.get_file_names(), ["outputs/a b/ü.txt", "logs/l.txt"])
        yard = Yard()
        yard.add_run(self.run_.id)
        yard.files[self.run_.id, "logs/l.txt"] = ("log", b"x")
        server = FakeServer(yard)
        self.addCleanup(server.close)
        os.environ["TRAINYARD_SERVER"] = server.url
        run = ScriptRun()
        self.assertEqual(run.get_file_names(), ["logs/l.txt", "outputs/a b/ü.txt"])
        self.assertEqual(run.child_run().get_file_names(), [])  # The server does not know it yet.

    def test_its_own_outputs_can_be_fetched_while_it_runs(self):
        (self.work / "outputs/a.txt").write_text("a")
        target = self.work / "copy.txt"
        self.run_.download_file("outputs/a.txt", str(target))
        self.assertEqual(target.read_text(), "a")

    def assertLogsOnStderr(self, text):
        import contextlib
        import io

        @contextlib.contextmanager
        def captured():
            with contextlib.redirect_stderr(io.StringIO()) as err:
                yield
            self.assertIn(text, err.getvalue())
        return captured()


class Ends(InRun):
    def test_complete_changes_nothing_and_fail_makes_the_exit_code_1(self):
        head = "from trainyard import Run\nrun = Run.get_context()\n"
        self.assertEqual(self.script(head + "run.complete()").returncode, 0)
        done = self.script(head + "run.fail('no data', error_code=7)\nprint('last words')")
        self.assertEqual((done.returncode, done.stdout), (1, "last words\n"))
        self.assertIn("no data", done.stderr)
        end, = self.lines()
        self.assertEqual((end["k"], end["v"], end["e"]), ("end", "Failed", "7: no data"))
        self.assertEqual(self.script(head + "run.fail(KeyError('x'))").returncode, 1)
        self.assertEqual(self.lines()[-1]["e"], "KeyError: 'x'")
        self.assertEqual(self.script(head + "with run: run.log('x', 1)").returncode, 0)
        self.assertEqual(self.script(head + "with run: raise SystemExit(3)").returncode, 3)

    def test_cancel_asks_the_server_and_never_fails(self):
        done = self.script("from trainyard import Run\nRun.get_context().cancel()\nprint('goes on')")
        self.assertEqual((done.returncode, done.stdout), (0, "goes on\n"), done.stderr)


class Imports(InRun):
    def test_logging_imports_nothing_that_costs(self):
        done = self.script("import sys\nbefore = set(sys.modules)\nfrom trainyard import Run\n"
                           "run = Run.get_context()\nrun.log('x', 1)\nrun.log_row('r', a=1)\nrun.tag('a', 1)\n"
                           "run.child_run().complete()\nprint(*sorted(set(sys.modules) - before))", "-S")
        costly = {"json", "re", "typing", "threading", "socket", "ssl", "http", "urllib", "tempfile", "shutil",
                  "subprocess", "inspect", "asyncio", "hashlib"}
        self.assertEqual(costly & set(done.stdout.split()), set(), done.stdout + done.stderr)

    def test_no_module_imports_what_only_unix_has(self):
        import ast
        for path in (PACKAGE / "trainyard").glob("*.py"):
            top = ast.parse(path.read_text()).body
            names = {name.name for node in top if isinstance(node, ast.Import) for name in node.names}
            self.assertEqual(names & {"fcntl", "pwd", "grp", "resource", "termios"}, set(), path)


def _file(path, text):
    path.write_text(text)
    return path


if __name__ == "__main__":
    unittest.main(verbosity=2)
