"""v2 command jobs, as they are typed: create, stream, show, download, validate, update."""
import json
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from yard import YardTest, main

HELLO = """\
$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json
command: echo "hello world"
compute: azureml:local
experiment_name: hello
"""

TRAIN = """\
import argparse, os
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
parser.add_argument("--epochs", type=int)
parser.add_argument("--model")
options = parser.parse_args()
print("lr", options.lr, "epochs", options.epochs, "kind", os.environ["KIND"])
open(os.path.join(options.model, "weights.txt"), "w").write("42")
open("outputs/report.txt", "w").write("fine")
"""

JOB = """\
type: command
command: >-
  python3 train.py --lr ${{inputs.lr}} --epochs ${{inputs.epochs}} --model ${{outputs.model}}
code: src
environment_variables:
  KIND: ${{inputs.kind}}
inputs:
  lr: 0.1
  epochs: 3
  kind: "a plain text"
outputs:
  model:
display_name: the trial
description: what a **trial** is
experiment_name: trials
tags:
  stage: first
limits:
  timeout: 600
queue_settings:
  priority: high
"""


class Job(YardTest):
    def job(self, *args, **more):
        return self.json("job", "create", "-f", "job.yml", *args, **more)

    def write_job(self):
        self.write("src/train.py", TRAIN)
        self.write("job.yml", JOB)

    def test_hello_world_streams(self):
        self.write("hello.yml", HELLO)
        done = self.run_cli("job", "create", "-f", "hello.yml", "--stream")
        self.assertEqual((done.code, done.out), (0, "hello world\n"), done)
        run = self.json("run", "list")[0]
        self.assertEqual(run["experiment"], "hello")
        self.assertEqual(done.err.splitlines()[-1], f"run {run['id']}: Completed, exit 0")
        self.assertIsNone(run["snapshotId"])

    def test_the_job_is_printed_in_its_own_shape(self):
        self.write("job.yml", HELLO)
        job = self.job("-n", "first-job")
        self.assertEqual(job["name"], "first-job")
        self.assertEqual(job["display_name"], "first-job")
        self.assertEqual(job["experiment_name"], "hello")
        self.assertEqual(job["type"], "command")
        self.assertEqual(job["command"], 'echo "hello world"')
        self.assertRegex(job["creation_context"]["created_at"], r"^\d{4}-\d\d-\d\dT.*Z$")
        self.finish("first-job")
        shown = self.json("job", "show", "-n", "first-job")
        self.assertEqual(shown["status"], "Completed")
        self.assertEqual(shown.keys(), job.keys())
        self.assertEqual(self.ok("job", "show", "first", "--query", "status", "-o", "tsv"), "Completed\n")
        self.assertIn("first-job\tfirst-job\thello\tCompleted", self.ok("job", "show", "first", "-o", "tsv"))
        self.assertEqual([j["name"] for j in self.json("job", "list")], ["first-job"])

    def test_inputs_fill_in_and_outputs_come_back(self):
        self.write_job()
        done = self.run_cli("job", "create", "-f", "job.yml", "-s", "-n", "trial-1", "-o", "json")
        self.assertEqual(done.code, 0, done)
        line, rest = done.out.split("\n", 1)
        self.assertEqual(line, "lr 0.1 epochs 3 kind a plain text")
        job = json.loads(rest)
        self.assertEqual((job["name"], job["status"], job["display_name"]), ("trial-1", "Completed", "the trial"))
        self.assertEqual(job["description"], "what a **trial** is")
        self.assertEqual(job["inputs"], {"lr": "0.1", "epochs": "3", "kind": "a plain text"})
        self.assertEqual(job["tags"], {"stage": "first"})
        self.assertEqual(job["limits"], {"timeout": 600})
        self.assertEqual(job["queue_settings"], {"priority": "high"})
        self.assertEqual(job["outputs"]["model"]["type"], "uri_folder")

    def test_set_takes_the_files_place(self):
        self.write_job()
        done = self.run_cli("job", "create", "-f", "job.yml", "--stream", "--set", "inputs.lr=0.5",
                            "inputs.kind=a b", "tags.stage=second", "--set", "experiment_name=other")
        self.assertEqual(done.out, "lr 0.5 epochs 3 kind a b\n", done)
        run = self.json("run", "list")[0]
        self.assertEqual((run["experiment"], run["tags"]), ("other", {"stage": "second"}))
        err = self.refused(2, "job", "create", "-f", "job.yml", "--set", "inputs.lr")
        self.assertIn("--set inputs.lr: there is no '='", err)
        err = self.refused(2, "job", "create", "-f", "job.yml", "--set", "limits.timeout=soon")
        self.assertIn("--set limits.timeout=soon: limits.timeout", err)

    def test_download_has_v2s_layout(self):
        self.write_job()
        self.ok("job", "create", "-f", "job.yml", "--stream", "-n", "trial-1")
        files = lambda name: sorted(str(p.relative_to(self.code / name))
                                    for p in (self.code / name).rglob("*") if p.is_file())
        self.ok("job", "download", "-n", "trial-1", "-p", "plain")
        self.assertEqual(files("plain"), ["artifacts/outputs/model/weights.txt", "artifacts/outputs/report.txt"])
        self.ok("job", "download", "-n", "trial", "--output-name", "model", "--download-path", "one")
        self.assertEqual(files("one"), ["named-outputs/model/weights.txt"])
        done = self.json("job", "download", "trial-1", "--all", "-p", "all")
        found = files("all")
        self.assertEqual(done["files"], len(found))
        for path in ["artifacts/outputs/report.txt", "artifacts/user_logs/std_log.txt",
                     "named-outputs/model/weights.txt"]:
            self.assertIn(path, found)
        err = self.refused(4, "job", "download", "-n", "trial-1", "--output-name", "modle")
        self.assertIn("no output 'modle'", err)
        self.assertIn("Did you mean 'model'?", err)

    def test_code_may_be_a_single_file_and_is_found_from_the_job_file(self):
        self.write("jobs/job.yml", "command: ls; python3 say.py\ncode: ./say.py\nexperiment_name: t\n")
        self.write("jobs/say.py", "print('said')\n")
        self.write("jobs/other.txt", "stays at home")
        done = self.run_cli("job", "create", "-f", "jobs/job.yml", "--stream")
        self.assertEqual(done.code, 0, done)
        self.assertIn("say.py\n", done.out)
        self.assertIn("said\n", done.out)
        self.assertNotIn("other.txt", done.out)

    def test_the_experiment_is_the_attached_one_or_the_folders_name(self):
        self.write("job.yml", "command: 'true'\n")
        self.assertEqual(self.job()["experiment_name"], "code")
        self.ok("folder", "attach", "-w", "default", "-e", "attached")
        self.assertEqual(self.job()["experiment_name"], "attached")

    def test_a_name_is_given_once(self):
        self.write("job.yml", HELLO)
        self.job("-n", "mine")
        err = self.refused(5, "job", "create", "-f", "job.yml", "-n", "mine")
        self.assertIn("job mine exists already", err)
        self.write("job.yml", HELLO + "name: mine\n")
        self.refused(5, "job", "create", "-f", "job.yml")
        # A beginning of a name is another name.
        self.assertEqual(self.job("-n", "min")["name"], "min")

    def test_the_exit_code_is_the_jobs_own(self):
        self.write("job.yml", "command: exit 7\nexperiment_name: t\n")
        self.assertEqual(self.run_cli("job", "create", "-f", "job.yml", "--stream").code, 7)
        self.assertEqual(self.run_cli("job", "create", "-f", "job.yml", "-n", "seven").code, 0)
        self.finish("seven")
        done = self.run_cli("job", "stream", "-n", "seven")
        self.assertEqual(done.code, 7, done)
        self.assertEqual(done.err.splitlines()[-1], "run seven: Failed, exit 7")

    def test_stream_shows_all_and_cancel_stops(self):
        self.write("job.yml", "command: echo begun; sleep 300\nexperiment_name: t\n")
        self.job("-n", "long")
        stream = self.start("job", "stream", "-n", "long")
        self.assertEqual(stream.stdout.readline(), "begun\n")
        self.assertEqual(self.json("job", "cancel", "-n", "long")["name"], "long")
        out, err = stream.communicate(timeout=40)
        self.assertEqual(stream.returncode, 1, err)
        self.assertEqual(self.json("job", "show", "long")["status"], "Canceled")
        self.refused(5, "job", "cancel", "-n", "long")

    def test_save_as_and_metadata(self):
        self.write("job.yml", HELLO)
        done = self.run_cli("job", "create", "-f", "job.yml", "-a", "saved.json", "-t", "run.json",
                            "-n", "saved")
        self.assertEqual(done.code, 0, done)
        job = json.loads(done.out)
        self.assertEqual(json.loads((self.code / "saved.json").read_text())["name"], "saved")
        self.assertEqual(json.loads((self.code / "run.json").read_text()), job)
        # There is no studio yet: no link leads to it.
        self.assertIsNone(job["services"]["Studio"]["endpoint"])
        self.assertIn("--web", self.refused(2, "job", "create", "-f", "job.yml", "--web"))
        self.ok("job", "create", "-f", "job.yml", "--save-as", "saved.yml", "-n", "saved-2")
        self.assertIn("name: saved-2\n", (self.code / "saved.yml").read_text())
        self.refused(4, "job", "create", "-f", "job.yml", "--save-as", "no/such/folder.yml")
        self.assertEqual(len(self.json("job", "list")), 2)

    def test_a_saved_job_validates_and_can_be_created_again(self):
        self.write_job()
        self.write("src/conda.yml", "dependencies: [python]\n")
        (self.code / "kept").mkdir()
        for name in ("kept/again.yml", "kept/again.json", "again.yml"):
            with self.subTest(name):
                self.ok("job", "create", "-f", "job.yml", "--set", "inputs.lr=1.0e-2", "--stream",
                        "--save-as", name)
                done = self.run_cli("job", "validate", name)
                self.assertEqual((done.code, json.loads(done.out)), (0, []), done)
                done = self.run_cli("job", "create", "-f", name, "--stream")
                self.assertEqual((done.code, done.out), (0, "lr 0.01 epochs 3 kind a plain text\n"), done)
                first, second = self.json("run", "list")[:2]
                for key in ("command", "parameters", "tags", "snapshotId", "experiment", "name"):
                    self.assertEqual(first[key], second[key])
                self.assertEqual(first["parameters"]["lr"], "1.0e-2")

    def test_metadata_at_the_end_of_a_stream(self):
        self.write("job.yml", HELLO)
        self.ok("job", "create", "-f", "job.yml", "--stream", "-t", "run.json", "-n", "told")
        told = json.loads((self.code / "run.json").read_text())
        self.assertEqual((told["name"], told["status"]), ("told", "Completed"))

    def test_list_filters(self):
        self.write("job.yml", HELLO)
        for name in ["a1", "a2", "a3"]:
            self.job("-n", name, "--set", f"tags.which={name}")
        names = lambda *args: [job["name"] for job in self.json("job", "list", *args)]
        self.assertEqual(names(), ["a3", "a2", "a1"])
        self.assertEqual(names("-r", "2"), ["a3", "a2"])
        self.assertEqual(names("--tag", "which=a2"), ["a2"])
        self.assertEqual(self.json("job", "archive", "-n", "a2")["archived"], True)
        self.assertEqual(names(), ["a3", "a1"])
        self.assertEqual(names("--archived-only"), ["a2"])
        self.assertEqual(names("--include-archived"), ["a3", "a2", "a1"])
        self.ok("job", "restore", "-n", "a2")
        self.assertEqual(names(), ["a3", "a2", "a1"])
        self.assertEqual(self.ok("job", "list", "--query", "[].name", "-o", "tsv"), "a3\na2\na1\n")
        self.assertEqual(names("--parent-job-name", "a1"), [])
        self.refused(2, "job", "list", "--archived-only", "--include-archived")

    def test_update_changes_labels_and_nothing_else(self):
        self.write("job.yml", HELLO)
        self.job("-n", "u")
        job = self.json("job", "update", "-n", "u", "--set", "tags.k=v=w", "tags.a.b=c", "display_name=better",
                        "description=long words", "properties.p=1")
        self.assertEqual(job["tags"], {"k": "v=w", "a.b": "c"})
        self.assertEqual((job["display_name"], job["description"]), ("better", "long words"))
        self.assertEqual(job["properties"]["p"], "1")
        self.assertEqual(self.json("job", "update", "u", "--remove", "tags.k")["tags"], {"a.b": "c"})
        self.refused(5, "job", "update", "-n", "u", "--set", "properties.p=2")
        self.assertIn("'experiment_name' of a job cannot be changed",
                      self.refused(2, "job", "update", "-n", "u", "--set", "experiment_name=x"))
        self.assertIn("Did you mean 'tags'?", self.refused(2, "job", "update", "-n", "u", "--set", "tag.x=y"))
        self.refused(2, "job", "update", "-n", "u")
        self.refused(4, "job", "update", "-n", "nobody", "--set", "tags.a=b")

    def test_what_a_file_lacks_or_has_too_much(self):
        self.assertIn("which job file?", self.refused(2, "job", "create"))
        self.refused(4, "job", "create", "-f", "missing.yml")
        self.write("job.yml", "comand: x\n")
        err = self.refused(2, "job", "create", "-f", "job.yml")
        self.assertIn("error: job.yml:1: command: is missing\n", err)
        self.assertIn("unknown key 'comand'; did you mean 'command'?", err)
        self.write("job.yml", HELLO + "tgas: {a: b}\n")
        done = self.run_cli("job", "create", "-f", "job.yml", "--stream")
        self.assertEqual(done.code, 0, done)
        warnings = [line for line in done.err.splitlines() if "job.yml:5:" in line]
        self.assertEqual(len(warnings), 1, done)
        self.assertIn("did you mean 'tags'?", warnings[0])
        self.write("job.yml", HELLO.replace("azureml:local", "azureml:cpu-cluster"))
        err = self.refused(4, "job", "create", "-f", "job.yml")
        self.assertIn("error: job.yml:3: target 'cpu-cluster' does not exist", err)
        self.write("job.yml", HELLO + "code: ./src\n")
        self.assertIn("job.yml:5: code: './src' is not in", self.refused(2, "job", "create", "-f", "job.yml"))


