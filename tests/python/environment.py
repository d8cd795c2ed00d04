"""Environments: of files, of images, of a name; submitted and registered."""
import contextlib
import io
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
from fake_yard import TOKEN, ServedTest
from trainyard import Environment, Experiment, NotFound, ScriptRunConfig, UserError
from trainyard.__main__ import main


class Environments(ServedTest):
    def setUp(self):
        super().setUp()
        pathlib.Path("train.py").write_text("1")

    def submit(self, environment, **more):
        config = ScriptRunConfig(".", script="train.py", environment=environment, compute_target="pool", **more)
        return Experiment(self.workspace, "exp").submit(config).get_details()["spec"]

    def write(self, **files):
        for name, text in files.items():
            pathlib.Path(name.replace("_", ".")).write_text(text)


class Submit(Environments):
    def test_a_name_goes_as_it_is_and_its_python_runs_the_script(self):
        for name in ("mine", "mine:3", "mine@latest"):
            spec = self.submit(name)
            self.assertEqual((spec["environment"], spec["command"]), ({"name": name}, ["python", "train.py"]))
        self.assertNotIn("POST /environments/read", self.yard.asked)

    def test_without_one_or_with_the_machines_own_nothing_changes(self):
        self.assertNotIn("environment", self.submit(None))
        for system in ("system", Environment("mine")):
            spec = self.submit(system)
            self.assertEqual((spec["environment"], spec["command"]), ({}, ["python3", "train.py"]))
        self.assertEqual(self.submit("mine", interpreter="pypy")["command"][0], "pypy")

    def test_the_server_reads_the_files_and_those_they_name(self):
        pathlib.Path("sub").mkdir()
        self.write(requirements_txt="apple\n-r sub/more.txt\n")
        pathlib.Path("sub/more.txt").write_text("pear\n-r last.txt\n")
        pathlib.Path("sub/last.txt").write_text("fig\n")
        spec = self.submit(Environment.from_pip_requirements("mine", "requirements.txt"))
        self.assertEqual(spec["environment"], {"recipe": {"kind": "venv", "requirements": ["apple", "pear", "fig"]}})
        self.assertEqual(sorted(self.yard.read[-1]["files"]), ["requirements.txt", "sub/last.txt", "sub/more.txt"])
        self.assertEqual(self.yard.read[-1]["folder"], str(pathlib.Path.cwd()))

    def test_packages_upon_a_name_or_an_image(self):
        self.write(more_txt="pear\n", conda_yml="fig\n")
        spec = self.submit(Environment(base="sklearn", pip_requirements="more.txt"))
        self.assertEqual((spec["environment"]["name"], spec["environment"]["recipe"]["requirements"]),
                         ("sklearn", ["pear"]))
        spec = self.submit(Environment.from_docker_image("mine", "debian:12", conda_specification="conda.yml"))
        self.assertEqual(spec["environment"]["recipe"],
                         {"kind": "container", "image": "debian:12", "requirements": ["fig"]})

    def test_how_ranks_are_started_in_it(self):
        made = Environment.from_docker_image("mine", "debian:12", {"address": "r", "username": "ada", "secret": "s"})
        made.environment_variables["N"] = 1
        made.docker_arguments = ["-v", "/a:/b"]
        made.shm_size = "1g"
        environment = self.submit(made)["environment"]
        self.assertEqual((environment["variables"], environment["arguments"], environment["shmSize"]),
                         ({"N": "1"}, ["-v", "/a:/b"], "1g"))
        self.assertEqual(environment["registry"]["secret"], "s")
        self.assertEqual(self.submit(Environment(interpreter_path="/opt/python"))["environment"],
                         {"interpreter": "/opt/python"})

    def test_dockerfiles(self):
        pathlib.Path("docker").mkdir()
        pathlib.Path("docker/Dockerfile").write_text("FROM a\nCOPY . /\n")
        for given in ("docker/Dockerfile", "FROM a\nCOPY . /\n"):
            recipe = self.submit(Environment.from_dockerfile("mine", given))["environment"]["recipe"]
            self.assertEqual(recipe, {"kind": "container", "dockerfile": "FROM a\nCOPY . /\n"})
        recipe = self.submit(Environment.from_docker_build_context("mine", "docker"))["environment"]["recipe"]
        self.assertEqual(recipe["dockerfile"], "Dockerfile")
        self.assertIn(b"\tDockerfile\n", self.yard.blobs[recipe["context"]])

    def test_what_is_wrong_is_said(self):
        for make in (lambda: Environment.from_pip_requirements("x", "no.txt"),
                     lambda: Environment.from_conda_specification("x", "no.yml"),
                     lambda: Environment.from_dockerfile("x", "no/Dockerfile"),
                     lambda: Environment.from_docker_build_context("x", ".")):
            with self.assertRaisesRegex(NotFound, "there is no "):
                make()
        with self.assertRaisesRegex(UserError, "one of base, image"):
            Environment("x", base="a", image="b")
        for wrong in ("", 7, object()):
            with self.assertRaises(UserError):
                self.submit(wrong)
        self.write(requirements_txt="-r gone.txt\n")
        with self.assertRaisesRegex(NotFound, "gone.txt"):
            self.submit(Environment.from_pip_requirements("x", "requirements.txt"))
        pathlib.Path("requirements.txt").write_bytes("apple\n".encode("utf-16"))
        with self.assertRaisesRegex(UserError, "UTF-8"):
            self.submit(Environment.from_pip_requirements("x", "requirements.txt"))
        self.assertEqual(self.yard.runs, {})

    def test_a_server_gets_no_file_that_none_names(self):
        self.write(requirements_txt="apple\n", private_txt="hush")
        self.yard.read_environment = lambda body: {"missing": ["private.txt"]}
        with self.assertRaisesRegex(UserError, "which no file names"):
            self.submit(Environment.from_pip_requirements("x", "requirements.txt"))

    def test_warnings_are_shown(self):
        self.write(requirements_txt="odd\n")
        with contextlib.redirect_stderr(io.StringIO()) as err:
            self.submit(Environment.from_pip_requirements("x", "requirements.txt"))
        self.assertIn("of the test", err.getvalue())

    def test_without_the_program(self):
        self.set_env(TRAINYARD_SERVER=self.server.url, TRAINYARD_TOKEN=TOKEN)
        self.write(requirements_txt="apple\n")

        def environment(*options):
            with contextlib.redirect_stdout(io.StringIO()) as out:
                self.assertEqual(main(["submit", "--target", "pool", "--async", *options, "--", "true"]), 0)
            return self.yard.runs[out.getvalue().strip()]["spec"].get("environment")
        self.assertIsNone(environment())
        self.assertEqual(environment("--environment", "mine:1"), {"name": "mine:1"})
        self.assertEqual(environment("--image", "debian"), {"recipe": {"kind": "container", "image": "debian"}})
        layer = environment("--environment", "mine", "--requirements", "requirements.txt")
        self.assertEqual((layer["name"], layer["recipe"]["requirements"]), ("mine", ["apple"]))


