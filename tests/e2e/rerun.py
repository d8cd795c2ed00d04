"""Runs made once more, with other values or code, and what two runs differ in."""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from yard import YardTest, main

SHOW = "import os, sys\nprint(*sys.argv[1:], os.environ.get('COLOUR', ''))\n"


class Runs(YardTest):
    def setUp(self):
        super().setUp()
        self.write("show.py", SHOW)

    def ran(self, *args, code=0, options=()):
        """Runs show.py with these arguments and waits for it; its id."""
        done = self.run_cli("submit", "-e", "first", *options, "--", "python3", "show.py", *args)
        self.assertEqual(done.code, code, done)
        return self.newest()["id"]

    def told_of(self, run):
        """A run that a program elsewhere reports."""
        status, body = self.http("POST", "/api/v1/runs",
                                 {"id": run, "spec": {"experiment": "e", "interactive": True}})
        self.assertEqual(status, 201, body)

    def newest(self):
        return self.show(self.json("run", "list", "--last", "1")[0]["id"])


class Rerun(Runs):
    def test_the_same_once_more(self):
        self.write("data.txt", "kept")
        first = self.ran("--lr", "0.1", options=("--env-var", "COLOUR=red", "--tag", "k=v", "--name", "my run",
                                                 "--priority", "high", "--time", "60", "--max-retries", "1"))
        self.write("show.py", "raise SystemExit('other code')")  # Does not matter: the run has its own.
        (self.code / "data.txt").unlink()
        done = self.run_cli("run", "rerun", first[:-2])
        self.assertEqual((done.code, done.out), (0, "--lr 0.1 red\n"), done)
        again, before = self.newest(), self.show(first)
        self.assertNotEqual(again["id"], first)
        self.assertEqual(done.err.splitlines()[-1], f"run {again['id']}: Completed, exit 0")
        self.assertEqual(again["properties"], {"trainyard.rerunOf": first})
        for key in ("command", "experiment", "name", "tags", "priority", "timeLimitSeconds", "maxRetries", "snapshotId",
                    "environmentVariables", "workspace", "target"):
            self.assertEqual(again[key], before[key], key)

    def test_arguments_in_all_their_forms(self):
        first = self.ran("--lr", "0.1", "--mode=fast", "-n", "5", "--bias", "-1", "--quiet", "pos", "-b=2", "--last")
        sets = {"lr=0.2": "--lr 0.2", "mode=slow": "--mode=slow", "mode=": "--mode=", "n=-6": "-n -6",
                "bias=.5": "--bias .5", "b=3": "-b=3", "last=no": "--last=no", "lr=a b=c": "--lr a b=c"}
        before = "--lr 0.1 --mode=fast -n 5 --bias -1 --quiet pos -b=2 --last \n"
        was = {"lr": "--lr 0.1", "mode": "--mode=fast", "n": "-n 5", "bias": "--bias -1", "b": "-b=2", "last": "--last"}
        for given, now in sets.items():
            self.assertEqual(self.ok("run", "rerun", first, "--set", given),
                             before.replace(was[given.partition("=")[0]], now), given)
        self.assertEqual(self.ok("run", "rerun", first, "--set", "lr=1", "--set=n=2"),
                         before.replace("--lr 0.1", "--lr 1").replace("-n 5", "-n 2"))
        # What was set once can be set again.
        self.assertEqual(self.ok("run", "rerun", self.newest()["id"], "--set", "lr=3"),
                         before.replace("--lr 0.1", "--lr 3").replace("-n 5", "-n 2"))

    def test_fields(self):
        first = self.ran("--name", "of the script", options=("--tag", "a=1", "--tag", "b=1", "--time", "50"))
        self.assertEqual(self.ok("run", "rerun", first, *[w for given in (
            "env.COLOUR=blue", "tag.a=2", "tag.c=ü", "experiment=second", "priority=low", "cpus=2", "mem=64M",
            "time=2m", "max-retries=3", "name=its own") for w in ("--set", given)]), "--name its own blue\n")
        run = self.newest()
        self.assertEqual(run["tags"], {"a": "2", "b": "1", "c": "ü"})
        self.assertEqual((run["experiment"], run["priority"], run["cpus"], run["memoryBytes"], run["timeLimitSeconds"],
                          run["maxRetries"], run["environmentVariables"]),
                         ("second", "low", 2, 64 << 20, 120, 3, {"COLOUR": "blue"}))
        self.assertEqual(run["name"], run["id"])  # The script's --name went first.
        self.ok("run", "rerun", first, "--set", "processes-per-node=2", "--set", "time=0", "-o", "none")
        self.assertEqual((self.newest()["processCountPerNode"], self.newest()["timeLimitSeconds"]), (2, 0))
        other = self.ran("x")
        self.ok("run", "rerun", other, "--set", "name=new name")
        self.assertEqual(self.newest()["name"], "new name")

    def test_what_cannot_be_set_is_refused_and_nothing_runs(self):
        first = self.ran("--lr", "0.1", "--epochs", "3")
        error = self.refused(2, "run", "rerun", first, "--set", "epoch=4")
        self.assertIn("Did you mean 'epochs'?", error)
        self.assertIn("epochs, lr", error)
        self.assertIn("'priority'", self.refused(2, "run", "rerun", first, "--set", "prioritty=low"))
        self.assertIn("'lr'", self.refused(2, "run", "rerun", first, "--set", "--lr=4"))
        for given in ("batch=4", "lr", "=4", "env.=4", "cpus=many", "cpus=-1", "cpus=0", "cpus=99999",
                      "mem=lots", "time=soon", "priority=first", "max-retries=-1", "nodes=2", "experiment="):
            self.refused(2, "run", "rerun", first, "--set", given)
        self.refused(4, "run", "rerun", first, "--set", "target=cluster")
        self.refused(4, "run", "rerun", "no-such-run")
        self.refused(2, "run", "rerun")
        self.refused(2, "run", "rerun", first, first)
        self.refused(4, "run", "rerun", first, "-e", "another")
        self.refused(4, "run", "rerun", first, "--code", "nowhere")
        self.refused(2, "run", "rerun", first, "--code", "show.py")
        self.refused(2, "run", "rerun", first, "--code", "/")
        self.refused(2, "run", "rerun", first, "--async", "--download", "x")
        self.assertEqual(len(self.json("run", "list")), 1)

    def test_other_code(self):
        first = self.ran("--lr", "0.1")
        self.write("show.py", "print('changed')")
        self.write("new/show.py", "print('elsewhere')")
        self.assertEqual(self.ok("run", "rerun", first), "--lr 0.1 \n")
        self.assertEqual(self.ok("run", "rerun", first, "--code", "."), "changed\n")
        self.assertEqual(self.ok("run", "rerun", first, "--code", "new", "--set", "lr=1"), "elsewhere\n")
        self.assertEqual(self.newest()["command"], ["python3", "show.py", "--lr", "1"])
        self.assertEqual(self.newest()["snapshotFiles"], 1)

    def test_async_prints_the_id_alone(self):
        first = self.ran("a")
        done = self.run_cli("run", "rerun", first, "--async")
        self.assertEqual(done.code, 0, done)
        run = self.finish(done.out.removesuffix("\n"))
        self.assertEqual((run["status"], run["properties"]["trainyard.rerunOf"]), ("Completed", first))
        self.assertEqual(self.ok("run", "rerun", first, "--no-wait", "--query", "properties", "-o", "tsv"),
                         first + "\n")
        self.ok("run", "rerun", first, "--async", "-t", self.scratch / "run.json")
        self.assertEqual(json.loads((self.scratch / "run.json").read_text())["command"], ["python3", "show.py", "a"])

    def test_the_exit_code_is_the_new_runs_own(self):
        self.write("show.py", "import sys\nsys.exit(int(sys.argv[2]))\n")
        first = self.ran("--code", "7", code=7)
        self.assertEqual(self.show(first)["status"], "Failed")
        done = self.run_cli("run", "rerun", first)
        self.assertEqual((done.code, done.err.splitlines()[-1]), (7, f"run {self.newest()['id']}: Failed, exit 7"))
        self.assertEqual(self.run_cli("run", "rerun", first, "--set", "code=0").code, 0)
        self.assertEqual(self.run_cli("run", "rerun", first, "--set", "code=9").code, 9)

    def test_outputs_are_fetched(self):
        self.write("show.py", "import sys\nopen('outputs/m.txt', 'w').write(sys.argv[2])\nsys.exit(int(sys.argv[4]))\n")
        first = self.ran("--text", "one", "--code", "0")
        self.ok("run", "rerun", first, "--set", "text=two", "--download", self.scratch / "deep" / "got")
        self.assertEqual((self.scratch / "deep" / "got" / "outputs" / "m.txt").read_text(), "two")
        # A failed run's too.
        done = self.run_cli("run", "rerun", first, "--set", "text=three", "--set", "code=3", "--download", "got")
        self.assertEqual(done.code, 3, done)
        self.assertEqual((self.code / "got" / "outputs" / "m.txt").read_text(), "three")
        # Where they cannot go is found out before anything runs.
        before = len(self.json("run", "list"))
        self.refused(2, "run", "rerun", first, "--download", "show.py")
        self.refused(2, "run", "rerun", first, "--download", "show.py/below")
        self.refused(2, "run", "rerun", first, "--download", "")
        self.assertEqual(len(self.json("run", "list")), before)
        # What hinders only later is told, and so is the run.
        self.write("taken/outputs/m.txt/x", "a folder where a file is to be")
        done = self.run_cli("run", "rerun", first, "--download", "taken")
        self.assertNotEqual(done.code, 0, done)
        self.assertIn("error: --download: ", done.err)
        self.assertEqual(done.err.splitlines()[-1], f"run {self.newest()['id']}: Completed, exit 0")

    def test_inputs_of_a_job(self):
        self.write("../job.yml", "command: echo lr ${{inputs.lr}} of ${{inputs.data}}\n"
                                 "inputs:\n  lr: 0.1\n  data: digits\n")
        self.assertEqual(self.ok("job", "create", "--stream", "-f", "../job.yml"), "lr 0.1 of digits\n")
        first = self.newest()["id"]
        self.assertEqual(self.ok("run", "rerun", first), "lr 0.1 of digits\n")
        self.assertEqual(self.ok("run", "rerun", first, "--set", "lr=0.5"), "lr 0.5 of digits\n")
        self.assertEqual(self.ok("run", "rerun", first, "--set", "inputs.lr=7"), "lr 7 of digits\n")
        self.assertEqual(self.newest()["parameters"], {"lr": "7", "data": "digits"})
        error = self.refused(2, "run", "rerun", first, "--set", "lrr=1")
        self.assertIn("'lr'", error)
        self.assertIn("data, lr", error)

    def test_a_run_of_a_shell_and_of_several_ranks(self):
        self.ok("submit", "-e", "t", "--processes-per-node", "2", "--", "sh", "-c", "echo rank $RANK")
        first = self.newest()["id"]
        out = self.ok("run", "rerun", first)
        self.assertEqual(sorted(out.splitlines()), ["[0] rank 0", "[1] rank 1"])

    def test_what_a_script_elsewhere_reported_cannot_be_run(self):
        self.ok("server", "start")
        self.told_of("by-hand")
        self.assertIn("by-hand", self.refused(2, "run", "rerun", "by-hand"))
        self.assertEqual(self.http("POST", "/api/v1/runs/by-hand/end", {"status": "Completed"})[0], 200)


