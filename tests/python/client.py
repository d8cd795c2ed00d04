"""Reading and driving runs of a server, from any machine."""
import contextlib
import io
import json
import os
import pathlib
import shutil
import ssl
import stat
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
from fake_yard import TOKEN, FakeServer, ServedTest, Yard
from trainyard import (ConfigNotFound, Conflict, Denied, Experiment, NotFound, OfflineRun, Run, RunFailed, ScriptRunConfig,
                       Unavailable, UserError, Workspace)
from trainyard.capture import capture


class Connections(ServedTest):
    def test_a_wrong_token_is_denied_and_no_token_is_ever_shown(self):
        with self.assertRaisesRegex(Denied, "a token is needed"):
            Workspace(server=self.server.url, token="wrong").get_details()
        self.assertNotIn(TOKEN, repr(self.workspace) + repr(self.workspace._server()))

    def test_the_address_and_token_come_from_the_environment(self):
        self.set_env(TRAINYARD_SERVER=self.server.url + "/", TRAINYARD_TOKEN=TOKEN)
        self.assertEqual(Workspace.from_config().get_details(), {"name": "default"})

    def test_a_server_that_is_away_or_no_address_is_said_clearly(self):
        self.server.close()
        with self.assertRaisesRegex(Unavailable, "does not answer.*\n.*TRAINYARD_SERVER"):
            self.workspace.get_details()
        self.restart_server()
        for address in ("localhost:8700", "ftp://x", "http://"):
            with self.assertRaisesRegex(UserError, "not a server's address"):
                Workspace(server=address).get_details()

    def test_a_kept_connection_that_the_server_closed_is_made_anew(self):
        self.workspace.get_details()
        self.server.close()
        self.restart_server()
        self.assertEqual(self.workspace.get_details(), {"name": "default"})
        self.yard.drop = 1
        self.assertEqual(self.workspace.get_details(), {"name": "default"})

    def test_an_answer_of_a_proxy_is_an_error_too(self):
        from trainyard.errors import from_answer
        self.assertIsInstance(from_answer(502, b"<html>"), Unavailable)
        self.assertIsInstance(from_answer(404, b"[]"), NotFound)

    def test_the_unix_socket_of_a_home_however_long_its_path_is(self):
        for depth in (0, 12):
            home = self.scratch / "/".join(["h" * 12] * (depth + 1))
            home.mkdir(parents=True)
            fd = os.open(home, os.O_RDONLY)
            server = FakeServer(self.yard, unix_socket=f"/proc/self/fd/{fd}/socket")
            self.addCleanup(server.close)
            self.addCleanup(os.close, fd)
            self.set_env(TRAINYARD_HOME=str(home))
            self.assertEqual(Workspace().get_details(), {"name": "default"})
            self.assertTrue(Workspace()._server().is_local)

    def test_the_server_of_this_machine_is_started_when_there_is_a_program_for_it(self):
        home = self.scratch / "h"
        home.mkdir()
        self.set_env(TRAINYARD_HOME=str(home), PATH=str(self.scratch))
        with self.assertRaisesRegex(Unavailable, "trainyard server start"):
            Workspace().get_details()
        program = self.scratch / "trainyard"
        program.write_text(f"#!/bin/sh\necho \"$@\" >> {self.scratch}/called\necho 'error: no space' >&2; exit 6\n")
        program.chmod(0o755)
        with self.assertRaisesRegex(Unavailable, "does not start\nerror: no space"):
            Workspace().get_details()
        self.assertEqual((self.scratch / "called").read_text(), f"server start --home {home}\n")
        program.write_text("#!/bin/sh\nexit 0\n")
        with self.assertRaises(Unavailable):
            Workspace().get_details()

    def test_https_with_its_certificate_checked(self):
        if shutil.which("openssl") is None:
            self.skipTest("no openssl here")
        key, certificate = self.scratch / "key.pem", self.scratch / "cert.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
                               "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key),
                               "-out", str(certificate)], capture_output=True, check=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        server = FakeServer(self.yard, tls=context)
        self.addCleanup(server.close)
        with self.assertRaisesRegex(Unavailable, "TRAINYARD_CA_FILE"):
            Workspace(server=server.url, token=TOKEN).get_details()
        self.set_env(TRAINYARD_CA_FILE=str(certificate))
        self.assertEqual(Workspace(server=server.url, token=TOKEN).get_details(), {"name": "default"})
        self.assertNotIn("GET /workspaces/default", self.yard.asked[:-1])
        for wrong in ("/no/such/file", str(key)):
            self.set_env(TRAINYARD_CA_FILE=wrong)
            with self.assertRaisesRegex(UserError, f"TRAINYARD_CA_FILE: {wrong}"):
                Workspace(server=server.url, token=TOKEN).get_details()

    def test_a_forked_child_does_not_speak_on_its_parents_connection(self):
        self.workspace.get_details()
        kept = self.workspace._server()._idle[0][0].sock
        child = os.fork()
        if child == 0:
            good = self.workspace.get_details() == {"name": "default"}
            good = good and all(connection.sock is not kept for connection, _ in self.workspace._server()._idle)
            os._exit(0 if good else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.workspace.get_details()


class Workspaces(ServedTest):
    def test_the_config_of_a_folder_is_found_from_below_it(self):
        Workspace("sub", "group", "default").write_config()
        self.assertEqual(json.loads(pathlib.Path(".azureml/config.json").read_text()),
                         {"subscription_id": "sub", "resource_group": "group", "workspace_name": "default"})
        os.makedirs("models/one")
        os.chdir("models/one")
        workspace = Workspace.from_config()
        self.assertEqual((workspace.name, workspace.subscription_id, workspace.resource_group),
                         ("default", "sub", "group"))

    def test_other_places_and_forms_of_the_config(self):
        os.mkdir("aml_config")
        file = pathlib.Path("aml_config/config.json")
        file.write_text('\ufeff{"workspace_name": "w1"}', encoding="utf-8")
        self.assertEqual(Workspace.from_config().name, "w1")
        file.write_text('{"Scope": "/subscriptions/S/resourceGroups/G/providers/P/workspaces/W/projects/E"}')
        workspace = Workspace.from_config()
        self.assertEqual((workspace.subscription_id, workspace.resource_group, workspace.name), ("S", "G", "W"))
        other = self.scratch / "some.json"
        other.write_text('{"workspace_name": "w2"}')
        self.assertEqual(Workspace.from_config(str(other)).name, "w2")

    def test_no_config_or_a_broken_one_is_said_clearly(self):
        with self.assertRaisesRegex(ConfigNotFound, "no .azureml/config.json.*\n.*trainyard folder attach"):
            Workspace.from_config()
        with self.assertRaises(FileNotFoundError):
            Workspace.from_config()
        os.mkdir(".azureml")
        pathlib.Path(".azureml/config.json").write_text('{\n"a": ')
        with self.assertRaisesRegex(UserError, "config.json:2: "):
            Workspace.from_config()

    def test_in_a_run_it_is_the_runs_own(self):
        self.set_env(TRAINYARD_RUN_ID="r", AZUREML_ARM_WORKSPACE_NAME="mine")
        self.assertEqual(Workspace.from_config().name, "mine")

    def test_create_get_and_list(self):
        at = {"server": self.server.url, "token": TOKEN}
        Workspace.create("new", **at)
        self.assertEqual(Workspace.get("new", **at).name, "new")
        self.assertEqual(list(Workspace.list(**at)), ["default", "new"])
        with self.assertRaises(Conflict):
            Workspace.create("new", **at)
        Workspace.create("new", exist_ok=True, **at)
        with self.assertRaises(NotFound):
            Workspace.get("none", **at)
        with self.assertRaisesRegex(UserError, "no MLflow API"):
            self.workspace.get_mlflow_tracking_uri()

    def test_its_experiments_and_runs(self):
        self.yard.add_run("a", experiment="one")
        self.yard.add_run("b", experiment="two / ü")
        self.assertEqual(list(self.workspace.experiments), ["one", "two / ü"])
        run = self.workspace.get_run("b")
        self.assertEqual((run.id, run.experiment.name), ("b", "two / ü"))
        self.assertEqual(Run.get(self.workspace, "a").id, "a")
        with self.assertRaisesRegex(NotFound, "'none' does not exist"):
            self.workspace.get_run("none")


class Submitting(ServedTest):
    def setUp(self):
        super().setUp()
        # Whatever is installed here, no program of ours is found unless a test makes one.
        self.set_env(PATH=os.pathsep.join(folder for folder in os.environ["PATH"].split(os.pathsep)
                                          if not os.path.exists(os.path.join(folder, "trainyard"))))
        pathlib.Path("train.py").write_text("print(1)")
        os.mkdir("pkg")
        pathlib.Path("pkg/same.py").write_text("print(1)")
        self.experiment = Experiment(self.workspace, "exp")

    def test_a_script_is_submitted_with_its_folder(self):
        config = ScriptRunConfig(".", script="train.py", arguments=["--epochs", 5, "--lr", 0.1, "$LOCAL_RANK"],
                                 environment_variables={"A": 1}, max_run_duration_seconds=60, gpus=1,
                                 preparation="make")
        run = self.experiment.submit(config, tags={"n": 3})
        spec = self.yard.runs[run.id]["spec"]
        self.assertEqual(spec["command"], ["python3", "train.py", "--epochs", "5", "--lr", "0.1", "$LOCAL_RANK"])
        self.assertEqual((spec["commandForm"], spec["target"], spec["environmentVariables"], spec["tags"],
                          spec["timeLimitSeconds"], spec["resources"]["gpus"], spec["preparation"]),
                         ("expand", "local", {"A": "1"}, {"n": "3"}, 60, 1, "make"))
        self.assertEqual(spec["submitEnvironment"], {})  # Another machine's PATH would be wrong there.
        self.assertEqual(spec["snapshot"], capture(".").id)
        self.assertEqual(run.status, "Running")

    def test_only_what_the_server_does_not_have_is_sent(self):
        self.experiment.submit(script="train.py")
        self.assertEqual(len(self.yard.blobs), 2)  # Two files of the same bytes, and the tree.
        self.yard.asked.clear()
        self.experiment.submit(script="train.py")
        self.assertEqual(self.yard.asked, ["POST /runs"])
        pathlib.Path("more.py").write_text("2")
        before = set(self.yard.blobs)
        self.experiment.submit(script="train.py")
        self.assertEqual(len(set(self.yard.blobs) - before), 2)

    def test_a_command_for_the_shell_or_as_words(self):
        run = self.experiment.submit(command="python train.py | tee log", compute_target="gpu")
        self.assertEqual((self.yard.runs[run.id]["spec"]["command"], self.yard.runs[run.id]["spec"]["commandForm"]),
                         (["python train.py | tee log"], "shell"))
        run = self.experiment.submit(command=["bash", "run.sh", 4])
        self.assertEqual(self.yard.runs[run.id]["command"], ["bash", "run.sh", "4"])

    def test_on_this_machine_this_python_and_its_path_are_taken(self):
        home = self.scratch / "h"
        home.mkdir()
        server = FakeServer(self.yard, unix_socket=str(home / "socket"))
        self.addCleanup(server.close)
        self.set_env(TRAINYARD_HOME=str(home), CONDA_PREFIX="/c")
        spec = self.yard.runs[Experiment(Workspace(), "e").submit(script="train.py").id]["spec"]
        self.assertEqual(spec["command"][0], sys.executable)
        self.assertEqual(spec["submitEnvironment"]["PATH"], os.environ["PATH"])
        self.assertEqual(spec["submitEnvironment"]["CONDA_PREFIX"], "/c")
        self.assertNotIn("TRAINYARD_HOME", spec["submitEnvironment"])

    def fake_program(self, text):
        """A program `trainyard` that is found on the path."""
        folder = self.scratch / "programs"
        folder.mkdir()
        (folder / "trainyard").write_text("#!/bin/sh\n" + text)
        (folder / "trainyard").chmod(0o755)
        self.set_env(PATH=f"{folder}:{os.environ['PATH']}")

    def test_local_under_a_server_elsewhere_is_this_machine_by_the_program(self):
        self.fake_program(f"""echo "$@" "$TRAINYARD_SERVER" "$TRAINYARD_TOKEN" >> {self.scratch}/asked
            echo '{{"key": "ann-laptop", "gpus": 0}}'""")
        run = self.experiment.submit(script="train.py", gpus=2)
        spec = self.yard.runs[run.id]["spec"]
        self.assertEqual((spec["host"], spec["command"][0], spec["resources"]["gpus"]),
                         ("ann-laptop", sys.executable, 0))
        self.assertEqual(spec["submitEnvironment"]["PATH"], os.environ["PATH"])
        asked = (self.scratch / "asked").read_text()
        self.assertEqual(asked, f"node own -o json {self.server.url} {TOKEN}\n")
        other = self.experiment.submit(script="train.py", compute_target="gpu")
        self.assertNotIn("host", self.yard.runs[other.id]["spec"])
        self.assertEqual((self.scratch / "asked").read_text(), asked)

    def test_what_the_program_refuses_is_said_in_its_words_and_nothing_is_submitted(self):
        self.fake_program("echo 'error: may not submit' >&2; echo '       Ask an admin.' >&2; exit 3")
        with self.assertRaisesRegex(Denied, "^may not submit\nAsk an admin.$"):
            self.experiment.submit(script="train.py")
        self.assertEqual(self.yard.runs, {})

    def test_local_without_the_program_is_refused_before_a_server_elsewhere_is_asked(self):
        far = Workspace(server="http://yard.example:1", token=TOKEN)
        with self.assertRaisesRegex(UserError, "program trainyard is not on its path"):
            Experiment(far, "e").submit(script="train.py")

    def test_a_server_that_goes_away_meanwhile_gets_one_run_all_the_same(self):
        self.workspace.get_details()
        self.yard.drop = 2
        self.experiment.submit(script="train.py")
        self.assertEqual(len(self.yard.runs), 1)

    def test_arguments_that_are_a_text_are_split_as_a_shell_does(self):
        config = ScriptRunConfig(script="train.py", arguments="--epochs 3 --name 'a b'")
        self.assertIn("train.py --epochs 3 --name 'a b'", repr(config))
        run = self.experiment.submit(config)
        self.assertEqual(self.yard.runs[run.id]["command"][1:], ["train.py", "--epochs", "3", "--name", "a b"])
        config.arguments = "--epochs 4"
        run = self.experiment.submit(config)
        self.assertEqual(self.yard.runs[run.id]["command"][1:], ["train.py", "--epochs", "4"])

    def test_what_is_wrong_is_said_before_anything_is_sent(self):
        for keywords, words in [({"script": "none.py"}, "no script 'none.py'"), ({}, "script or command"),
                                ({"script": "train.py", "command": "x"}, "script or command"),
                                ({"script": "train.py", "environment": 7}, "type int"),
                                ({"script": "train.py", "run_config": "x"}, "run_config comes with a later"),
                                ({"script": "train.py", "arguments": [object()]}, "type object"),
                                ({"script": "train.py", "arguments": {"--n": 1}}, "type dict are not a list"),
                                ({"script": "train.py", "arguments": 5}, "type int are not a list"),
                                ({"script": "train.py", "arguments": "'open"}, "No closing quotation"),
                                ({"script": "train.py", "source_directory": "no"}, "no script"),
                                ({"command": "x", "source_directory": "/"}, "all of it would become")]:
            with self.assertRaisesRegex(UserError, words):
                self.experiment.submit(**keywords)
        with self.assertRaisesRegex(UserError, "not both"):
            self.experiment.submit(ScriptRunConfig(script="train.py"), arguments=[1])
        self.assertEqual(self.yard.runs, {})

    def test_the_code_comes_back_as_it_was(self):
        os.symlink("train.py", "link")
        os.chmod("pkg/same.py", 0o755)
        os.mkdir("empty")
        run = self.experiment.submit(script="train.py")
        folder = self.scratch / "back"
        run.restore_snapshot(str(folder))
        self.assertEqual(capture(str(folder)).id, capture(".").id)
        self.assertTrue(os.stat(folder / "pkg/same.py").st_mode & stat.S_IXUSR)
        with self.assertRaisesRegex(UserError, "not empty"):
            run.restore_snapshot(str(folder))


class Reading(ServedTest):
    def run_of(self, run_id):
        return self.workspace.get_run(run_id)

    def test_runs_come_newest_first_page_by_page_as_they_are_asked_for(self):
        for i in range(7):
            self.yard.add_run(f"r{i}", tags={"even": str(i % 2 == 0)} if i < 6 else {})
        self.yard.add_run("child", parentId="r0", properties={"a": "1"})
        self.yard.page = 3
        experiment = Experiment(self.workspace, "exp")
        runs = experiment.get_runs()
        self.assertEqual(self.yard.asked, [])
        self.assertEqual(next(runs).id, "r6")
        self.assertEqual(len(self.yard.asked), 1)
        self.assertEqual([run.id for run in runs], ["r5", "r4", "r3", "r2", "r1", "r0"])
        self.assertEqual([r.id for r in experiment.get_runs(include_children=True)][0], "child")
        self.assertEqual(len(list(experiment.get_runs(tags="even"))), 6)
        self.assertEqual([r.id for r in experiment.get_runs(tags={"even": True})], ["r4", "r2", "r0"])
        self.assertEqual([r.id for r in experiment.get_runs(properties="a", include_children=True)], ["child"])

    def test_children_and_their_metrics(self):
        self.yard.add_run("top")
        self.yard.add_run("a", parentId="top", tags={"fold": "1"})
        self.yard.add_run("b", parentId="a", interactive=True)
        self.yard.series["a", "loss"] = ("scalar", [1])
        top = self.run_of("top")
        self.assertEqual([run.id for run in top.get_children()], ["a"])
        self.assertEqual([run.id for run in top.get_children(recursive=True)], ["a", "b"])
        self.assertEqual([run.id for run in top.get_children(recursive=True, type="interactive")], ["b"])
        self.assertEqual(list(top.get_children(tags={"fold": 2})), [])
        self.assertEqual(top.get_metrics(recursive=True), {"a": {"loss": 1}})
        self.assertEqual(self.run_of("b").parent.id, "a")

    def test_metrics_of_every_kind(self):
        self.yard.add_run("r")
        self.yard.series.update({
            ("r", "once"): ("scalar", ["NaN"]), ("r", "many"): ("scalar", list(range(8))),
            ("r", "list"): ("list", [5]), ("r", "row"): ("row", [{"a": 1}, {"a": 2}]),
            ("r", "table"): ("table", [{"a": [1, 2]}]), ("r", "image"): ("image", [{"path": "outputs/i.png"}]),
            ("r", "doc"): ("doc", [{"schema_type": "x"}])})
        metrics = self.run_of("r").get_metrics()
        self.assertNotEqual(metrics.pop("once"), "NaN")
        self.assertEqual(metrics, {"many": list(range(8)), "list": [5], "row": {"a": [1, 2]}, "table": {"a": [1, 2]},
                                   "image": "outputs/i.png", "doc": {"schema_type": "x"}})
        self.assertEqual(self.run_of("r").get_metrics("many"), {"many": list(range(8))})

    def test_details_under_both_names(self):
        self.yard.add_run("r", startedAt="2025-01-01T00:00:01Z", logFiles={"user_logs/std_log.txt": "http://x/l"})
        details = self.run_of("r").get_details()
        self.assertEqual((details["runId"], details["startTimeUtc"], details["status"]),
                         ("r", "2025-01-01T00:00:01Z", "Completed"))
        self.assertEqual(details["runDefinition"]["script"], "train.py")
        self.assertEqual(details["runDefinition"]["arguments"], ["--epochs", "5"])
        self.assertEqual(details["logFiles"], {"user_logs/std_log.txt": "http://x/l"})
        self.yard.files["r", "user_logs/std_log.txt"] = ("console", b"hello")
        self.assertEqual(self.run_of("r").get_details_with_logs()["logFiles"], {"user_logs/std_log.txt": "hello"})
        self.assertEqual(self.run_of("r").get_portal_url(), "http://x/runs/r")

    def test_labels_of_another_run_are_changed_at_the_server(self):
        self.yard.add_run("r")
        run = self.run_of("r")
        run.tag("a", 1)
        run.set_tags({"b": 2})
        run.remove_tags(["a"])
        run.add_properties({"p": 1})
        run.display_name = "shown"
        self.assertEqual((run.tags, run.properties, run.name), ({"b": "2"}, {"p": "1"}, "shown"))
        with self.assertRaisesRegex(Conflict, "'p' is '1' already"):
            run.add_properties({"p": 2})
        run.cancel()
        self.assertEqual(run.status, "Canceled")


class Notebooks(ServedTest):
    def test_a_run_is_a_table_whose_texts_are_escaped(self):
        self.yard.add_run("r", name="<b>&\"'", error="<script>\x1b" + "x" * 300, status="Failed",
                          studioUrl="javascript:alert(1)")
        html = self.workspace.get_run("r")._repr_html_()
        self.assertIn("<td>r</td><td>&lt;b&gt;&amp;&quot;&#x27;</td><td>exp</td><td>Failed</td>", html)
        self.assertIn("&lt;script&gt; xxx", html)
        for never in ("<b>", "<script>", "javascript", "\x1b", "x" * 201):
            self.assertNotIn(never, html)
        self.yard.add_run("s", studioUrl='http://h/"><script>')
        self.assertIn('<a href="http://h/&quot;&gt;&lt;script&gt;"', self.workspace.get_run("s")._repr_html_())
        self.assertIn("<td>Running</td>", OfflineRun()._repr_html_())

    def test_lists_of_runs_are_tables_and_showing_them_skips_none(self):
        self.assertEqual(Experiment(self.workspace, "exp")._repr_html_(), "<p>no runs</p>")
        for number in range(40):
            self.yard.add_run(f"run-{number}")
        runs = Experiment(self.workspace, "exp").get_runs()
        self.assertEqual(next(runs).id, "run-39")
        html = runs._repr_html_()
        self.assertEqual((html.count("<tr>"), "and more" in html), (31, True))
        self.assertEqual({call for call in self.yard.asked}, {"GET /runs"})
        self.assertEqual([run.id for run in runs], [f"run-{number}" for number in range(38, -1, -1)])
        self.assertEqual(Experiment(self.workspace, "exp").get_runs(tags="x")._repr_html_(), "<p>no runs</p>")

    def test_a_run_whose_server_is_away_is_shown_without_a_traceback(self):
        self.yard.add_run("r")
        run = self.workspace.get_run("r")
        self.server.close()
        self.assertIn("does not answer", run._repr_html_())
        self.restart_server()


class Files(ServedTest):
    def setUp(self):
        super().setUp()
        self.yard.add_run("r")
        for path, kind, data in [("outputs/model.pt", "output", b"m" * 300_000), ("outputs/a/b.txt", "output", b"b"),
                                 ("user_logs/std_log.txt", "console", b"log"), ("snapshot/train.py", "snapshot", b"")]:
            self.yard.files["r", path] = (kind, data)
        self.run_ = self.workspace.get_run("r")

    def test_names_without_the_code(self):
        self.assertEqual(self.run_.get_file_names(), ["outputs/model.pt", "outputs/a/b.txt", "user_logs/std_log.txt"])

    def test_one_file_to_a_name_a_folder_or_here(self):
        os.mkdir("folder")
        self.run_.download_file("outputs/model.pt")
        self.run_.download_file("outputs/model.pt", "folder")
        self.run_.download_file("outputs/model.pt", "new/other.pt")
        for path in ("model.pt", "folder/model.pt", "new/other.pt"):
            self.assertEqual(pathlib.Path(path).read_bytes(), b"m" * 300_000)
        with self.assertRaises(NotFound):
            self.run_.download_file("outputs/none")
        self.assertEqual(sorted(os.listdir(".")), ["folder", "model.pt", "new"])

    def test_without_a_folder_several_files_are_in_one_named_after_the_run(self):
        self.run_.download_files()
        self.assertEqual(pathlib.Path("r/outputs/a/b.txt").read_bytes(), b"b")
        self.assertTrue(os.path.exists("r/user_logs/std_log.txt"))
        self.assertEqual(self.run_.get_all_logs(), [os.path.join("r", "user_logs/std_log.txt")])
        self.run_.download_files(prefix="outputs/model", output_paths=["here.pt"])
        self.assertEqual(sorted(os.listdir(".")), ["here.pt", "r"])

    def test_many_files_by_their_prefix(self):
        self.run_.download_files(prefix="outputs/", output_directory="got")
        self.assertEqual(pathlib.Path("got/outputs/a/b.txt").read_bytes(), b"b")
        self.run_.download_files(prefix="outputs/", output_directory="flat", append_prefix=False)
        self.assertEqual(sorted(os.listdir("flat")), ["a", "model.pt"])
        self.assertEqual(self.run_.get_all_logs("logs"), [os.path.join("logs", "user_logs/std_log.txt")])

    def test_a_name_that_leaves_the_folder_is_never_written(self):
        self.yard.files["r", "../evil"] = ("output", b"x")
        with self.assertRaises(UserError):
            self.run_.download_files(output_directory="got")
        self.assertFalse(os.path.exists("evil"))

    def test_nothing_is_written_through_a_link(self):
        os.mkdir("victim")
        os.mkdir("got")
        os.symlink("../victim", "got/outputs")
        os.symlink("../victim", "got/user_logs")
        with self.assertRaisesRegex(UserError, "link"):
            self.run_.download_files(prefix="outputs/", output_directory="got")
        with self.assertRaisesRegex(UserError, "link"):
            self.run_.get_all_logs("got")
        self.assertEqual(os.listdir("victim"), [])
        # A link that has the file's own name is replaced; so is the name that we once gave to what was not whole.
        pathlib.Path("victim/file").write_text("mine")
        os.symlink("victim/file", "model.pt")
        os.symlink("victim/file", f"model.pt.part-{os.getpid()}")
        self.run_.download_file("outputs/model.pt")
        self.assertEqual(pathlib.Path("victim/file").read_text(), "mine")
        self.assertFalse(os.path.islink("model.pt"))
        self.assertEqual(os.path.getsize("model.pt"), 300_000)


class Waiting(ServedTest):
    def wait(self, **more):
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
            try:
                self.details = self.workspace.get_run("r").wait_for_completion(**more)
            finally:
                self.out, self.err = out.getvalue(), err.getvalue()

    def test_the_console_is_shown_with_a_summary_at_the_end(self):
        self.yard.add_run("r")
        self.yard.console["r"] = [(b"o", 0, "hel".encode()), (b"e", 0, b"err\n"), (b"o", 0, "lo ü\n".encode()[:-2]),
                                  (b"o", 0, "ü\n".encode()[1:])]
        self.wait(show_output=True)
        self.assertIn("hello ü\n\nExecution Summary\n=================\nRunId: r\n", self.out)
        self.assertTrue(self.out.startswith("RunId: r\nWeb View: http://x/runs/r\n"))
        self.assertEqual(self.err, "err\n")
        self.assertEqual(self.details["status"], "Completed")

    def test_lines_of_several_ranks_say_whose_they_are(self):
        self.yard.add_run("r", nodeCount=1, processCountPerNode=2)
        self.yard.console["r"] = [(b"o", 0, b"a\nb"), (b"o", 1, b"c\n"), (b"o", 0, b"b\n"), (b"o", 1, b"end")]
        self.wait(show_output=True)
        for line in ("[0] a\n", "[0] bb\n", "[1] c\n", "[1] end\n"):
            self.assertIn(line, self.out)

    def test_a_run_that_failed_raises_unless_that_is_not_wished(self):
        self.yard.add_run("r", status="Failed", exitCode=3, error="rank 0 exited with 3")
        for show in (True, False):
            with self.assertRaisesRegex(RunFailed, "run r: Failed, exit 3: rank 0 exited with 3") as raised:
                self.wait(show_output=show)
            self.assertEqual(raised.exception.details["exitCode"], 3)
            self.wait(show_output=show, raise_on_error=False)

    def test_a_server_that_restarts_is_waited_for(self):
        self.yard.add_run("r")
        run = self.workspace.get_run("r")
        self.yard.drop = 3
        with contextlib.redirect_stderr(io.StringIO()) as err:
            run.wait_for_completion()
        self.assertIn("looking for it again", err.getvalue())

    def test_ctrl_c_leaves_the_run_going(self):
        self.yard.add_run("r", status="Running")
        run = self.workspace.get_run("r")
        import trainyard.follow

        def interrupt(*_):
            raise KeyboardInterrupt
        before, trainyard.follow._wait = trainyard.follow._wait, interrupt
        self.addCleanup(setattr, trainyard.follow, "_wait", before)
        with contextlib.redirect_stderr(io.StringIO()) as err, self.assertRaises(KeyboardInterrupt):
            run.wait_for_completion()
        self.assertIn("The run goes on", err.getvalue())
        self.assertEqual(run.status, "Running")


if __name__ == "__main__":
    unittest.main(verbosity=2)
