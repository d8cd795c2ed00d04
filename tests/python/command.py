"""`python -m trainyard`: for machines without the program."""
import contextlib
import io
import json
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
from fake_yard import TOKEN, ServedTest
from trainyard.__main__ import main


class Command(ServedTest):
    def setUp(self):
        super().setUp()
        self.set_env(TRAINYARD_SERVER=self.server.url, TRAINYARD_TOKEN=TOKEN)

    def run_main(self, *words):
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
            code = main(list(words))
        self.out, self.err = out.getvalue(), err.getvalue()
        return code

    def test_submit_without_waiting_prints_the_id_alone(self):
        pathlib.Path("train.py").write_text("1")
        self.assertEqual(self.run_main("submit", "-e", "exp", "--async", "--tag", "a=1", "--env-var", "B=2=3",
                                       "--name", "shown", "--", "python3", "train.py", "--lr", "1"), 0, self)
        run = self.yard.runs[self.out.strip()]
        self.assertEqual(run["command"], ["python3", "train.py", "--lr", "1"])
        self.assertEqual((run["experiment"], run["tags"], run["name"], run["spec"]["environmentVariables"]),
                         ("exp", {"a": "1"}, "shown", {"B": "2=3"}))

    def test_logs_follow_and_exit_as_the_run_does(self):
        self.yard.add_run("r", status="Failed", exitCode=3, error="it exited with 3")
        self.yard.console["r"] = [(b"o", 0, b"hello\n")]
        self.assertEqual(self.run_main("logs", "-f", "r"), 3)
        self.assertEqual((self.out, self.err), ("hello\n", "Failed: it exited with 3\nrun r: Failed, exit 3\n"))
        self.assertEqual(self.run_main("logs", "r"), 0)
        self.assertEqual(self.out, "hello\n")

    def test_list_show_cancel_and_download(self):
        for i in range(5):
            self.yard.add_run(f"run{i}")
        self.yard.files["run0", "outputs/a.txt"] = ("output", b"a")
        self.assertEqual(self.run_main("runs", "--last", "3"), 0)
        self.assertEqual([line.split()[0] for line in self.out.splitlines()], ["ID", "run4", "run3", "run2"])
        self.run_main("show", "run0")
        self.assertEqual(json.loads(self.out)["id"], "run0")
        self.run_main("cancel", "run0")
        self.assertEqual(self.yard.runs["run0"]["status"], "Canceled")
        self.run_main("download", "run0", "-d", "got")
        self.assertEqual(pathlib.Path("got/outputs/a.txt").read_bytes(), b"a")

    def test_what_is_wrong_has_one_error_line_and_its_exit_code(self):
        for code, words in [(4, ["show", "none"]), (2, ["submit"]), (2, ["submit", "--tag", "x", "--", "a"]),
                            (2, ["--server", "nonsense", "runs"]), (6, ["flush", "no such file"])]:
            self.assertEqual(self.run_main(*words), code, words)
            self.assertTrue(self.err.startswith("error: "), self.err)
            self.assertEqual(self.out, "")
        os.environ["TRAINYARD_TOKEN"] = "wrong"
        self.assertEqual(self.run_main("runs"), 3)
        self.server.close()
        self.assertEqual(self.run_main("runs"), 6)
        self.restart_server()


if __name__ == "__main__":
    unittest.main(verbosity=2)
