"""Job preparation: a command line once on each node, before any rank; here, in environments, containers, on Slurm."""
import os
import pathlib
import shutil
import signal
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from engines import Docker, Podman, make_busybox_root, skip_without
from lab_yard import LabTest
from wheels import wheel
from yard import YardTest, main, wait_until

LOG = "system_logs/preparation.txt"


class Logs:
    def log_of(self, run, name=LOG):
        done = self.run_cli("run", "cp", f"{run}:{name}", "-")
        return done.out if done.code == 0 else None

    def newest(self):
        return self.json("run", "list", "--last", "1")[0]["id"]


class Local(Logs, YardTest):
    def test_it_runs_before_the_script_in_its_folder_and_with_its_variables(self):
        self.write("data.txt", "given\n")
        done = self.run_cli("submit", "--env-var", "WHO=me", "--preparation", "cat data.txt > made && echo for $WHO | "
                            "tee -a made; echo warned >&2; sleep 1.5", "--", "cat", "made")
        self.assertEqual((done.code, done.out), (0, "given\nfor me\n"), done)
        self.assertEqual(done.err.count("waiting: "), 1, done)
        run = self.newest()
        self.assertEqual(sorted(self.log_of(run).splitlines()), ["for me", "warned"])
        self.assertRegex(self.ok("run", "show", run, "-o", "table"), r"preparation +cat data.txt > made && echo for")
        # What it has made is not taken for code, and a rerun prepares again.
        done = self.run_cli("run", "rerun", run)
        self.assertEqual((done.code, done.out), (0, "given\nfor me\n"), done)
        self.assertEqual(self.show(self.newest())["preparation"], self.show(run)["preparation"])

    def test_one_that_fails_fails_the_run_and_nothing_starts(self):
        done = self.run_cli("submit", "--preparation", "echo looking; echo no such thing; exit 3", "--", "echo", "up")
        self.assertEqual((done.code, done.out), (3, ""), done)
        self.assertIn("job preparation ended with 3: no such thing", done.err)
        run = self.show(self.newest())
        self.assertEqual((run["status"], run["exitCode"]), ("Failed", 3))
        self.assertEqual(self.log_of(run["id"]), "looking\nno such thing\n")

    def test_one_that_fails_is_tried_again_where_the_run_may_be(self):
        done = self.run_cli("submit", "--max-retries", "1", "--preparation",
                            "echo try $TRAINYARD_ATTEMPT; [ $TRAINYARD_ATTEMPT = 2 ]", "--", "echo", "started")
        self.assertEqual((done.code, done.out), (0, "started\n"), done)
        run = self.newest()
        self.assertEqual((self.log_of(run), self.log_of(run, "system_logs/preparation-2.txt")), ("try 1\n", "try 2\n"))

    def test_a_cancel_reaches_it_and_its_log_is_read_meanwhile(self):
        run = self.submit("--preparation", "trap 'echo tidied; exit 0' TERM; echo up; while :; do sleep 0.05; done",
                          "--", "echo", "started")
        wait_until(lambda: self.log_of(run) == "up\n", "what it prints to be read")
        shown = self.show(run)
        self.assertEqual(shown["status"], "Preparing")
        self.assertIn("job preparation", shown["reason"])
        self.ok("run", "cancel", run)
        self.assertEqual(self.finish(run)["status"], "Canceled")
        self.assertEqual((self.log_of(run), self.console(run)), ("up\ntidied\n", ""))

    def test_the_time_limit_counts_it(self):
        done = self.run_cli("submit", "--time", "1", "--preparation", "exec sleep 1000", "--", "echo", "started")
        self.assertEqual((done.code, done.out), (1, ""), done)
        self.assertIn("time limit", done.err)

    def test_a_supervisor_killed_in_it_leaves_nothing_and_the_run_goes_on(self):
        mark = self.scratch / "tries"
        run = self.submit("--preparation", f"echo try >> {mark}; [ $TRAINYARD_ATTEMPT = 2 ] || exec sleep 1000",
                          "--", "echo", "started")
        wait_until(mark.exists, "it to begin")
        os.kill(self.supervisor_of(run), signal.SIGKILL)
        self.assertEqual(self.finish(run)["status"], "Completed")
        self.assertEqual((mark.read_text(), self.console(run)), ("try\ntry\n", "started\n"))

    def test_in_a_virtual_environment_it_finds_its_packages(self):
        wheels = self.scratch / "wheels"
        wheel(wheels, "apple", "1.0", scripts={"apple-say": "apple:main"})
        self.write("requirements.txt", f"--no-index\n--find-links {wheels}\napple\n")
        done = self.run_cli("submit", "--requirements", "requirements.txt", "--preparation",
                            "apple-say > made; python -c 'import apple; print(apple.version)'", "--", "cat", "made")
        self.assertEqual((done.code, done.out), (0, "apple 1.0\n"), done)
        self.assertEqual(self.log_of(self.newest()), "1.0\n")

    def test_a_run_configuration_has_one(self):
        self.write("train.py", "print(open('made').read())")
        self.write(".azureml/local.runconfig",
                   "script: train.py\nenvironment:\n  docker:\n    enabled: true\n    preparation:\n"
                   "      commandLine: echo by the file > made\n  python: {userManagedDependencies: true}\n")
        done = self.run_cli("run", "submit-script", "-c", "local")
        self.assertEqual((done.code, done.out.strip()), (0, "by the file"), done)

    def test_bad_input_is_refused(self):
        self.assertIn("too long", self.refused(2, "submit", "--preparation", "x" * 70_000, "--", "true"))


