"""What scripts tell of themselves, as the command line shows it."""
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from yard import ROOT, YardTest, main, wait_until

MANY = 100_000


class Metrics(YardTest):
    def run_script(self, text, *options, code=0):
        """A script in a run, with `run` at hand; what is known of the run."""
        self.write("train.py", "from trainyard import Run\nimport os, sys\nrun = Run.get_context()\n" + text)
        self.done = self.run_cli("submit", "-e", "exp", *options, "--", "python3", "train.py")
        self.assertEqual(self.done.code, code, self.done)
        return self.show(self.json("run", "list", "--last", "1")[0]["id"])

    def metrics(self, run):
        return {m["name"]: m for m in self.json("run", "metrics", run)}

    def values(self, run, name):
        points = self.json("run", "metrics", run, "--metric", name)
        self.assertEqual([p["number"] for p in points], list(range(len(points))))
        return [p["value"] for p in points]

    def test_all_kinds_are_kept_and_shown(self):
        run = self.run_script("""
for epoch in range(5):
    run.log('loss', 1 / (epoch + 1), step=epoch * 10)
run.log('epochs', 5)
run.log('größe / m²', 3.5)
run.log('state', 'converged')
run.log_list('list', [3, 1, 2])
run.log_row('row', x=1, y='a')
run.log_row('row', x=2, y='b')
run.log_table('table', {'c': [1, 2, 3], 'd': [4, 5, 6]})
run.log_confusion_matrix('cm', {'class_labels': ['a', 'b'], 'matrix': [[1, 2], [3, 4]]})
run.log_parameter('lr', 0.1)
run.tag('stage', 'final')
run.set_tags({'k': 'v'})
run.add_properties({'commit': 'abc'})
""")["id"]
        found = self.metrics(run)
        self.assertEqual({*found}, {"loss", "epochs", "größe / m²", "state", "list", "row", "table", "cm"})
        loss = found["loss"]
        self.assertEqual((loss["kind"], loss["points"], loss["last"], loss["lastStep"]), ("scalar", 5, 0.2, 40))
        self.assertEqual(self.values(run, "loss"), [1 / (i + 1) for i in range(5)])
        self.assertEqual([p["step"] for p in self.json("run", "metrics", run, "-m", "loss")], [0, 10, 20, 30, 40])
        self.assertEqual(self.values(run, "list"), [3, 1, 2])
        self.assertEqual(self.values(run, "größe / m²"), [3.5])
        self.assertEqual(self.values(run, "row"), [{"x": 1, "y": "a"}, {"x": 2, "y": "b"}])
        self.assertEqual(found["row"]["kind"], "row")
        self.assertEqual(found["table"]["kind"], "table")
        shown = self.show(run)
        self.assertEqual((shown["metrics"]["loss"], shown["metrics"]["epochs"]), (0.2, 5))
        self.assertEqual((shown["parameters"], shown["tags"], shown["properties"]),
                         ({"lr": "0.1"}, {"stage": "final", "k": "v"}, {"commit": "abc"}))
        lines = self.ok("run", "metrics", run, "-m", "loss", "-o", "tsv").splitlines()
        self.assertEqual([line.split("\t")[:3] for line in lines][:2], [["0", "0", "1.0"], ["1", "10", "0.5"]])

    def test_lists_and_tables_show_the_latest(self):
        self.run_script("for v in (3, 2, 0.75): run.log('loss', v)\nrun.log('accuracy', 0.912345678)\n"
                        "run.tag('best')\n")
        worse = self.run_script("run.log('loss', 4)\n")["id"]
        self.run_script("pass\n")
        better = self.json("run", "list")[2]["id"]
        self.assertEqual([r["metrics"].get("loss") for r in self.json("run", "list")], [None, 4, 0.75])
        table = self.ok("run", "list", "-o", "table").splitlines()
        self.assertIn("METRICS", table[0])
        self.assertIn("loss 0.75, accuracy 0.9123", table[3])
        self.assertEqual(self.ok("run", "list", "--query", "[?metrics.loss < `1`].id", "-o", "tsv"), better + "\n")
        self.assertEqual(self.ok("run", "list", "--query", "sort_by([?metrics.loss], &metrics.loss)[].id", "-o", "tsv"),
                         f"{better}\n{worse}\n")
        self.assertEqual([r["id"] for r in self.json("run", "list", "--tag", "best")], [better])
        details = self.ok("run", "show", better, "-o", "table")
        self.assertIn("0.75", details)
        table = self.ok("run", "metrics", better, "-o", "table").splitlines()
        self.assertEqual(table[0].split(), ["METRIC", "LATEST", "STEP", "VALUES", "KIND"])
        self.assertEqual([l.split()[0] for l in table[1:]], ["loss", "accuracy"])

    def test_what_is_no_number_is_a_string_in_json(self):
        run = self.run_script("for v in (float('nan'), float('inf'), -float('inf'), 1e308, -0.0, 5e-324):\n"
                              "    run.log('odd', v)\nrun.log('last is nan', float('nan'))\n")["id"]
        self.assertEqual(self.values(run, "odd"), ["NaN", "Infinity", "-Infinity", 1e308, 0, 5e-324])
        self.assertEqual(self.metrics(run)["last is nan"]["last"], "NaN")
        self.assertEqual(self.show(run)["metrics"]["last is nan"], "NaN")
        self.assertIn("NaN", self.ok("run", "metrics", run, "-o", "table"))
        self.assertNotIn("last is nan", self.ok("run", "list", "--query", "[?metrics.\"last is nan\" < `1`]"))

    def test_what_is_not_there_is_said(self):
        run = self.run_script("run.log('loss', 1)\n")["id"]
        error = self.refused(4, "run", "metrics", run, "--metric", "los")
        self.assertIn("Did you mean 'loss'?", error)
        silent = self.run_script("pass\n")["id"]
        self.assertEqual(self.json("run", "metrics", silent), [])
        self.refused(4, "run", "metrics", silent, "--metric", "loss")
        self.refused(4, "run", "metrics", "no-such-run")
        self.refused(4, "run", "metrics", "no-such-run", "--metric", "loss")
        self.refused(2, "run", "metrics")
        self.refused(2, "run", "metrics", run, "loss")

    def test_children(self):
        run = self.run_script("""
for fold in range(3):
    with run.child_run(f'fold {fold}') as child:
        child.log('loss', fold)
        child.tag('fold', fold)
failed = run.child_run('failed')
failed.fail('no data')
run.log('folds', 3)
""")["id"]
        children = self.json("run", "list", "--parent-run-id", run)
        self.assertEqual([(c["name"], c["status"], c["parentId"], c["metrics"].get("loss")) for c in children],
                         [("failed", "Failed", run, None)] +
                         [(f"fold {i}", "Completed", run, i) for i in (2, 1, 0)])
        self.assertEqual(children[0]["error"], "no data")
        self.assertEqual(self.values(children[1]["id"], "loss"), [2])
        self.assertEqual(self.metrics(run).keys(), {"folds"})

    def test_a_retry_goes_on_with_the_same_series(self):
        run = self.run_script("a = int(os.environ['TRAINYARD_ATTEMPT'])\nfor i in range(3): run.log('x', 10 * a + i)\n"
                              "sys.exit(a == 1)\n", "--max-retries", "1")["id"]
        self.assertEqual(self.values(run, "x"), [10, 11, 12, 20, 21, 22])

    def test_ranks_tell_of_one_run(self):
        run = self.run_script("rank = int(os.environ['RANK'])\nfor i in range(200): run.log(f'r{rank}', i)\n"
                              "run.log('both', rank)\n", "--processes-per-node", "2")["id"]
        self.assertEqual((self.values(run, "r0"), self.values(run, "r1")), (list(range(200)), list(range(200))))
        self.assertEqual(sorted(self.values(run, "both")), [0, 1])

    def test_what_was_told_before_the_end_is_there_at_the_end(self):
        for text, code in (("sys.exit(3)", 3), ("os.kill(os.getpid(), 9)", 137), ("os._exit(0)", 0)):
            run = self.run_script(f"for i in range(5000): run.log('x', i)\n{text}\n", code=code)["id"]
            self.assertEqual(self.values(run, "x"), list(range(5000)))

    def test_lines_that_are_none_are_left_out_and_fail_nothing(self):
        run = self.run_script("""
with open(os.environ['TRAINYARD_RECORDS'], 'ab', buffering=0) as file:
    for line in (b'{"k":"metric","n":"x","v":1,"t":1}', b'not json', b'{}', b'{"k":"never"}', b'\\xff\\xfe', b'',
                 b'{"k":"metric","n":"x"}', b'{"k":"metric","n":"","v":1,"t":1}', b'[' * 5000,
                 b'{"k":"metric","n":"x","v":2,"t":2}'):
        file.write(line + b'\\n')
run.log('x', 3)
""")
        self.assertEqual((run["status"], self.values(run["id"], "x")), ("Completed", [1, 2, 3]))

    def test_100_000_while_the_server_is_away(self):
        self.write("train.py", "from trainyard import Run\nimport pathlib, time\nrun = Run.get_context()\n"
                               "run.log('loss', 0)\nprint('ready', flush=True)\n"
                               "while not pathlib.Path('go').exists(): time.sleep(0.01)\n"
                               f"for i in range(1, {MANY}): run.log('loss', i)\n"
                               "pathlib.Path('outputs/told').touch()\n"
                               "while not pathlib.Path('end').exists(): time.sleep(0.01)\nrun.log('done', 1)\n")
        run = self.submit("--", "python3", "train.py")
        wait_until(lambda: "ready" in self.console(run), "the script to run")
        work = self.home / "node" / f"{run}.1" / "work"
        self.kill_server()
        (work / "go").touch()
        wait_until(lambda: (work / "outputs" / "told").exists(), "all to be told, with nobody listening", 60)
        # And once more, while what was told is on its way.
        self.ok("server", "start")
        self.kill_server()
        (work / "end").touch()
        ended = self.finish(run)
        self.assertEqual((ended["status"], len(ended["attempts"])), ("Completed", 1))
        self.assertEqual(self.metrics(run)["loss"]["points"], MANY)
        self.assertEqual(self.values(run, "loss"), list(range(MANY)))
        self.assertEqual(self.metrics(run)["done"]["last"], 1)

    def test_the_same_script_by_hand_prints_and_works(self):
        text = ("from trainyard import Run\nrun = Run.get_context()\nfor i in range(2): run.log('loss', i / 2)\n"
                "run.log_list('l', [1, 2])\nrun.log_row('r', a=1)\nrun.log_table('t', {'a': [1]})\nrun.tag('k', 'v')\n"
                "with run.child_run('c') as child: child.log('x', 1)\nrun.complete()\nprint('end')\n")
        self.write("train.py", text)
        done = subprocess.run([sys.executable, "train.py"], cwd=self.code, capture_output=True, text=True, timeout=60,
                              env=dict(self.env, PYTHONPATH=str(ROOT / "python")))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("loss: 0.5\n", done.stdout)
        self.assertTrue(done.stdout.endswith("end\n"), done.stdout)
        self.assertEqual(done.stderr, "")
        self.assertFalse(self.home.exists())  # No server was started for it.
        out = self.ok("submit", "-e", "t", "--", "python3", "train.py")
        self.assertEqual(out, "end\n")


if __name__ == "__main__":
    main()