class Registry(Environments):
    def test_registered_found_listed_and_used_by_name(self):
        self.write(requirements_txt="apple\n")
        made = Environment.from_pip_requirements("mine", "requirements.txt")
        made.environment_variables["A"] = "1"
        kept = made.register(self.workspace)
        self.assertEqual((kept.name, kept.version), ("mine", "1"))
        self.assertEqual(kept.details["recipe"]["requirements"], ["apple"])
        made.register(self.workspace)
        self.assertEqual(Environment.get(self.workspace, "mine").version, "2")
        self.assertEqual(Environment.get(self.workspace, "mine", "1").version, "1")
        first = Environment.get(self.workspace, "mine:1")
        self.assertEqual((first.version, first.environment_variables), ("1", {"A": "1"}))
        self.assertEqual({name: one.version for name, one in Environment.list(self.workspace).items()}, {"mine": "2"})
        with self.assertRaisesRegex(NotFound, "'other'"):
            Environment.get(self.workspace, "other")
        self.assertEqual(self.submit(first)["environment"], {"name": "mine", "version": "1"})

    def test_what_was_changed_since_goes_whole(self):
        self.write(requirements_txt="apple\n", more_txt="pear\n")
        kept = Environment.from_pip_requirements("mine", "requirements.txt").register(self.workspace)
        kept.environment_variables["A"] = "2"
        self.assertEqual(self.submit(kept)["environment"],
                         {"recipe": {"kind": "venv", "requirements": ["apple"]}, "variables": {"A": "2"}})
        kept.pip_requirements = "more.txt"
        self.assertEqual(self.submit(kept)["environment"]["recipe"]["requirements"], ["apple", "pear"])

    def test_upon_another(self):
        self.write(more_txt="pear\n")
        Environment("more", base="mine:1", pip_requirements="more.txt", description="of us").register(self.workspace)
        sent = self.yard.environments["more"][0]
        self.assertEqual((sent["name"], sent["base"], sent["description"]), ("more", "mine:1", "of us"))
        with self.assertRaisesRegex(UserError, "needs a name"):
            Environment(image="debian").register(self.workspace)


if __name__ == "__main__":
    unittest.main(verbosity=2)