class Bubblewrap(Logs, YardTest):
    @classmethod
    def setUpClass(cls):
        skip_without("bwrap")
        cls.images = pathlib.Path(tempfile.mkdtemp(prefix="yard-images-"))
        cls.addClassCleanup(shutil.rmtree, cls.images, ignore_errors=True)
        cls.tar = cls.images / "busybox.tar"
        make_busybox_root(cls.tar)

    def setUp(self):
        super().setUp()
        self.env["TRAINYARD_CONTAINER_RUNTIME"] = "bubblewrap"
        self.env["DOCKER_HOST"] = "unix:///no-such-socket"
        self.image = f"rootfs:{self.tar}"

    def test_it_is_in_the_container_and_its_failure_is_told(self):
        done = self.run_cli("submit", "--image", self.image, "--preparation",
                            "ls /bin/busybox > made; echo $TRAINYARD_RUN_ID", "--", "cat", "made")
        self.assertEqual((done.code, done.out), (0, "/bin/busybox\n"), done)
        run = self.newest()
        self.assertEqual(self.log_of(run), run + "\n")
        done = self.run_cli("submit", "--image", self.image, "--preparation", "apt-get update", "--", "true")
        self.assertEqual(done.code, 127, done)
        self.assertIn("job preparation ended with 127: ", done.err)

    def test_what_it_installs_the_ranks_find_and_the_next_run_does_not(self):
        install = "printf '#!/bin/sh\necho added $RANK' > /bin/added; chmod 755 /bin/added"
        run = self.finish(self.submit("--image", self.image, "--processes-per-node", "2", "--preparation", install,
                                      "--", "added"))
        self.assertEqual(run["status"], "Completed", run)
        consoles = [self.ok("run", "logs", run["id"], "--rank", str(rank)) for rank in range(2)]
        self.assertEqual(consoles, ["added 0\n", "added 1\n"])
        wait_until(lambda: not list(self.home.glob("node/*/*.layer")), "its layer to be removed")
        self.assertEqual(self.run_cli("submit", "--image", self.image, "--", "added").code, 127)

    def test_a_cancel_reaches_it(self):
        run = self.submit("--image", self.image, "--preparation",
                          "trap 'echo tidied; exit 0' TERM; echo up; while :; do sleep 0.05; done", "--", "true")
        wait_until(lambda: self.log_of(run) == "up\n", "it to begin")
        self.ok("run", "cancel", run)
        self.assertEqual(self.finish(run)["status"], "Canceled")
        self.assertEqual(self.log_of(run), "up\ntidied\n")


