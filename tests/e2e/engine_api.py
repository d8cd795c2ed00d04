"""One rank in a container of a real docker and a real podman: `trainyard container FILE` alone."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import engines
from yard import TRAINYARD, main


class Plans:
    """Writes plans and has them carried out."""

    engine_type = None

    @classmethod
    def setUpClass(cls):
        cls.engine = cls.engine_type().up()
        cls.addClassCleanup(cls.engine.down)
        cls.engine.add_busybox("tiny")

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="plan-"))
        self.addCleanup(subprocess.run, ["rm", "-rf", str(self.folder)], check=False)
        self.addCleanup(lambda: self.assertEqual(self.left(), []))

    def left(self):
        return self.engine.containers()

    def plan(self, *command, **more):
        """The file of a plan."""
        path = self.folder / "plan.json"
        path.write_text(json.dumps({
            "image": "tiny", "command": list(command), "name": f"test-{os.getpid()}", "mark": "mark-1",
            "note": str(self.folder / "note"),
            "account": {"uid": os.geteuid(), "gid": os.getegid(), "name": "", "groups": []},
            "engine": {"socket": str(self.engine.socket), "podman": self.engine.name == "podman",
                       "rootless": False, "api": "1.40"}, **more}))
        return path

    def start(self, *command, env=None, user=None, **more):
        return subprocess.Popen([TRAINYARD, "container", str(self.plan(*command, **more))],
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                env=dict(os.environ, **(env or {})))

    def run_plan(self, *command, **more):
        """-> exit code, stdout, stderr as bytes"""
        child = self.start(*command, **more)
        out, err = child.communicate(timeout=60)
        return child.returncode, out, err

    def note(self):
        path = self.folder / "note"
        return path.read_text() if path.exists() else ""

    def first_words(self, child, words):
        """Waits until the container has printed them, which shows that it runs."""
        got = b""
        while not got.endswith(words):
            piece = os.read(child.stdout.fileno(), 1)
            self.assertTrue(piece, child.stderr.read() if not piece else "")
            got += piece


class Containers(Plans):
    """The rules, for each engine."""

    # ---- what comes out ----

    def test_a_command_that_does_nothing_ends_well(self):
        self.assertEqual(self.run_plan("true"), (0, b"", b""))

    def test_the_exit_code_is_the_containers(self):
        code, out, err = self.run_plan("sh", "-c", "echo out; echo err >&2; exit 42")
        self.assertEqual((code, out, err), (42, b"out\n", b"err\n"))
        self.assertEqual(self.note(), "")

    def test_every_byte_arrives_as_it_was_written(self):
        bytes_ = os.urandom(1 << 20) * 8 + bytes(range(256))
        (self.folder / "bytes").write_bytes(bytes_)
        code, out, err = self.run_plan("sh", "-c", "cat /in/bytes; cat /in/bytes >&2",
                                       binds=[{"source": str(self.folder), "target": "/in", "readOnly": True}])
        self.assertEqual(code, 0)
        self.assertTrue(out == bytes_ and err == bytes_, f"{len(out)} and {len(err)} of {len(bytes_)} bytes")

    def test_a_line_is_there_while_the_container_runs_on(self):
        child = self.start("sh", "-c", "echo one; sleep 300")
        self.first_words(child, b"one\n")
        self.assertIsNone(child.poll())
        child.terminate()
        child.communicate(timeout=30)
        self.assertEqual(child.returncode, 143)

    def test_nobody_has_to_read(self):
        child = self.start("sh", "-c", "yes | head -c 10000000; echo done >&2")
        child.stdout.close()
        self.assertEqual(child.stderr.read(), b"done\n")
        self.assertEqual(child.wait(30), 0)
        child.stderr.close()

    # ---- how it ends ----

    def test_sigterm_reaches_the_program_which_may_clean_up(self):
        child = self.start("sh", "-c", "trap 'echo bye; exit 7' TERM; echo up; sleep 300 & wait")
        self.first_words(child, b"up\n")
        child.terminate()
        out, _ = child.communicate(timeout=30)
        self.assertEqual((child.returncode, out), (7, b"bye\n"))

    def test_other_signals_reach_it_too(self):
        child = self.start("sh", "-c", "trap 'echo usr1; exit 0' USR1; echo up; sleep 300 & wait")
        self.first_words(child, b"up\n")
        child.send_signal(signal.SIGUSR1)
        out, _ = child.communicate(timeout=30)
        self.assertEqual((child.returncode, out), (0, b"usr1\n"))

    def test_who_does_not_heed_sigterm_is_killed_after_the_grace(self):
        child = self.start("sh", "-c", "trap '' TERM; echo up; sleep 300", graceSeconds=1)
        self.first_words(child, b"up\n")
        began = time.monotonic()
        child.terminate()
        child.communicate(timeout=30)
        self.assertEqual(child.returncode, 137)
        self.assertGreaterEqual(time.monotonic() - began, 1)
        self.assertEqual(self.note(), "")

    def test_one_that_is_stopped_while_it_starts_never_outlives_us(self):
        for pause in (0, 0.02, 0.05, 0.1, 0.2):
            child = self.start("sleep", "300")
            time.sleep(pause)  # At any moment of the way.
            child.terminate()
            child.communicate(timeout=30)
            self.assertIn(child.returncode, (143, -signal.SIGTERM))

    def test_out_of_memory_is_told_as_such(self):
        code, _, _ = self.run_plan("sh", "-c", "x=x; while true; do x=$x$x; done", memoryBytes=32 << 20)
        self.assertNotEqual(code, 0)
        self.assertEqual(self.note(), "out of memory: the container's limit is 32 MB\n")

    def test_a_limit_that_is_not_reached_changes_nothing(self):
        code, out, _ = self.run_plan("sh", "-c", "echo fine; exit 1", memoryBytes=64 << 20, cpus=1)
        self.assertEqual((code, out, self.note()), (1, b"fine\n", ""))

    def test_a_container_of_a_killed_supervisor_is_found_by_its_mark(self):
        child = self.start("sh", "-c", "echo up; sleep 300", mark="mark-2")
        self.first_words(child, b"up\n")
        child.kill()
        child.communicate()
        left = self.engine.cli("ps", "-q", "--filter", "label=trainyard.mark=mark-2").split()
        self.assertEqual(len(left), 1)
        self.engine.cli("rm", "-f", *left)

    # ---- what it has ----

    def test_it_runs_as_the_submitter_in_the_given_folder_with_the_given_variables(self):
        work = self.folder / "work"
        work.mkdir()
        os.chown(work, 1234, 1235)
        self.folder.chmod(0o755)
        path = self.plan("sh", "-c", "id -u; id -g; id -G; pwd; echo $GIVEN,$UNSEEN,$ALSO; touch made",
                         folder=str(work), variables=["GIVEN", "MISSING"], arguments=["-e", "ALSO=too"],
                         binds=[{"source": str(work), "target": str(work), "readOnly": False}],
                         account={"uid": 1234, "gid": 1235, "name": "", "groups": [1236]})
        os.chown(path, 1234, 1235)
        os.chown(self.engine.socket, 0, 1235)
        os.chmod(self.engine.socket, 0o660)
        done = subprocess.run([TRAINYARD, "container", str(path)], capture_output=True, text=True, timeout=60,
                              check=False, user=1234, group=1235, extra_groups=[1236],
                              env=dict(os.environ, GIVEN="yes", UNSEEN="no"))
        self.assertEqual(done.stdout.splitlines(),
                         ["1234", "1235", "1235 1236", str(work), "yes,,too"], done.stderr)
        made = (work / "made").stat()
        self.assertEqual((made.st_uid, made.st_gid), (1234, 1235))

    def test_the_users_arguments_hold(self):
        data = self.folder / "data"
        data.mkdir()
        (data / "x").write_text("given")
        code, out, err = self.run_plan(
            "sh", "-c", "cat /data/x; touch /data/y 2>/dev/null; echo $?; df -k /dev/shm | tail -1; ulimit -n; pwd; id -u; "
            "df -k /scratch | tail -1; ls /sys/class/net",
            arguments=["-v", f"{data}:/data:ro", "--shm-size", "3m", "--ipc", "private", "--ulimit", "nofile=123", "-w", "/tmp",
                       "--user", "7", "--tmpfs", "/scratch:size=1m", "--network", "none"])
        lines = out.decode().splitlines()
        self.assertEqual(code, 0, err)
        self.assertEqual(lines[0], "given1")
        self.assertEqual(lines[1].split()[1], "3072")
        self.assertEqual(lines[2:5], ["123", "/tmp", "7"])
        self.assertEqual(lines[5].split()[1], "1024")
        self.assertEqual(lines[6:], ["lo"])

    def test_it_has_the_machines_network(self):
        _, out, _ = self.run_plan("ls", "/sys/class/net")
        self.assertEqual(set(out.decode().split()), set(os.listdir("/sys/class/net")))

    def test_the_images_own_command_runs_where_there_is_none(self):
        self.engine.add_busybox("own", 'ENTRYPOINT ["echo", "entry"]', 'CMD ["command"]', "WORKDIR /usr/bin")
        config = {"entrypoint": ["echo", "entry"], "command": ["command"], "folder": "/usr/bin"}
        self.assertEqual(self.run_plan(image="own", config=config), (0, b"entry command\n", b""))
        self.assertEqual(self.run_plan("pwd", image="own", config=config), (0, b"/usr/bin\n", b""))
        self.assertEqual(self.run_plan("b", image="own", config=config, arguments=["--entrypoint", "echo"]),
                         (0, b"b\n", b""))

    # ---- what cannot be ----

    def test_what_cannot_be_started_says_why(self):
        for command, code in ((["no-such-program"], 127), (["/etc"], 126)):
            got, _, err = self.run_plan(*command)
            self.assertEqual(got, code, err)
            self.assertIn(command[0].encode(), err)

    def test_an_image_that_is_gone_is_named(self):
        code, _, err = self.run_plan("true", image="sha256:" + "5" * 64, root="/shelf/hash/root")
        self.assertEqual(code, 125)
        self.assertIn(b"remove /shelf/hash, and the next run makes it again", err)
        self.assertIn(b"no such image", err.lower())
        self.assertTrue(self.note().startswith("not started: "), self.note())

    def test_a_folder_that_is_not_there_is_named(self):
        code, _, err = self.run_plan("true", arguments=["-v", "/no/such/folder:/data"])
        self.assertEqual(code, 125)
        self.assertIn(b"/no/such/folder", err)

    def test_no_engine_at_all(self):
        code, _, err = self.run_plan("true", engine={"socket": str(self.folder / "none"), "podman": False,
                                                     "rootless": False, "api": "1.40"})
        self.assertEqual(code, 125)
        self.assertIn(b"none", err)


class Docker(Containers, unittest.TestCase):
    engine_type = engines.Docker


class DockerKilled(Plans, unittest.TestCase):
    engine_type = engines.Docker

    def left(self):
        return []  # Nobody can say.

    def test_an_engine_that_dies_is_told_of(self):
        child = self.start("sh", "-c", "echo up; sleep 300")
        self.first_words(child, b"up\n")
        self.engine.daemon.kill()
        self.engine.daemon.wait()
        _, err = child.communicate(timeout=30)
        self.assertEqual(child.returncode, 125, err)
        self.assertTrue(self.note().startswith("the engine was lost: "), self.note())


class DockerWithoutInit(Plans, unittest.TestCase):
    @staticmethod
    def engine_type():
        return engines.Docker(words=("--init-path", "/no/such/program"))

    def test_a_docker_without_its_little_first_process_works_too(self):
        self.assertEqual(self.run_plan("sh", "-c", "echo up; exit 3"), (3, b"up\n", b""))


class Podman(Containers, unittest.TestCase):
    engine_type = engines.Podman


if __name__ == "__main__":
    main()
