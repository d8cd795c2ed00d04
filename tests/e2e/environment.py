"""Environments by name: registered, curated, named in every way that users' files have."""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from wheels import wheel
from yard import YardTest, main


class Named(YardTest):
    def setUp(self):
        super().setUp()
        self.wheels = self.scratch / "wheels"
        for name, version in (("apple", "1.0"), ("apple", "1.1"), ("pear", "2.5")):
            wheel(self.wheels, name, version)

    def requires(self, file, *lines):
        self.write(file, "\n".join((f"--no-index\n--find-links {self.wheels}", *lines)) + "\n")

    def spec(self, run):
        status, body = self.http("GET", f"/api/v1/runs/{run}/spec")
        self.assertEqual(status, 200, body)
        return json.loads(body)

    def environment(self, *args):
        """What a run that is submitted so has; it is not waited for."""
        run = self.ok(*args[:1], *args[1:]).strip()
        environment = self.spec(run).get("environment", {})
        self.run_cli("run", "cancel", run)
        return environment

    def submitted(self, *options):
        return self.environment("submit", "--async", *options, "--", "true")

    def plain(self, lines):
        return [line.split("  # ")[0] for line in lines]


class Registry(Named):
    def test_scaffold_register_show_download(self):
        self.ok("environment", "scaffold", "-n", "mine", "-d", "envs/mine")
        folder = self.code / "envs" / "mine"
        self.assertEqual(sorted(p.name for p in folder.iterdir()),
                         ["azureml_environment.json", "conda_dependencies.yml"])
        self.assertIn("is there already", self.refused(5, "environment", "scaffold", "-n", "mine", "-d", "envs/mine"))
        made = self.json("environment", "register", "-d", "envs/mine")
        self.assertEqual((made["name"], made["version"], made["curated"]), ("mine", "1", False))
        self.assertTrue(made["createdBy"])
        # The same again is the same version; a comment changes nothing, a package does.
        conda = folder / "conda_dependencies.yml"
        conda.write_text("# of the house\n" + conda.read_text())
        self.assertEqual(self.json("environment", "register", "-d", "envs/mine")["version"], "1")
        conda.write_text(conda.read_text() + "  - pandas\n")
        self.assertEqual(self.json("environment", "register", "-d", "envs/mine")["version"], "2")
        self.assertEqual([(e["name"], e["version"]) for e in self.json("environment", "list")], [("mine", "2")])
        self.assertEqual([e["version"] for e in self.json("environment", "list", "-n", "mine")], ["2", "1"])
        self.assertEqual(self.json("environment", "show", "-n", "mine", "-v", "1")["version"], "1")
        self.assertEqual(self.json("environment", "show", "mine@latest")["version"], "2")
        # What is downloaded is what was registered.
        self.ok("environment", "download", "-n", "mine", "-v", "1", "-d", "copy")
        self.refused(5, "environment", "download", "-n", "mine", "-d", "copy")
        self.assertEqual(self.json("environment", "register", "-d", "copy")["version"], "1")
        self.ok("environment", "download", "-n", "mine", "-d", "copy", "--overwrite")
        self.assertEqual(self.json("environment", "register", "-d", "copy")["version"], "2")
        self.assertIn("mine", self.ok("environment", "list", "-o", "table"))

    def test_what_is_wrong_is_said(self):
        self.refused(4, "environment", "register", "-d", "nowhere")
        self.refused(2, "environment", "register", "-n", "x")
        self.assertIn("AzureML", self.refused(2, "environment", "register", "-n", "AzureML-x", "--image", "i"))
        self.assertIn("Did you mean 'tensorflow'?", self.refused(4, "environment", "show", "tensorflo"))
        self.refused(2, "environment", "show")
        self.write("e/azureml_environment.json", '{"name": "x",\n "docker": {"enabled": 7}}')
        self.assertIn("azureml_environment.json:2: environment.docker.enabled: must be true or false",
                      self.refused(2, "environment", "register", "-d", "e"))
        self.write("e/azureml_environment.json", '{"name": "x", "python": {"condaDependenciesFile": "no.yml"}}')
        self.assertIn("there is no file 'no.yml'", self.refused(2, "environment", "register", "-d", "e"))

    def test_a_password_is_sealed_and_never_shown(self):
        self.write("e/azureml_environment.json", json.dumps({
            "name": "private", "docker": {
                "enabled": True, "baseImage": "r.example/image",
                "baseImageRegistry": {"address": "r.example", "username": "ada", "password": "hush-hush"}}}))
        done = self.run_cli("environment", "register", "-d", "e")
        self.assertEqual(done.code, 0, done)
        self.assertNotIn("hush", done.out + done.err)
        self.assertEqual(json.loads(done.out)["registry"],
                         {"address": "r.example", "username": "ada", "secret": "registry-r.example-ada"})
        self.assertEqual([s["name"] for s in self.json("secret", "list")], ["registry-r.example-ada"])
        self.ok("environment", "download", "-n", "private", "-d", "copy")
        for file in (self.code / "copy").iterdir():
            self.assertNotIn("hush", file.read_text())
        self.assertEqual(self.json("environment", "register", "-d", "copy")["version"], "1")
        run = self.ok("submit", "--async", "--environment", "private", "--", "true").strip()
        self.assertNotIn("hush", json.dumps(self.spec(run)) + json.dumps(self.show(run)))
        self.run_cli("run", "cancel", run)

    def test_the_second_generations_words(self):
        self.write("conda.yml", "dependencies:\n- python=3.11\n- pip: [apple]\n")
        self.write("env.yml", "name: two\nimage: debian:12\nconda_file: conda.yml\ndescription: of the test\n")
        made = self.json("environment", "create", "-f", "env.yml")
        self.assertEqual((made["kind"], made["version"], made["description"]), ("container", "1", "of the test"))
        self.assertEqual(self.json("environment", "create", "-f", "env.yml", "-v", "7")["version"], "7")
        self.assertIn("is another", self.refused(5, "environment", "create", "-n", "two", "-v", "7", "--image", "x"))
        self.write("docker/Dockerfile", "FROM debian:12\n")
        built = self.json("environment", "create", "-n", "built", "--build-context", "docker")
        self.assertEqual(len(built["recipe"]["context"]), 64)
        self.write("docker/Dockerfile", "FROM debian:11\n")
        self.assertEqual(self.json("environment", "create", "-n", "built", "--build-context", "docker")["version"], "2")
        self.ok("environment", "archive", "two")
        self.assertEqual([e["name"] for e in self.json("environment", "list")], ["built"])
        self.assertIn("is archived", self.refused(4, "submit", "--environment", "two", "--", "true"))
        self.ok("environment", "restore", "two")
        self.assertEqual(self.json("environment", "show", "two")["version"], "7")

    def test_a_folder_with_a_dockerfile_comes_back_as_it_was(self):
        self.write("docker/sub/D2", "FROM debian:12\nCOPY . /\n")
        self.write("docker/tool.sh", "#!/bin/sh\n")
        self.write("docker/.gitignore", "*.log\n")
        self.write("docker/no.log", "")
        (self.code / "docker" / "tool.sh").chmod(0o755)
        (self.code / "docker" / "link").symlink_to("tool.sh")
        (self.code / "docker" / "empty").mkdir()
        made = self.json("environment", "create", "-n", "built", "--build-context", "docker", "-d", "sub/D2")
        self.ok("environment", "download", "-n", "built", "-d", "copy")
        got = self.code / "copy" / "context"
        self.assertEqual(sorted(str(p.relative_to(got)) for p in got.rglob("*")),
                         [".gitignore", "empty", "link", "sub", "sub/D2", "tool.sh"])
        self.assertTrue((got / "tool.sh").stat().st_mode & 0o100)
        again = self.json("environment", "register", "-d", "copy")
        self.assertEqual((again["version"], again["recipe"]["context"]), ("1", made["recipe"]["context"]))
        self.assertIn("is there already", self.refused(5, "environment", "download", "-n", "built", "-d", "copy"))
        # What was changed meanwhile is replaced, and nothing of it stays.
        (got / "more").write_text("1")
        self.assertEqual(self.json("environment", "register", "-d", "copy")["version"], "2")
        self.ok("environment", "download", "-n", "built", "-v", "1", "-d", "copy", "--overwrite")
        self.assertFalse((got / "more").exists())
        self.assertEqual(self.json("environment", "register", "-d", "copy")["version"], "1")

    def test_latest_is_one_version_to_delete_or_put_away(self):
        for package in ("pear", "apple", "pear==2.5"):
            self.requires("r.txt", package)
            self.ok("environment", "create", "-n", "three", "--requirements", "r.txt")
        versions = lambda: sorted(e["version"] for e in self.json("environment", "list", "-n", "three"))
        self.assertEqual(versions(), ["1", "2", "3"])
        self.ok("environment", "delete", "-n", "three@latest", "--yes")
        self.assertEqual(versions(), ["1", "2"])
        self.ok("environment", "archive", "-n", "three", "--version", "latest")
        self.assertEqual(versions(), ["1"])
        self.assertIn("all versions", self.refused(2, "environment", "delete", "-n", "three"))
        self.ok("environment", "delete", "-n", "three", "--now", "--yes")
        self.assertEqual(versions(), [])

    def test_curated_names_are_an_admins_table(self):
        names = [e["name"] for e in self.json("environment", "curated", "list")]
        for name in ("tensorflow", "sklearn", "pytorch", "minimal"):
            self.assertIn(name, names)
        self.requires("ours.txt", "pear")
        self.ok("environment", "curated", "set", "AzureML-Ours-*", "--requirements", "ours.txt", "--note", "ask us")
        shown = self.json("environment", "show", "AzureML-Ours-3")
        self.assertEqual((shown["curated"], shown["note"]), (True, "ask us"))
        done = self.run_cli("submit", "--environment", "azureml-ours-3", "--", "python", "-c",
                            "import pear; print(pear.version)")
        self.assertEqual((done.code, done.out), (0, "2.5\n"), done)
        self.assertIn("ask us", done.err)
        self.ok("environment", "curated", "delete", "AzureML-Ours-*")
        self.refused(4, "environment", "show", "AzureML-Ours-3")
        self.refused(2, "environment", "curated", "set", "x")