class Validate(YardTest):
    def validate(self, *args, **more):
        done = self.run_cli("job", "validate", *args, **more)
        self.assertFalse(self.home.exists(), "a server was started")
        return done

    def test_a_good_file_is_good(self):
        self.write("job.yml", HELLO)
        done = self.validate("-f", "job.yml")
        self.assertEqual((done.code, json.loads(done.out)), (0, []), done)

    def test_bad_files_are_refused_with_their_place(self):
        cases = {
            "malformed": ("command: [a\nb: {\n", r"malformed.yml:\d+: error: "),
            "tab": ("command: x\ninputs:\n\tlr: 1\n", r"tab.yml:3: error: "),
            "types": ("command: x\nlimits:\n  timeout: soon\n", r"types.yml:3: error: limits.timeout"),
            "cycle": ("command: x\ninputs: &a\n  x: *a\n", r"cycle.yml:3: error: "),
            "expression": ("command: |\n  true\n  echo ${{inptus.x}}\n", r"expression.yml:3: error: command"),
            "unknown-input": ("command: echo ${{inputs.lr}}\ninputs: {ls: 1}\n", r"unknown-input.yml:1: error: "),
            "twice": ("command: x\ncommand: y\n", r"twice.yml:2: error: "),
            "json": ('{"command": "x",\n "limits": {,}}\n', r"json.yml:2: error: "),
            "list": ("- command: x\n", r"list.yml:1: error: "),
            "sweep": ("type: sweep\n", r"sweep.yml:1: error: describes a sweep job, which is not supported yet"),
        }
        for name, (text, expected) in cases.items():
            with self.subTest(name):
                self.write(f"{name}.yml", text)
                done = self.validate("-f", f"{name}.yml")
                self.assertEqual(done.code, 2, done)
                self.assertRegex(done.err, expected)
                self.assertIn("error: 1 of 1 file cannot be submitted", done.err)
                found = json.loads(done.out)
                self.assertTrue(any(f["severity"] == "error" and f["line"] for f in found), found)
                err = self.run_cli("job", "create", "-f", f"{name}.yml")
                self.assertEqual((err.code, err.out), (2, ""), err)
                self.assertTrue(err.err.startswith("error: " + name + ".yml:"), err)
                self.assertFalse(self.home.exists())

    def test_a_run_configuration_without_an_extension_is_checked_as_one(self):
        good = "script: train.py\ntarget: local\nenvironment:\n  python:\n    userManagedDependencies: true\n"
        self.write(".azureml/local", good)
        self.write("aml_config/cpu.json", '{"script": "train.py", "nodeCount": 2, "communicator": "Mpi", "mpi": {}}')
        done = self.validate(".azureml/local", "aml_config/cpu.json")
        self.assertEqual((done.code, json.loads(done.out)), (0, []), done)
        self.write(".azureml/bad", good.replace("script", "scrpt") + "framework: Pyton\n")
        done = self.validate(".azureml/bad")
        self.assertEqual(done.code, 2, done)
        self.assertIn(".azureml/bad:6: error: framework", done.err)
        self.write("run.yml", good)
        done = self.validate("run.yml")
        self.assertIn("describes a run configuration, not a job\n       Use: trainyard run submit-script -c run.yml",
                      done.err)

    def test_ten_megabytes_are_refused_at_once(self):
        (self.code / "big.yml").write_text("command: x\ninputs:\n" + "".join(
            f"  key{i}: {'x' * 100}\n" for i in range(95_000)))
        start = time.monotonic()
        done = self.validate("-f", "big.yml")
        self.assertLess(time.monotonic() - start, 2)
        self.assertEqual(done.code, 2, done)
        self.assertIn("big.yml: error: larger than", done.err)
        self.refused(2, "job", "create", "-f", "big.yml")

    def test_anchors_that_multiply_are_refused_at_once(self):
        lines = ["command: x", "inputs:", "  a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
        lines += [f"  a{i}: &a{i} [{', '.join(['*a' + str(i - 1)] * 10)}]" for i in range(1, 12)]
        self.write("bomb.yml", "\n".join(lines) + "\n")
        start = time.monotonic()
        self.assertEqual(self.validate("-f", "bomb.yml").code, 2)
        self.assertLess(time.monotonic() - start, 2)

    def test_many_files_folders_and_run_configurations(self):
        self.write("jobs/a.yml", HELLO)
        self.write("jobs/b.yaml", HELLO + "unknwon: 1\n")
        self.write("jobs/notes.txt", "{{{")
        self.write("x.yml", "comand: x\n")
        self.write("c.runconfig", "script: train.py\nnodeCount: many\n")
        done = self.validate("jobs", "-f", "x.yml", "c.runconfig", "-o", "json")
        self.assertEqual(done.code, 2, done)
        found = [(f["file"], f["line"], f["severity"]) for f in json.loads(done.out)]
        self.assertIn(("jobs/b.yaml", 5, "warning"), found)
        self.assertIn(("x.yml", 1, "error"), found)
        self.assertIn(("c.runconfig", 2, "error"), found)
        self.assertIn("error: 2 of 4 files cannot be submitted", done.err)
        self.assertEqual(self.validate("jobs").code, 0)
        self.assertEqual(self.validate("missing.yml").code, 4)
        self.assertEqual(self.validate().code, 2)

    def test_a_thousand_files_take_less_than_two_seconds(self):
        for i in range(1000):
            self.write(f"jobs/{i}.yml", HELLO + f"tags: {{number: {i}}}\n")
        start = time.monotonic()
        done = self.validate("jobs")
        self.assertLess(time.monotonic() - start, 2)
        self.assertEqual(done.code, 0, done)


if __name__ == "__main__":
    main()
