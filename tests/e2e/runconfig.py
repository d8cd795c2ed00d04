"""Run configurations, as they are typed: folder attach, run submit-script, run update."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from yard import TRAINYARD, YardTest, main

TRAIN = """\
import os, sys
print("arguments", *sys.argv[1:])
print("variable", os.environ.get("EXAMPLE_ENV_VAR"))
open("outputs/model.pkl", "w").write("42")
"""

# As the template's generator writes it, cut to what matters here.
TRAIN_LOCAL = """\
# The script to run.
script: train.py
# The arguments to the script file.
arguments:
- --epochs
- 2
# The name of the compute target to use for this run.
target: local
framework: Python
communicator: None
autoPrepareEnvironment: true
maxRunDurationSeconds:
nodeCount: 1
environment:
  name: default
  environmentVariables:
    EXAMPLE_ENV_VAR: EXAMPLE_VALUE
  python:
    userManagedDependencies: true
    interpreterPath: python
    condaDependenciesFile: aml_config/train-conda.yml
  docker:
    enabled: false
    baseImage: mcr.microsoft.com/azureml/base:0.2.4
    sharedVolumes: true
    gpuSupport: false
history:
  outputCollection: true
spark:
  configuration:
    spark.app.name: Azure ML Experiment
"""


class Template(YardTest):
    """The template's own way, as typed."""

    def setUp(self):
        super().setUp()
        self.model = self.code / "models" / "model1"
        self.write("models/model1/train.py", TRAIN)
        self.write("models/model1/aml_config/train-local.runconfig", TRAIN_LOCAL)
        self.write("models/model2/train.py", "print('the other one')\n")

    def test_attach_then_submit(self):
        self.ok("folder", "attach", "-g", "rg", "-w", "ws")
        done = self.run_cli("run", "submit-script", "-c", "train-local", "-e", "aml-poc-local", "-t", "run.json",
                            cwd=self.model)
        self.assertEqual(done.code, 0, done)
        self.assertEqual(done.out, "arguments --epochs 2\nvariable EXAMPLE_VALUE\n")
        told = json.loads((self.model / "run.json").read_text())
        self.assertEqual(told["status"], "Completed")
        self.assertEqual((told["experiment"], told["workspace"]), ("aml-poc-local", "ws"))
        self.assertEqual(done.err.splitlines()[-1], f"run {told['id']}: Completed, exit 0")
        files = {f["path"] for f in self.show(told["id"])["snapshot"]["files"]}
        self.assertEqual(files, {"train.py", "aml_config/train-local.runconfig"})
        self.ok("run", "download", told["id"], "-d", self.scratch / "got")
        self.assertEqual((self.scratch / "got" / "outputs" / "model.pkl").read_text(), "42")

    def test_a_script_of_az_ml_works_with_the_name_replaced(self):
        script = """\
set -e
az ml folder attach -g my-rg -w my-ws
cd models/model1
az ml run submit-script -c train-local -e poc --async -t run.json
run=$(python3 -c "import json; print(json.load(open('run.json'))['runId'])")
az ml run monitor-logs -r $run
az ml run show -r $run --query status -o tsv
az ml run update -r $run --add-tag quality=good --add-tag by=script > /dev/null
az ml run list -e poc --last 1 --query '[0].tags.quality' -o tsv
az ml run download-logs -r $run -d logs
az ml experiment list --query '[].name' -o tsv
"""
        (self.code / "train.sh").write_text(script.replace("az ml", TRAINYARD))
        done = subprocess.run(["sh", "train.sh"], cwd=self.code, env=self.env, capture_output=True, text=True,
                              timeout=60)
        self.assertEqual(done.returncode, 0, done)
        self.assertIn("arguments --epochs 2\n", done.stdout)
        self.assertTrue(done.stdout.endswith("Completed\ngood\npoc\n"), done)

    def test_where_the_file_is_looked_for(self):
        submit = lambda *args, **more: self.run_cli("run", "submit-script", "-e", "t", *args, **more)
        # From anywhere, by --path or --source-directory; the code is that folder then.
        self.assertEqual(submit("-c", "train-local", "--path", "models/model1").code, 0)
        self.assertEqual(submit("-c", "train-local.runconfig", "--source-directory", "models/model1").code, 0)
        self.assertEqual(submit("-c", "models/model1/aml_config/train-local.runconfig", "--path",
                                "models/model1").code, 0)
        # A project's own, for code elsewhere.
        self.write(".azureml/shared.runconfig", "script: train.py\n")
        done = submit("-c", "shared", "--source-directory", "models/model2")
        self.assertEqual((done.code, done.out), (0, "the other one\n"), done)
        # What is attached above serves all folders below.
        self.ok("folder", "attach", "-w", "default")
        done = submit("-c", "shared", cwd=self.code / "models" / "model2")
        self.assertEqual((done.code, done.out), (0, "the other one\n"), done)
        err = self.refused(4, "run", "submit-script", "-c", "train-locl", cwd=self.model)
        self.assertIn("did you mean 'train-local'?", err)
        self.refused(4, "run", "submit-script", "-c", "x", "--source-directory", "nowhere")

    def test_a_target_that_is_not_there_is_named_with_its_line(self):
        self.write("models/model1/aml_config/train-amlcompute.runconfig",
                   TRAIN_LOCAL.replace("target: local", "target: lcal"))
        err = self.refused(4, "run", "submit-script", "-c", "train-amlcompute", "-e", "poc", cwd=self.model)
        self.assertIn("error: aml_config/train-amlcompute.runconfig:8: target 'lcal' does not exist\n", err)
        self.assertIn("Did you mean 'local'? Targets here: local.", err)
        done = self.run_cli("run", "submit-script", "-c", "train-amlcompute", "--ct", "local", "-e", "poc",
                            cwd=self.model)
        self.assertEqual(done.code, 0, done)
        err = self.refused(4, "run", "submit-script", "-c", "train-local", "--target", "far", cwd=self.model)
        self.assertIn("\nerror: target 'far' does not exist\n", "\n" + err)