class Submit(Named):
    def test_without_a_word_the_machine_has_what_it_has(self):
        self.assertEqual(self.submitted(), {})
        run = self.submit("--", "true")
        self.assertEqual(self.show(run)["environment"], "system")

    def test_options(self):
        self.requires("requirements.txt", "apple==1.0", "trainyard")
        made = self.submitted("--requirements", "requirements.txt")
        self.assertEqual((made["recipe"]["kind"], self.plain(made["recipe"]["requirements"])), ("venv", ["apple==1.0"]))
        self.assertEqual(self.plain(made["leftOut"]), ["trainyard"])
        self.assertEqual(len(made["hash"]), 64)
        self.json("environment", "register", "-n", "mine", "--requirements", "requirements.txt")
        self.requires("more.txt", "pear")
        layer = self.submitted("--environment", "mine:1", "--requirements", "more.txt")
        self.assertEqual((layer["name"], layer["version"], self.plain(layer["recipe"]["requirements"])),
                         ("mine", "1", ["apple==1.0", "pear"]))
        image = self.submitted("--image", "debian:12", "--requirements", "more.txt", "--docker-arg", "-v /data:/data",
                               "--docker-arg", "--ipc=host", "--shm-size", "1g")
        self.assertEqual((image["recipe"]["kind"], image["recipe"]["image"]), ("container", "debian:12"))
        self.assertEqual((image["arguments"], image["shmSize"]), (["-v", "/data:/data", "--ipc=host"], "1g"))
        own = self.environment("submit", "--async", "--image", "debian:12")
        self.assertEqual(own["recipe"]["image"], "debian:12")

    def test_bad_options(self):
        self.refused(2, "submit", "--environment", "a", "--image", "b", "--", "true")
        self.refused(4, "submit", "--requirements", "none.txt", "--", "true")
        self.refused(2, "submit", "--environment", "a@newest", "--", "true")
        self.assertIn("'minimal'", self.refused(4, "submit", "--environment", "minmal", "--", "true"))
        self.assertIn("no command", self.refused(2, "submit", "--environment", "minimal"))
        self.refused(2, "submit", "--image", "x", "--docker-arg", "--nonsense", "--", "true")
        self.write("requirements.txt", "apple\n==\n")
        self.assertIn("requirements.txt:2", self.refused(2, "submit", "--requirements", "requirements.txt", "--", "true"))
        self.assertEqual(self.json("run", "list"), [])

    def test_a_run_says_what_it_has_and_a_rerun_keeps_it(self):
        self.requires("requirements.txt", "apple==1.0")
        self.json("environment", "register", "-n", "mine", "--requirements", "requirements.txt")
        self.write("show.py", "import apple\nprint(apple.version)\n")
        done = self.run_cli("submit", "--environment", "mine", "--", "python", "show.py")
        self.assertEqual((done.code, done.out), (0, "1.0\n"), done)
        run = self.json("run", "list")[0]["id"]
        shown = self.show(run)["environment"]
        self.assertEqual((shown["kind"], shown["name"], shown["version"], shown["label"]),
                         ("venv", "mine", "1", "mine:1"))
        self.assertTrue(shown["hash"].startswith(shown["shortHash"]))
        self.assertEqual(self.json("job", "show", run)["environment"], "azureml:mine:1")
        # The name means something else since.
        self.requires("requirements.txt", "apple==1.1")
        self.json("environment", "register", "-n", "mine", "--requirements", "requirements.txt")
        done = self.run_cli("run", "rerun", run)
        self.assertEqual((done.code, done.out), (0, "1.0\n"), done)
        done = self.run_cli("submit", "--environment", "mine", "--", "python", "show.py")
        self.assertEqual(done.out, "1.1\n", done)
        newest = self.json("run", "list")[0]["id"]
        diff = {row["name"]: (row["a"], row["b"])
                for row in self.json("run", "diff", run, newest)["environment"]}
        self.assertEqual(diff["environment"], ("mine:1", "mine:2"))
        self.assertEqual(diff["package.apple"], ("1.0", "1.1"))
        self.assertIn("environmentHash", diff)

    def test_build_ahead(self):
        self.requires("requirements.txt", "apple==1.0")
        self.json("environment", "register", "-n", "mine", "--requirements", "requirements.txt")
        done = self.run_cli("environment", "build", "mine", timeout=120)
        self.assertEqual(done.code, 0, done)
        self.assertIn("apple==1.0", [line.split(" --hash=")[0] for line in json.loads(done.out)["lock"]])
        self.assertEqual(self.run_cli("environment", "build", "mine").code, 0)
        self.requires("bad.txt", "nosuchfruit")
        self.json("environment", "register", "-n", "bad", "--requirements", "bad.txt")
        done = self.run_cli("environment", "build", "bad", timeout=120)
        self.assertNotEqual(done.code, 0)
        self.assertIn("nosuchfruit", done.err)


