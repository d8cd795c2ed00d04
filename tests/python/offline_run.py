"""A script started by hand: the same calls, printed."""
import contextlib
import inspect
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
from fake_yard import PACKAGE
import trainyard.script_end
from trainyard import Conflict, NotFound, OfflineRun, Run, UserError


class Offline(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(scratch.name)
        before = dict(os.environ)
        self.addCleanup(lambda: (os.environ.clear(), os.environ.update(before)))
        for name in list(os.environ):
            if name.startswith(("TRAINYARD_", "AZUREML_")):
                del os.environ[name]
        self.addCleanup(setattr, trainyard.script_end, "_failed", False)
        self.run_ = OfflineRun()

    def printed(self, act):
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
            act()
        self.err = err.getvalue()
        return out.getvalue()

    def test_what_is_logged_is_printed_and_kept(self):
        run = self.run_

        def act():
            run.log("loss", 0.5)
            run.log("loss", float("nan"), step=3)
            run.log_list("list", [1, 2])
            run.log_row("row", a=1, b="x")
            run.log_parameter("lr", 0.1)
            run.tag("host", "a1")
            run.remove_tags("host")
        self.assertEqual(self.printed(act), "loss: 0.5\nloss (step 3): nan\nlist: [1, 2]\nrow: a=1, b=x\n"
                                            "parameter lr: 0.1\ntag host: a1\ntag host: removed\n")
        metrics = run.get_metrics()
        self.assertEqual(metrics["loss"][0], 0.5)
        self.assertNotEqual(metrics["loss"][1], metrics["loss"][1])
        self.assertEqual((metrics["list"], metrics["row"]), ([1, 2], {"a": [1], "b": ["x"]}))
        self.assertEqual(run.get_tags(), {})

    def test_the_context_outside_of_a_run_is_offline_unless_that_is_forbidden(self):
        out = subprocess.run([sys.executable, "-c",
                              "from trainyard import Run\nrun = Run.get_context()\nrun.log('loss', 0.5)\n"
                              "print(run.id.startswith('OfflineRun'), run is Run.get_context())\nrun.complete()"],
                             env=dict(os.environ, PYTHONPATH=str(PACKAGE)), capture_output=True, text=True)
        self.assertEqual((out.stdout, out.stderr, out.returncode), ("loss: 0.5\nTrue True\n", "", 0))
        with self.assertRaises(UserError):
            Run.get_context(allow_offline=False)

    def test_every_call_of_a_run_works_without_a_server(self):
        class Plot:
            def savefig(self, path):
                pathlib.Path(path).write_bytes(b"png")
        pathlib.Path("f.txt").write_text("f")
        os.mkdir("folder")
        os.mkdir("outputs")
        pathlib.Path("outputs/f.txt").write_text("f")
        run = self.run_
        calls = {
            "log": ("a", 1), "log_list": ("a", [1]), "log_row": ("r",), "log_table": ("t", {"a": [1]}),
            "log_image": ("i", None, Plot()), "log_confusion_matrix": ("c", {}), "log_accuracy_table": ("c", {}),
            "log_residuals": ("c", {}), "log_predictions": ("c", {}), "log_parameter": ("p", 1),
            "log_parameters": ({"p": 1},), "tag": ("t",), "set_tags": ({"t": 1},), "remove_tags": (["t"],),
            "add_properties": ({"p": 1},), "upload_file": ("outputs/h.txt", "f.txt"),
            "upload_files": (["g.txt"], ["f.txt"]), "upload_folder": ("folder", "folder"),
            "download_file": ("outputs/f.txt", "back.txt"), "create_children": (2,), "fail": ("bad",),
            "get": None, "get_context": None, "restore_snapshot": None, "get_all_logs": None,
        }

        def act():
            for name, method in inspect.getmembers(run, inspect.ismethod):
                if name.startswith("_") or calls.get(name, ()) is None:
                    continue
                result = getattr(run, name)(*calls.get(name, ()))
                if inspect.isgenerator(result):
                    list(result)
            for name in ("id", "name", "display_name", "number", "experiment", "parent", "type", "status", "tags",
                         "properties", "description"):
                getattr(run, name)
        self.printed(act)
        self.assertEqual(pathlib.Path("back.txt").read_text(), "f")
        self.assertEqual(pathlib.Path("outputs/g.txt").read_text(), "f")
        self.assertEqual(run.experiment.name, os.path.basename(os.getcwd()))

    def test_what_raises_in_a_run_raises_here_too(self):
        for wrong in (lambda: self.run_.upload_file("x", "no such file"),
                      lambda: self.run_.upload_file("../x", __file__),
                      lambda: self.run_.upload_folder("x", "no such folder")):
            with self.assertRaises(UserError):
                wrong()
        with self.assertRaises(NotFound):
            self.run_.download_file("outputs/none")
        self.assertEqual(os.listdir("."), [])

    def test_a_file_is_found_by_the_name_it_was_uploaded_by(self):
        pathlib.Path("f").write_text("f")
        for name, kept in (("a b/ü.txt", "outputs/a b/ü.txt"), (" x ", "outputs/ x "), ("logs/l", "logs/l")):
            self.run_.upload_file(name, "f")
            self.assertIn(kept, self.run_.get_file_names())
            self.run_.download_file(name, "back")
            self.assertEqual(pathlib.Path("back").read_text(), "f")
        self.assertEqual([os.path.basename(path) for path in self.run_.get_all_logs("got")], ["l"])

    def test_a_childs_files_are_its_own(self):
        pathlib.Path("f").write_text("f")
        child = self.run_.child_run()
        child.upload_file("m.txt", "f")
        self.assertEqual(child.get_file_names(), ["outputs/m.txt"])
        self.assertEqual(pathlib.Path("outputs", child.id, "outputs/m.txt").read_text(), "f")

    def test_fail_sets_the_exit_code_as_in_a_run(self):
        for text, code in (("run.fail('no data', 'E7')\nprint(run.status)", 1), ("run.complete()\nprint(run.status)", 0),
                           ("run.child_run().fail('x')\nprint(run.status)", 0)):
            done = subprocess.run([sys.executable, "-c", "from trainyard import Run\nrun = Run.get_context()\n" + text],
                                  env=dict(os.environ, PYTHONPATH=str(PACKAGE)), capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout), (code, "Running\n"), done.stderr)
            self.assertEqual("E7: no data" in done.stderr, code == 1)

    def test_children_print_their_name_and_keep_their_own_metrics(self):
        def act():
            with self.run_.child_run("fold 1") as child:
                child.log("loss", 1)
                child.tag("fold", 1)
            self.assertEqual(child.status, "Completed")
            self.assertIs(child.parent, self.run_)
            self.assertEqual(list(self.run_.get_children()), [child])
            self.assertEqual(list(self.run_.get_children(tags="fold")), [child])
            self.assertEqual(list(self.run_.get_children(tags={"fold": 2})), [])
            self.assertEqual(self.run_.get_metrics(recursive=True), {child.id: {"loss": 1}})
        self.assertEqual(self.printed(act), "fold 1: loss: 1\nfold 1: tag fold: 1\n")

    def test_a_property_is_written_once_here_too(self):
        self.printed(lambda: self.run_.add_properties({"a": 1}))
        with self.assertRaises(Conflict):
            self.run_.add_properties({"a": 2})
        self.assertEqual(self.run_.properties, {"a": "1"})

    def test_letters_that_the_terminal_lacks_are_written_otherwise(self):
        done = subprocess.run([sys.executable, "-c", "from trainyard import Run\nRun.get_context().log('größe', 1)"],
                              env=dict(os.environ, PYTHONPATH=str(PACKAGE), PYTHONIOENCODING="ascii"),
                              capture_output=True, text=True)
        self.assertEqual((done.stdout, done.stderr), ("gr\\xf6\\xdfe: 1\n", ""))

    def test_an_output_that_is_closed_does_not_fail_it(self):
        done = subprocess.run(f"{sys.executable} -c 'from trainyard import Run; run = Run.get_context()\n"
                              "for _ in range(20000): run.log(\"x\", 1)\nimport sys; sys.stderr.write(\"end\")' | head -1",
                              shell=True, env=dict(os.environ, PYTHONPATH=str(PACKAGE)), capture_output=True, text=True)
        self.assertIn("end", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