class Script(YardTest):
    def test_the_scripts_words_are_its_own(self):
        self.write("show.py", "import sys\nprint(sys.argv[1:])\n")
        self.write(".azureml/local", "script: other.py\narguments: [x]\n")
        for words in [["--epochs", "3"], ["-e", "mine", "--async", "-o", "json"], ["--help"], ["--", "-x"]]:
            done = self.run_cli("run", "submit-script", "-c", "local", "-e", "t", "show.py", *words)
            self.assertEqual((done.code, done.out), (0, f"{words}\n"), done)
        self.assertEqual({run["experiment"] for run in self.json("run", "list")}, {"t"})
        # Without a run configuration too.
        done = self.run_cli("run", "submit-script", "show.py", "1")
        self.assertEqual((done.code, done.out), (0, "['1']\n"), done)
        self.assertIn("USAGE", self.ok("run", "submit-script", "--help"))

    def test_the_exit_code_is_the_runs_own_and_async_prints_the_id(self):
        self.write("fail.py", "raise SystemExit(9)\n")
        self.assertEqual(self.run_cli("run", "submit-script", "fail.py").code, 9)
        run = self.ok("run", "submit-script", "--async", "fail.py").strip()
        self.assertEqual(self.finish(run)["exitCode"], 9)

    def test_python_is_whichever_there_is(self):
        self.write("a.py", "print('ran')\n")
        tools = self.scratch / "bin"
        tools.mkdir()
        python = shutil.which("python3")
        (tools / "python3").symlink_to(os.path.realpath(python))
        done = self.run_cli("run", "submit-script", "a.py", env={"PATH": str(tools)})
        self.assertEqual((done.code, done.out), (0, "ran\n"), done)

    def test_a_conda_environment_that_one_has_is_used_by_its_name(self):
        # A virtual environment is as good as conda's to whoever starts its Python.
        place = self.scratch / "miniconda3" / "envs" / "train"
        subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", place], check=True)
        packages = next(place.glob("lib/python3*/site-packages"))
        (packages / "mine.py").write_text("word = 'from the base'\n")
        self.env["HOME"] = str(self.scratch)
        self.write("a.py", "import mine\nprint(mine.word)\n")
        text = "script: a.py\nenvironment:\n  python:\n    baseCondaEnvironment: {}\n"
        self.write("a.runconfig", text.format("train"))
        done = self.run_cli("run", "submit-script", "-c", "a")
        self.assertEqual((done.code, done.out), (0, "from the base\n"), done)
        self.write("a.runconfig", text.format("trian"))
        err = self.refused(2, "run", "submit-script", "-c", "a")
        self.assertIn("a.runconfig:4: environment.python.baseCondaEnvironment: there is no conda environment 'trian'", err)
        self.assertIn(str(place.parent / "trian"), err)

    def test_warnings_are_said_once_with_their_line(self):
        self.write("a.py", "print('ran')\n")
        self.write("a.runconfig", "script: a.py\nnodeCuont: 1\nspark: {configuration: {spark.x: 1}}\n")
        done = self.run_cli("run", "submit-script", "-c", "a")
        self.assertEqual((done.code, done.out), (0, "ran\n"), done)
        lines = [line for line in done.err.splitlines() if line.startswith("warning: a.runconfig:2:")]
        self.assertEqual(len(lines), 1, done)
        self.assertIn("did you mean 'nodeCount'?", lines[0])

    def test_bad_files_are_refused_with_their_place(self):
        self.write("a.py", "")
        cases = {
            "malformed": ("script: [a\nb: {\n", r"error: malformed.runconfig:\d+: "),
            "types": ("script: a.py\nnodeCount: many\n", r"error: types.runconfig:2: nodeCount"),
            "cycle": ("script: a.py\nenvironment: &e\n  python: *e\n", r"error: cycle.runconfig:3: "),
            "both": ("script: a.py\ncommand: echo\n", r"error: both.runconfig:2: command: script on line 1"),
            "json": ('{"script": "a.py",\n "nodeCount": 1 2\n', r"error: json.runconfig:2: "),
            "docker": ("script: a.py\nenvironment:\n  docker:\n    enabled: true\n    baseImage: a\n"
                       "    baseDockerfile: FROM b\n",
                       r"error: docker.runconfig:6: environment.docker.baseDockerfile"),
            "identity": ("script: a.py\nenvironment:\n  docker:\n    enabled: true\n    baseImage: a\n"
                         "    baseImageRegistry:\n      registryIdentity: {clientId: x}\n",
                         r"error: identity.runconfig:7: .*registryIdentity: has no meaning here .*\n.*secret set"),
            "gone": ("script: gone.py\n", r"error: gone.runconfig:1: script 'gone.py' is not in"),
        }
        for name, (text, expected) in cases.items():
            with self.subTest(name):
                self.write(f"{name}.runconfig", text)
                self.assertRegex(self.refused(2, "run", "submit-script", "-c", name), expected)
        self.assertFalse(self.home.exists())

    def test_a_runconfig_found_twice_is_a_conflict(self):
        self.write("a.py", "")
        self.write(".azureml/a.runconfig", "script: a.py\n")
        self.write("aml_config/a.runconfig", "script: a.py\n")
        err = self.refused(5, "run", "submit-script", "-c", "a")
        self.assertIn(".azureml/a.runconfig", err)
        self.assertIn("aml_config/a.runconfig", err)
        done = self.run_cli("run", "submit-script", "-c", "aml_config/a.runconfig")
        self.assertEqual(done.code, 0, done)

    def test_ten_megabytes_are_refused_at_once(self):
        (self.code / "big.runconfig").write_text("script: a.py\n" + "# filler\n" * 1_200_000)
        start = time.monotonic()
        self.assertIn("larger than", self.refused(2, "run", "submit-script", "-c", "big"))
        self.assertLess(time.monotonic() - start, 2)

    def test_what_is_to_come_is_refused_by_name(self):
        self.assertIn("comes with a later version",
                      self.refused(2, "run", "submit-hyperdrive", "-c", "a"))
        self.assertIn("says neither script nor command", self.refused(2, "run", "submit-script"))

    def test_tags_come_and_go(self):
        run = self.submit("--", "true")
        self.assertEqual(self.json("run", "update", "-r", run, "--add-tag", "a=1", "--add-tag", "b=x=y")["tags"],
                         {"a": "1", "b": "x=y"})
        self.assertEqual(self.json("run", "update", run, "--remove-tag", "a")["tags"], {"b": "x=y"})
        self.refused(2, "run", "update", "-r", run)
        self.refused(2, "run", "update", "-r", run, "--add-tag", "novalue")
        self.refused(4, "run", "update", "-r", "nobody", "--add-tag", "a=1")