class Files(Named):
    def script(self, *options):
        return self.environment("run", "submit-script", "--async", *options)

    def job(self, environment):
        self.write("job.yml", f"command: 'true'\nenvironment: {environment}\n")
        run = self.json("job", "create", "-f", "job.yml")["name"]
        made = self.spec(run).get("environment", {})
        self.run_cli("run", "cancel", run)
        return made

    def test_run_configurations(self):
        self.write("train.py", "")
        self.write("conda.yml", "dependencies:\n- python=3.11\n- pip: [pear]\n")
        self.write("aml_config/conda.yml", "dependencies:\n- python=3.11\n- pip: [apple]\n")

        def config(text):
            self.write("aml_config/a.runconfig", "script: train.py\nenvironment:\n" + text)
            return self.script("-c", "a")
        self.assertEqual(config("  python: {userManagedDependencies: true}\n"), {})
        made = config("  python: {condaDependenciesFile: aml_config/conda.yml}\n")
        self.assertEqual(self.plain(made["recipe"]["requirements"]), ["apple"])
        other = self.script("-c", "a", "-d", "conda.yml")
        self.assertEqual(self.plain(other["recipe"]["requirements"]), ["pear"])
        self.assertEqual(self.script("-c", "a", "--environment", "minimal")["name"], "minimal")
        image = config("  docker: {enabled: true, baseImage: debian, arguments: ['-v /a:/b']}\n")
        self.assertEqual((image["recipe"]["image"], image["arguments"]), ("debian", ["-v", "/a:/b"]))
        view = config("  docker: {enabled: false, arguments: [-v, '/a:/b']}\n")
        self.assertEqual(view, {"arguments": ["-v", "/a:/b"]})
        self.assertEqual(config("  name: AzureML-Minimal\n")["name"], "AzureML-Minimal")
        self.write("aml_config/a.runconfig", "script: train.py\nenvironment:\n  name: nobodys\n")
        self.assertIn("a.runconfig:3: environment 'nobodys' does not exist",
                      self.refused(4, "run", "submit-script", "-c", "a"))

    def test_job_files(self):
        self.write("conda.yml", "dependencies:\n- pip: [apple]\n")
        self.write("env.yml", "image: debian:12\nconda_file: conda.yml\n")
        self.write("docker/Dockerfile", "FROM debian:12\n")
        self.json("environment", "create", "-n", "mine", "--image", "debian:12")
        self.assertEqual(self.job("azureml:mine:1")["version"], "1")
        self.assertEqual(self.job("azureml:mine@latest")["version"], "1")
        self.assertEqual(self.job("azureml://registries/azureml/environments/minimal/labels/latest")["name"], "minimal")
        self.assertEqual(self.job("file:./env.yml")["recipe"]["image"], "debian:12")
        self.assertEqual(self.job("{image: debian:11}")["recipe"]["image"], "debian:11")
        built = self.job("{build: {path: docker}}")["recipe"]
        self.assertEqual((built["dockerfile"], len(built["context"])), ("Dockerfile", 64))
        self.assertEqual(self.job("system"), {})
        self.write("job.yml", "command: 'true'\nenvironment: azureml:nobodys:1\n")
        self.assertIn("job.yml:2: environment 'nobodys' does not exist",
                      self.refused(4, "job", "create", "-f", "job.yml"))


if __name__ == "__main__":
    main()