class Engines:
    """The rules, for each engine."""

    engine_type = None

    @classmethod
    def setUpClass(cls):
        cls.engine = cls.engine_type()
        cls.addClassCleanup(cls.engine.down)
        cls.engine.up()
        cls.engine.add_busybox("tiny")

    def setUp(self):
        super().setUp()
        self.env["DOCKER_HOST"] = self.engine.url
        self.env["TRAINYARD_CONTAINER_RUNTIME"] = self.engine.name
        self.addCleanup(lambda: self.assertEqual(self.engine.containers(), []))

    def test_it_is_in_the_container_and_its_failure_is_told(self):
        done = self.run_cli("submit", "--image", "tiny", "--preparation",
                            "ls /bin/busybox > made; echo $TRAINYARD_RUN_ID", "--", "cat", "made")
        self.assertEqual((done.code, done.out), (0, "/bin/busybox\n"), done)
        run = self.newest()
        self.assertEqual(self.log_of(run), run + "\n")
        done = self.run_cli("submit", "--image", "tiny", "--preparation", "echo broken; exit 9", "--", "true")
        self.assertEqual(done.code, 9, done)
        self.assertIn("job preparation ended with 9: broken", done.err)

    def test_what_it_installs_the_ranks_find_and_the_next_run_does_not(self):
        install = "printf '#!/bin/sh\necho added $RANK' > /bin/added; chmod 755 /bin/added"
        run = self.finish(self.submit("--image", "tiny", "--processes-per-node", "2", "--preparation", install,
                                      "--", "added"))
        self.assertEqual(run["status"], "Completed", run)
        consoles = [self.ok("run", "logs", run["id"], "--rank", str(rank)) for rank in range(2)]
        self.assertEqual(consoles, ["added 0\n", "added 1\n"])
        self.assertNotIn("trainyard-kept", self.engine.cli("images"))
        self.assertEqual(self.run_cli("submit", "--image", "tiny", "--", "added").code, 127)

    def test_a_cancel_reaches_it(self):
        run = self.submit("--image", "tiny", "--preparation",
                          "trap 'echo tidied; exit 0' TERM; echo up; while :; do sleep 0.05; done", "--", "true")
        wait_until(lambda: self.log_of(run) == "up\n", "it to begin")
        self.ok("run", "cancel", run)
        self.assertEqual(self.finish(run)["status"], "Canceled")
        self.assertEqual(self.log_of(run), "up\ntidied\n")


    def test_what_it_installs_goes_with_a_killed_supervisor_too(self):
        run = self.submit("--image", "tiny", "--preparation", "echo > /added", "--", "sh", "-c",
                          "ls /added; exec sleep 1000")
        wait_until(lambda: self.console(run) == "/added\n", "the rank to run")
        self.assertIn("trainyard-kept", self.engine.cli("images"))
        os.kill(self.supervisor_of(run), signal.SIGKILL)
        self.assertEqual(self.finish(run)["status"], "Failed")
        self.assertNotIn("trainyard-kept", self.engine.cli("images"))


class OfDocker(Engines, Logs, YardTest):
    engine_type = Docker


class OfPodman(Engines, Logs, YardTest):
    engine_type = Podman


class Slurm(Logs, LabTest):
    LAB = {"nodes": 2}
    TARGET = ("--max-nodes", "2")

    def run_on_both(self, preparation, *words):
        run = self.submit("--target", "lab", "--nodes", "2", "--processes-per-node", "2", "--preparation", preparation,
                          "--", *words)
        return self.finish(run, seconds=120)

    def test_it_runs_once_on_each_node(self):
        run = self.run_on_both("echo $SLURMD_NODENAME >> made; echo node $NODE_RANK", "cat", "made")
        self.assertEqual(run["status"], "Completed", run)
        consoles = [self.ok("run", "logs", run["id"], "--rank", str(rank)) for rank in range(4)]
        self.assertEqual((consoles[0], consoles[2]), (consoles[1], consoles[3]))
        self.assertEqual([len(one.split()) for one in consoles], [1, 1, 1, 1])
        self.assertNotEqual(consoles[0], consoles[2])
        self.assertEqual(self.log_of(run["id"]), "node 0\n")
        self.assertEqual(self.log_of(run["id"], "system_logs/preparation-node-1.txt"), "node 1\n")

    def test_a_node_where_it_fails_keeps_all_from_starting(self):
        run = self.run_on_both("if [ $NODE_RANK = 1 ]; then echo broken; exit 6; fi; sleep 1000", "echo", "started")
        self.assertEqual((run["status"], run["exitCode"]), ("Failed", 6), run)
        self.assertRegex(run["error"], "^job preparation ended with 6 on node .*: broken$")
        for rank in range(4):
            self.assertEqual(self.ok("run", "logs", run["id"], "--rank", str(rank)), "")


if __name__ == "__main__":
    main()
