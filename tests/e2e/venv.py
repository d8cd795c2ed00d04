"""Runs in virtual environments: made once, found by every script, never made again."""
import os
import pathlib
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from wheels import SlowIndex, wheel
from yard import YardTest, main, wait_until

SHOW = """
import sys, apple
print("apple", apple.version, sys.prefix)
"""


class Venv(YardTest):
    def setUp(self):
        super().setUp()
        self.wheels = self.scratch / "wheels"
        wheel(self.wheels, "apple", "1.0", requires=["pear>=2"], scripts={"apple-say": "apple:main"})
        wheel(self.wheels, "apple", "1.1", requires=["pear>=2"], scripts={"apple-say": "apple:main"})
        wheel(self.wheels, "pear", "2.5")
        self.write("show.py", SHOW)
        self.requires("apple==1.0")

    def requires(self, *lines):
        self.write("requirements.txt", "\n".join((f"--no-index\n--find-links {self.wheels}", *lines)) + "\n")

    def submit(self, *words, options=()):
        return self.run_cli("submit", "--requirements", "requirements.txt", *options, "--",
                            *(words or ("python", "show.py")))

    def newest(self):
        return self.show(self.json("run", "list", "--last", "1")[0]["id"])

    def log_of(self, run):
        """What making the environment printed; empty where it was there."""
        done = self.run_cli("run", "cp", f"{run['id']}:azureml-logs/20_image_build_log.txt", "-")
        return done.out if done.code == 0 else ""

    def shelf(self):
        return sorted(path.name for path in (self.home / "environments").iterdir()
                      if (path / "environment.json").exists())

    def test_made_once_and_found_by_the_next(self):
        done = self.submit()
        self.assertEqual((done.code, done.out.split()[:2]), (0, ["apple", "1.0"]), done)
        first = self.newest()
        self.assertIn(str(self.home / "environments"), done.out)
        self.assertIn("pear", self.log_of(first))
        hashes = self.shelf()
        self.assertEqual(len(hashes), 1)
        done = self.submit()
        self.assertEqual(done.code, 0, done)
        self.assertEqual((self.log_of(self.newest()), self.shelf()), ("", hashes))
        # A comment and another order make nothing new; another version does.
        self.requires("# of the house", "pear>=2", "apple==1.0  # for the pie")
        self.assertEqual(self.submit().code, 0)
        self.assertEqual(len(self.shelf()), 2)  # pear was named now.
        self.requires("apple==1.0", "pear>=2", "apple==1.0")
        self.assertEqual(self.submit().code, 0)
        self.assertEqual(len(self.shelf()), 2)
        self.requires("apple==1.1")
        self.assertEqual(self.submit().out.split()[:2], ["apple", "1.1"])
        self.assertEqual(len(self.shelf()), 3)

    def test_the_time_of_a_build_is_a_phase_of_its_own(self):
        self.assertEqual(self.submit("true").code, 0)
        phases = [phase["phase"] for phase in self.newest()["timeline"]]
        self.assertEqual(phases, ["queue", "provision", "prepare", "build", "prepare", "start", "run", "capture"])
        self.assertEqual(self.submit("true").code, 0)  # It is there.
        self.assertNotIn("build", [phase["phase"] for phase in self.newest()["timeline"]])
        self.requires("no-such-package==7")
        self.assertNotEqual(self.submit("true").code, 0)
        failed = self.newest()
        build = next(phase for phase in failed["timeline"] if phase["phase"] == "build")
        self.assertEqual(build["text"], "its environment was waited for")
        self.assertNotIn("run", [phase["phase"] for phase in failed["timeline"]])
        self.assertIsNone(failed["startedAt"])

    def test_its_programs_come_first(self):
        done = self.submit("apple-say")
        self.assertEqual((done.code, done.out), (0, "apple 1.0\n"), done)
        done = self.submit("sh", "-c", "command -v python; echo $VIRTUAL_ENV")
        root = self.home / "environments" / self.shelf()[0] / "root"
        self.assertEqual(done.out.split(), [str(root / "bin" / "python"), str(root)])

    def test_what_a_run_changes_in_it_no_other_run_sees(self):
        change = ("import apple, os, sys\n"
                  "folder = os.path.dirname(apple.__file__)\n"
                  "for file, text in ((apple.__file__, 'version = 666'), (os.path.join(folder, 'kiwi.py'), 'taste = 1'),\n"
                  "                   (os.path.join(sys.prefix, '..', 'environment.json'), '{}')):\n"
                  "    try:\n"
                  "        os.chmod(file, 0o644) if os.path.exists(file) else None\n"
                  "        open(file, 'w').write(text)\n"
                  "        print('wrote', os.path.basename(file))\n"
                  "    except OSError as error:\n"
                  "        print('refused', os.path.basename(file))\n")
        self.write("change.py", change)
        done = self.submit("python", "change.py")
        self.assertEqual(done.code, 0, done)
        self.assertIn("refused environment.json", done.out)
        done = self.submit("python", "-c", "import apple, importlib.util as u; print(apple.version, u.find_spec('kiwi'))")
        self.assertEqual((done.code, done.out), (0, "1.0 None\n"), done)
        # What its preparation installs, its ranks have, and nobody else.
        install = "echo 'taste = 2' > $(python -c 'import apple; print(apple.__file__)' | sed s/apple.py/kiwi.py/)"
        taste = ("python", "-c", "import kiwi; print(kiwi.taste)")
        done = self.submit(*taste, options=("--preparation", install))
        self.assertEqual((done.code, done.out), (0, "2\n"), done)
        self.assertNotEqual(self.submit(*taste).code, 0)

    def test_what_a_run_installs_with_pip_that_run_alone_has(self):
        wheel(self.wheels, "plum", "3.1")
        find = f"--no-index --find-links {self.wheels}"
        show = "python -c 'import plum; print(plum.version, plum.__file__)'"
        for pip in ("pip", "pip3"):
            done = self.submit("sh", "-c", f"{pip} install -q {find} plum && {show} && {pip} list")
            root = self.home / "environments" / self.shelf()[0] / "root"
            self.assertEqual((done.code, done.out.split()[0]), (0, "3.1"), done)
            self.assertTrue(done.out.split()[1].startswith(str(root)), done.out)
            self.assertIn("apple", done.out)
            done = self.submit("sh", "-c", show)
            self.assertIn("No module named 'plum'", done.err + done.out)
            self.assertNotEqual(done.code, 0)
            self.assertEqual(list(root.glob("lib/*/site-packages/plum*")), [])

    def test_pip_works_by_uv_and_says_what_is_missing_without_either(self):
        root = self.scratch / "venv"  # Of an interpreter that has no pip.
        self.assertEqual(self.submit("sh", "-c", f"mkdir -p {root}/bin && cp $(command -v pip) {root}/bin/pip").code, 0)
        base = self.write("base", "#!/bin/sh\nexit 1\n")
        base.chmod(0o755)
        (root / "bin" / "python").symlink_to(base)
        programs = self.scratch / "bin"
        programs.mkdir()
        for name in ("dirname", "realpath", "sh"):
            (programs / name).symlink_to(f"/usr/bin/{name}")

        def pip():
            return subprocess.run([root / "bin" / "pip", "install", "x"], env={"PATH": str(programs)}, text=True,
                                  capture_output=True, check=False)

        done = pip()
        self.assertEqual((done.returncode, done.stdout), (1, ""), done)
        self.assertIn("neither", done.stderr)
        (programs / "uv").write_text('#!/bin/sh\necho "$VIRTUAL_ENV: $*"\n')
        (programs / "uv").chmod(0o755)
        self.assertEqual(pip().stdout, f"{root}: pip install x\n")

    def test_a_rebuild_replaces_it_for_later_runs_and_a_failed_one_does_not(self):
        self.requires("apple")
        self.ok("environment", "register", "-n", "fruit", "--requirements", "requirements.txt")
        first = self.json("environment", "build", "fruit")
        gate = self.scratch / "gate"
        held = self.ok("submit", "--environment", "fruit", "--async", "--", "sh", "-c",
                       f"echo begun; while [ ! -e {gate} ]; do sleep 0.1; done; python show.py").strip()
        wait_until(lambda: "begun" in self.ok("run", "logs", held), "the run that uses the first build to begin")

        def shown():
            done = self.run_cli("submit", "--environment", "fruit", "--", "python", "show.py")
            self.assertEqual(done.code, 0, done)
            return done.out.split()[1]

        wheel(self.wheels, "apple", "1.2", requires=["pear>=2"])
        self.assertEqual(self.json("environment", "build", "fruit")["hash"], first["hash"])
        self.assertEqual(shown(), "1.1")
        second = self.json("environment", "build", "fruit", "--rebuild")
        self.assertNotEqual(second["hash"], first["hash"])
        self.assertEqual(self.json("environment", "show", "fruit")["hash"], second["hash"])
        self.assertEqual(shown(), "1.2")
        self.assertEqual(self.json("environment", "build", "fruit")["hash"], second["hash"])
        # The one before is whole for the run that has it, also after this one has read nothing of it yet.
        gate.touch()
        self.assertEqual(self.run_cli("run", "wait", held).code, 0, self.show(held))
        self.assertIn("apple 1.1", self.ok("run", "logs", held))
        # Nothing can be built: the last one stays in use.
        self.wheels.rename(self.scratch / "away")
        failed = self.run_cli("environment", "build", "fruit", "--rebuild")
        self.assertEqual(failed.code, 2, failed)
        self.assertIn("runs go on using that build", failed.err)
        self.assertEqual(shown(), "1.2")
        # A rerun has what its run had.
        self.assertIn("apple 1.1", self.ok("run", "rerun", held))

    def test_old_pythons_work_by_their_own_pip_where_there_is_no_uv(self):
        versions = [v for v in ("3.6", "3.7") if self.finds_python(v)]
        if not versions:
            self.skipTest("skipped: neither Python 3.6 nor 3.7 is on this machine")
        path = [part for part in self.env["PATH"].split(":") if not (pathlib.Path(part) / "uv").exists()]
        for version in versions:
            with self.subTest(version):
                self.write("conda.yml", f"dependencies:\n- python={version}\n- pip:\n  - --no-index\n"
                           f"  - --find-links {self.wheels}\n  - apple==1.0\n")
                done = self.run_cli("submit", "--conda", "conda.yml", "--", "sh", "-c",
                                    "python show.py; python --version; pip --version",
                                    env={"PATH": ":".join(path)}, timeout=300)
                self.assertEqual(done.code, 0, done)
                self.assertIn("apple 1.0", done.out)
                self.assertIn(f"Python {version}", done.out)
                self.assertIn(f"(python {version})", done.out)
                lock = self.ok("run", "cp", f"{self.newest()['id']}:system_logs/environment_lock.txt", "-")
                self.assertEqual([line.split()[0] for line in lock.splitlines()], ["apple==1.0", "pear==2.5"])

    def finds_python(self, version):
        """In PATH, or among pyenv's."""
        kept = pathlib.Path(self.env.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv")) / "versions"
        files = [pathlib.Path(part) / f"python{version}" for part in self.env["PATH"].split(":")]
        return any(file.exists() for file in [*files, *kept.glob(f"{version}.*/bin/python3")])

    def test_a_python_that_is_not_here_is_said_with_what_to_do(self):
        self.write("conda.yml", "dependencies:\n- python=3.7\n")
        programs = self.scratch / "bin"
        programs.mkdir()
        for name in ("python3", "bwrap", "sh", "setpriv"):
            if pathlib.Path(f"/usr/bin/{name}").exists():
                (programs / name).symlink_to(f"/usr/bin/{name}")
        env = {"PATH": str(programs), "HOME": str(self.scratch), "PYENV_ROOT": str(self.scratch / "none")}
        done = self.run_cli("submit", "--conda", "conda.yml", "--", "python", "show.py", env=env)
        self.assertEqual(done.code, 4, done)
        self.assertIn("Python 3.7 is not here; here is 3.", done.err)
        self.assertIn("pyenv install 3.7", done.err)

    def test_many_runs_at_once_make_it_once(self):
        runs = [self.ok("submit", "--requirements", "requirements.txt", "--async", "--", "python", "show.py").strip()
                for _ in range(20)]
        for run in runs:
            self.assertEqual(self.run_cli("run", "wait", run).code, 0, self.show(run))
        self.assertEqual(len(self.shelf()), 1)
        text = (self.home / "environments" / self.shelf()[0] / "log.txt").read_text()
        self.assertEqual(text.count("is being made"), 1)

    def test_exact_versions_are_kept_with_the_run(self):
        self.requires("apple<1.1")
        self.assertEqual(self.submit().code, 0)
        run = self.newest()
        lock = self.ok("run", "cp", f"{run['id']}:system_logs/environment_lock.txt", "-")
        self.assertEqual([line.split(" --hash=sha256:")[0] for line in lock.splitlines()], ["apple==1.0", "pear==2.5"])
        self.assertEqual(lock.count(" --hash=sha256:"), 2)

    def test_a_package_that_does_not_exist_is_named(self):
        self.requires("apple==1.0", "nosuchfruit==3")
        done = self.submit()
        self.assertNotEqual(done.code, 0)
        self.assertIn("nosuchfruit", done.err)
        self.assertEqual(self.newest()["status"], "Failed")
        self.assertEqual(self.shelf(), [])
        # Nothing half-made is left.
        self.assertEqual([p.name for p in (self.home / "environments").iterdir() if ".new-" in p.name], [])
        # Once it can be had, it is had.
        wheel(self.wheels, "nosuchfruit", "3")
        self.assertEqual(self.submit().code, 0)

    def test_what_was_used_longest_ago_makes_room_and_comes_back_the_same(self):
        self.ok("server", "start", "--environments-max", "1")
        self.requires("apple")
        self.assertEqual(self.submit().out.split()[:2], ["apple", "1.1"])
        first, before = self.newest()["id"], self.shelf()
        self.requires("pear")
        self.assertEqual(self.submit("python", "-c", "import pear").code, 0)
        wait_until(lambda: not set(before) & set(self.shelf()), "the older one has made room")
        # By now there is a newer one; what the run had is kept.
        wheel(self.wheels, "apple", "1.2", requires=["pear>=2"])
        done = self.run_cli("run", "rerun", first)
        self.assertEqual((done.code, done.out.split()[:2]), (0, ["apple", "1.1"]), done)

    def slow_index(self):
        """An index that answers once it is let to: (begun, go), both events."""
        index = SlowIndex(self.wheels)
        self.addCleanup(index.close)
        self.write("requirements.txt", f"--index-url {index.url}\napple==1.0\n")
        return index.begun, index.go

    def test_a_server_killed_while_it_makes_one_leaves_nothing_half_made(self):
        begun, go = self.slow_index()
        run = self.ok("submit", "--requirements", "requirements.txt", "--async", "--", "python", "show.py").strip()
        self.assertTrue(begun.wait(60))
        wait_until(lambda: "is being built" in self.show(run)["reason"], "it says what it waits for")
        self.assertEqual(self.show(run)["status"], "Preparing")
        os.kill(self.json("server", "status")["pid"], signal.SIGKILL)
        go.set()
        self.assertEqual(self.run_cli("run", "wait", run, timeout=120).code, 0, self.show(run))
        self.assertEqual(len(self.shelf()), 1)
        wait_until(lambda: not [p for p in (self.home / "environments").iterdir() if ".new-" in p.name],
                   "nothing half-made is left")

    def test_two_homes_make_the_same_at_once_each_for_itself(self):
        begun, go = self.slow_index()
        other = {"TRAINYARD_HOME": f"{self.home}-other"}
        self.addCleanup(self.run_cli, "server", "stop", env=other)
        words = ("submit", "--requirements", "requirements.txt", "--async", "--", "python", "show.py")
        runs = [(self.ok(*words, env=env).strip(), env) for env in (None, other)]
        self.assertTrue(begun.wait(60))
        go.set()
        for run, env in runs:
            self.assertEqual(self.run_cli("run", "wait", run, env=env, timeout=120).code, 0)
            self.assertIn("apple 1.0", self.ok("run", "logs", run, env=env))
        homes = [pathlib.Path(home) / "environments" for home in (self.home, other["TRAINYARD_HOME"])]
        self.assertEqual([len(list(home.glob("*/environment.json"))) for home in homes], [1, 1])

    def test_a_full_disk_is_told_and_nothing_half_made_stays(self):
        if os.geteuid() != 0:
            self.skipTest("skipped: a small disk needs root")
        disk = self.home / "environments"
        disk.mkdir(parents=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", disk], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", disk], check=False)
        wheel(self.wheels, "melon", "1.0", source=f"seeds = '{os.urandom(4 << 20).hex()}'\n")
        self.requires("melon")
        done = self.submit("python", "-c", "import melon")
        self.assertNotEqual(done.code, 0, done)
        self.assertRegex(done.err, "(?i)no space left on device")
        self.assertEqual([path for path in disk.iterdir() if path.is_dir() and path.name != "locks"], [])
        # What fits is made on the same disk.
        self.requires("pear")
        self.assertEqual(self.submit("python", "-c", "import pear").code, 0)

    def test_cancel_while_it_is_being_made(self):
        begun, _ = self.slow_index()
        run = self.ok("submit", "--requirements", "requirements.txt", "--async", "--", "python", "show.py").strip()
        self.assertTrue(begun.wait(60))
        self.ok("run", "cancel", run)
        self.run_cli("run", "wait", run, timeout=60)
        self.assertEqual(self.show(run)["status"], "Canceled")
        # Nobody else waits for it: the build is stopped, and nothing of it stays.
        wait_until(lambda: not [p for p in (self.home / "environments").iterdir() if ".new-" in p.name],
                   "the build to be stopped", 15)

    def test_a_cancel_leaves_the_build_to_another_run(self):
        begun, go = self.slow_index()
        words = ("submit", "--requirements", "requirements.txt", "--async", "--", "python", "show.py")
        runs = [self.ok(*words).strip() for _ in range(2)]
        self.assertTrue(begun.wait(60))
        self.ok("run", "cancel", runs[0])
        self.run_cli("run", "wait", runs[0], timeout=60)
        go.set()
        self.assertEqual(self.run_cli("run", "wait", runs[1], timeout=120).code, 0, self.show(runs[1]))


if __name__ == "__main__":
    main()