class Attach(YardTest):
    def config(self):
        return json.loads((self.code / ".azureml" / "config.json").read_text())

    def test_it_writes_what_others_read(self):
        done = self.run_cli("folder", "attach", "-w", "ws", "-g", "rg", "--subscription-id", "s1")
        self.assertEqual(done.code, 0, done)
        expected = {"subscription_id": "s1", "resource_group": "rg", "workspace_name": "ws",
                    "experiment_name": "code"}
        self.assertEqual(json.loads(done.out), expected)
        self.assertEqual(self.config(), expected)
        self.assertIn("workspace ws was not there", done.err)
        self.assertEqual(self.json("workspace", "show", "ws")["resourceGroup"], "rg")
        self.assertNotIn("was not there", self.run_cli("folder", "attach", "-w", "ws").err)
        self.assertEqual(self.config(), expected)

    def test_what_is_there_stays(self):
        self.write(".azureml/config.json", '{"workspace_name": "old", "mine": [1], "resource_group": "rg"}')
        self.write(".azureml/local.runconfig", "script: mine.py\n")
        self.ok("folder", "attach", "-w", "new", "-e", "exp")
        config = self.config()
        self.assertEqual((config["workspace_name"], config["mine"], config["resource_group"]), ("new", [1], "rg"))
        self.assertEqual(config["experiment_name"], "exp")
        self.assertEqual((self.code / ".azureml/local.runconfig").read_text(), "script: mine.py\n")
        self.write(".azureml/config.json", '{\n"workspace_name": \n}')
        self.assertIn(".azureml/config.json:3:", self.refused(2, "folder", "attach", "-w", "new"))

    def test_an_older_folders_configurations_are_still_found(self):
        self.write("aml_config/config.json", '{"workspace_name": "old", "experiment_name": "trials"}')
        self.write("aml_config/local.runconfig", "script: mine.py\n")
        self.write("aml_config/cpu", "script: mine.py\n")
        self.write("mine.py", "print('mine')\n")
        self.ok("folder", "attach")
        config = self.config()
        self.assertEqual((config["workspace_name"], config["experiment_name"]), ("old", "trials"))
        for name in ("local", "cpu"):
            done = self.run_cli("run", "submit-script", "-c", name)
            self.assertEqual((done.code, done.out), (0, "mine\n"), done)

    def test_the_sample_runs_as_it_is_and_belongs_where_it_was_attached(self):
        self.ok("folder", "attach", "-w", "ws", "-e", "exp")
        self.write("train.py", "print('trained')\n")
        done = self.run_cli("run", "submit-script", "-c", "local")
        self.assertEqual((done.code, done.out), (0, "trained\n"), done)
        self.assertNotIn("warning", done.err)
        run = self.json("run", "list")[0]
        self.assertEqual((run["experiment"], run["workspace"]), ("exp", "ws"))
        self.assertTrue((self.code / ".azureml/conda_dependencies.yml").exists())

    def test_a_path_and_bad_names(self):
        (self.code / "sub").mkdir()
        self.ok("folder", "attach", "-w", "default", "--path", "sub")
        self.assertEqual(json.loads((self.code / "sub/.azureml/config.json").read_text())["experiment_name"], "sub")
        self.refused(2, "folder", "attach", "-w", "../x")
        self.refused(4, "folder", "attach", "--path", "nowhere")

    def test_who_may_not_make_a_workspace_is_told_who_may(self):
        self.ok("user", "create", "sam", "--role", "submitter")
        env = {"TRAINYARD_SERVER": self.server()["url"],
               "TRAINYARD_TOKEN": self.json("token", "create", "--user", "sam")["token"]}
        err = self.refused(4, "folder", "attach", "-w", "ws", env=env)
        self.assertIn("trainyard workspace create ws", err)
        self.assertFalse((self.code / ".azureml").exists())
        self.ok("folder", "attach", "-w", "default", env=env)


if __name__ == "__main__":
    main()
