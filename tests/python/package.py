"""The installable package: a pure wheel, made without a network."""
import importlib
import inspect
import os
import pathlib
import pkgutil
import re
import subprocess
import sys
import tarfile
import tempfile
import unittest
import venv
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
from fake_yard import PACKAGE, ROOT

OFFLINE = {"PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_CACHE_DIR": "1"}


class Package(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = pathlib.Path(scratch.name)
        sys.path.insert(0, str(PACKAGE))
        self.addCleanup(sys.path.remove, str(PACKAGE))

    def test_the_wheel_is_pure_and_holds_every_module(self):
        import build_backend
        name = build_backend.build_wheel(str(self.scratch))
        self.assertRegex(name, r"^trainyard-[\d.]+-py3-none-any\.whl$")
        with zipfile.ZipFile(self.scratch / name) as wheel:
            names = wheel.namelist()
        modules = {f"trainyard/{path.name}" for path in (PACKAGE / "trainyard").iterdir()
                   if path.name != "__pycache__"}
        self.assertEqual({name for name in names if name.startswith("trainyard/")}, modules)
        # Flat, for the binary. The marker says that type checkers may read the package.
        self.assertEqual({module for module in modules if not module.endswith(".py")}, {"trainyard/py.typed"})
        source = build_backend.build_sdist(str(self.scratch))
        with tarfile.open(self.scratch / source) as archive:
            packed = {"/".join(name.split("/")[1:]) for name in archive.getnames()}
        self.assertLessEqual(modules, packed)
        done = subprocess.run([sys.executable, "-c", "import trainyard; print(trainyard.__file__)"],
                              env={"PYTHONPATH": str(self.scratch / name)}, capture_output=True, text=True)
        self.assertIn(name, done.stdout, done.stderr)

    def test_pip_installs_it_without_a_network(self):
        try:
            venv.create(self.scratch / "venv", with_pip=True)
        except (subprocess.CalledProcessError, ImportError):
            self.skipTest("no venv with pip here")
        python = self.scratch / "venv/bin/python"
        env = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
        for words in ([], ["--no-build-isolation"]):
            subprocess.run([python, "-m", "pip", "install", "-q", "--force-reinstall", *words, str(PACKAGE)],
                           env=dict(env, **OFFLINE), check=True, capture_output=True, timeout=120)
            done = subprocess.run([python, "-m", "trainyard", "--help"], cwd=self.scratch, env=env,
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("submit", done.stdout)

    def test_the_versions_agree(self):
        cmake = re.search(r"project\(trainyard VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text()).group(1)
        project = re.search(r'^version = "(.*)"', (PACKAGE / "pyproject.toml").read_text(), re.M).group(1)
        import trainyard
        self.assertEqual((project, trainyard.__version__), (cmake, cmake))

    def test_ids_are_made_of_the_same_words_as_the_programs(self):
        from trainyard import run_ids
        text = (ROOT / "src/base/id.cc").read_text()
        for name, words in (("kAdjectives", run_ids._ADJECTIVES), ("kAnimals", run_ids._ANIMALS)):
            block = re.search(rf"{name} = {{(.*?)}};", text, re.S).group(1)
            self.assertEqual(re.findall(r'"(\w+)"', block), words)
        self.assertIn(f'"{run_ids._ALPHABET}"', text)

    def test_what_is_named_is_there_and_documented(self):
        import trainyard
        self.assertEqual(trainyard.__all__, sorted(trainyard._HOME_OF))
        self.assertTrue(set(trainyard.__all__) <= set(dir(trainyard)))
        for module in pkgutil.iter_modules(trainyard.__path__):
            module = importlib.import_module(f"trainyard.{module.name}")
            self.assertTrue(module.__doc__, module.__name__)
            for name, thing in vars(module).items():
                if name.startswith("_") or getattr(thing, "__module__", None) != module.__name__:
                    continue
                if inspect.isfunction(thing) or inspect.isclass(thing):
                    self.assertTrue(thing.__doc__, f"{module.__name__}.{name}")
                for member, function in functions_of(thing) if inspect.isclass(thing) else ():
                    self.assertTrue(inspect.getdoc(getattr(thing, member)), f"{module.__name__}.{name}.{member}")
        with self.assertRaises(AttributeError):
            trainyard.no_such_name

    def test_what_is_named_has_type_hints(self):
        import trainyard
        from trainyard.interactive_run import InteractiveRun
        from trainyard.run_list import RunIterator
        from trainyard.script_run import ScriptRun
        for thing in [getattr(trainyard, name) for name in trainyard.__all__] + [InteractiveRun, ScriptRun, RunIterator]:
            for name, function in functions_of(thing, "__init__"):
                signature = inspect.signature(function)
                without = [parameter.name for parameter in list(signature.parameters.values())
                           if parameter.annotation is parameter.empty and parameter.name != "self"]
                if signature.return_annotation is signature.empty:
                    without.append("return")
                self.assertEqual(without, [], f"{thing.__name__}.{name}")

    def test_an_installation_has_the_marker_for_type_checkers(self):
        glob, = re.findall(r"file\(GLOB files (.*?)\)", (ROOT / "CMakeLists.txt").read_text(), re.S)
        self.assertEqual(re.findall(r"python/trainyard/(\S+?)\"", glob), ["*.py", "py.typed"])
        self.assertTrue((PACKAGE / "trainyard/py.typed").exists())


def functions_of(thing, *more):
    """The public methods of a class, properties by their getters, and those named in `more`."""
    for name, value in inspect.getmembers(thing):
        function = value.fget if isinstance(value, property) else value
        if inspect.isfunction(function) and (not name.startswith("_") or name in more):
            yield name, function


if __name__ == "__main__":
    unittest.main(verbosity=2)