class Diff(Runs):
    def diff(self, *args):
        return self.json("run", "diff", *args)

    def names(self, rows):
        return {row["name"]: (row["a"], row["b"], row["change"]) for row in rows}

    def test_parameters_code_environment_and_metrics(self):
        self.write("show.py", "from trainyard import Run\nimport sys\nrun = Run.get_context()\n"
                              "run.log('loss', float(sys.argv[2]))\nrun.log('only a', 1)\n"
                              "run.log_parameter('seed', 1)\n")
        self.write("gone.py", "")
        self.write("same.py", "")
        a = self.ran("--lr", "0.5", "--old", "x", options=("--env-var", "COLOUR=red", "--cpus", "1"))
        self.write("show.py", "from trainyard import Run\nimport sys\nrun = Run.get_context()\n"
                              "run.log('loss', float(sys.argv[2]))\nrun.log_parameter('seed', 2)\n")
        (self.code / "gone.py").unlink()
        self.write("new.py", "")
        b = self.ran("--lr", "0.25", "--fresh", options=("--env-var", "COLOUR=blue", "--cpus", "2"))
        diff = self.diff(a, b)
        self.assertEqual([*diff], ["a", "b", "parameters", "code", "environment", "metrics"])
        self.assertEqual((diff["a"], diff["b"]), (a, b))
        self.assertEqual(self.names(diff["parameters"]),
                         {"lr": ("0.5", "0.25", "changed"), "old": ("x", None, "removed"),
                          "fresh": (None, "true", "added"), "seed": ("1", "2", "changed")})
        self.assertEqual({n: c for n, (_, _, c) in self.names(diff["code"]).items()},
                         {"gone.py": "removed", "new.py": "added", "show.py": "changed"})
        self.assertEqual({n: v for n, v in self.names(diff["environment"]).items() if n != "command"},
                         {"cpus": (1, 2, "changed"), "env.COLOUR": ("red", "blue", "changed")})
        self.assertEqual(self.names(diff["metrics"]),
                         {"loss": (0.5, 0.25, "changed"), "only a": (1, None, "removed")})
        self.assertEqual([row["delta"] for row in diff["metrics"] if row["name"] == "loss"], [-0.25])
        self.assertEqual(self.ok("run", "diff", a, b, "--query", "metrics[].[name, delta]", "-o", "tsv"),
                         "loss\t-0.25\nonly a\t\n")
        table = self.ok("run", "diff", a, b, "-o", "table")
        for word in (a, b, "loss", "-0.25", "gone.py", "removed", "env.COLOUR"):
            self.assertIn(word, table)
        self.assertNotIn("same.py", table)
        self.assertIn("code\tgone.py\t", self.ok("run", "diff", a, b, "-o", "tsv"))
        self.assertEqual(self.names(self.diff(a, b, "--all")["code"])["same.py"][2], "same")

    def test_runs_that_are_the_same_say_so(self):
        a = self.ran("--lr", "0.5")
        self.ok("run", "rerun", a)
        b = self.newest()["id"]
        sections = ("parameters", "code", "environment", "metrics")
        for other in (a, b):
            self.assertEqual({s: self.diff(a, other)[s] for s in sections}, {s: [] for s in sections})
            self.assertEqual(self.ok("run", "diff", a, other, "-o", "table"),
                             "".join(f"{s}: the same\n" for s in sections))
        everything = self.ok("run", "diff", a, b, "--all", "-o", "table")
        self.assertIn("same", everything)
        self.assertNotIn("+0", everything)

    def test_secrets_are_named_and_children_without_code_compared(self):
        self.ok("secret", "set", "API_KEY", stdin=None, input="its very value")
        a, b = self.ran("x"), self.ran("x", options=("--secret", "API_KEY"))
        self.assertEqual(self.names(self.diff(a, b)["environment"]), {"secrets": ("", "API_KEY", "changed")})
        self.assertNotIn("its very value", json.dumps(self.diff(a, b, "--all")))
        for run in ("hand-1", "hand-2"):
            self.told_of(run)
            line = json.dumps({"k": "metric", "n": "loss", "v": int(run[-1]), "t": 1}).encode() + b"\n"
            self.assertEqual(self.http("POST", f"/api/v1/runs/{run}/records", line)[0], 200)
            self.assertEqual(self.http("POST", f"/api/v1/runs/{run}/end", {"status": "Completed"})[0], 200)
        self.assertEqual(self.names(self.diff("hand-1", "hand-2")["metrics"]), {"loss": (1, 2, "changed")})

    def test_which_runs_is_asked(self):
        a = self.ran("x")
        self.refused(2, "run", "diff")
        self.refused(2, "run", "diff", a)
        self.refused(2, "run", "diff", a, a, a)
        self.refused(4, "run", "diff", a, "no-such-run")
        self.refused(4, "run", "diff", a, "../etc")


if __name__ == "__main__":
    main()
