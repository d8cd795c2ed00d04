"""Images on machines that did not make them: a joined machine with an engine of its own, with another, or with none.

The server's engine makes the image; the machine fetches its files and shows them by bubblewrap, or gives them to the
engine it has. A second home plays the machine (tests/e2e/machines.py)."""
import os
import pathlib
import shutil
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import engines
import machines
from yard import YardTest, alive, main, wait_until

NONE = "unix:///no-such-socket"
WHICH = ("sh", "-c", "test -e /.dockerenv && echo docker || echo bubblewrap")


class Elsewhere(machines.Yard):
    @classmethod
    def setUpClass(cls):
        cls.engine = cls.started(engines.Docker())
        cls.engine.add_busybox("tiny", "ENV FROM_IMAGE=yes")

    @classmethod
    def started(cls, engine):
        cls.addClassCleanup(engine.down)
        return engine.up()

    def serve(self, *more):
        self.env["DOCKER_HOST"] = self.engine.url
        super().serve(*more)

    def join_with(self, docker_host, **variables):
        """The machine, with that engine; also again, with another."""
        for daemon in self.daemons(self.box):
            os.kill(daemon, signal.SIGTERM)
            wait_until(lambda: not alive(daemon), "the daemon to end")
        env = dict(variables, TRAINYARD_HOME=str(self.box), TRAINYARD_TOKEN=self.token(), DOCKER_HOST=docker_host)
        done = self.run_cli("node", "join", "--server", self.url, "--name", "box", env=env)
        self.assertEqual(done.code, 0, done)

    def run_there(self, *words, image="tiny", options=()):
        """-> what it prints."""
        done = self.run_cli("submit", "-e", "test", "--target", "box", "--image", image, *options,
                            *(["--", *words] if words else []))
        self.assertEqual(done.code, 0, f"{done}\n{self.ok('run', 'list')}")
        return done.out

    def kept(self):
        """The environments of the machine, by folder."""
        return [path.parent for path in self.box.glob("machines/*/node/.environments/*/environment.json")]

    def given(self, engine):
        """The images that an engine was given by us."""
        lines = engine.cli("images", "--format", "{{.Repository}}:{{.Tag}}").split()
        return [line.split("/", 1)[-1] if line.startswith(("localhost/", "docker.io/")) else line
                for line in lines if "trainyard/env:" in line]


class Engines(Elsewhere):
    """Machines with an engine that never had the image."""

    def takes_it_in(self, engine):
        self.join_with(engine.url)
        said = self.run_there("sh", "-c", "echo $FROM_IMAGE; test -e /bin/busybox && echo inside; "
                              "echo x > outputs/x; echo x > /tmp/x && id -u")
        self.assertEqual(said.split(), ["yes", "inside", str(os.getuid())])
        [name] = self.given(engine)
        self.assertEqual(self.run_there("echo", "again"), "again\n")
        self.assertEqual(self.given(engine), [name], "it is given once")
        # What was pruned there is made again of the files that are here.
        engine.cli("rmi", "-f", name)
        self.assertEqual(self.run_there("echo", "pruned"), "pruned\n")
        self.assertEqual(self.given(engine), [name])
        self.assertEqual(engine.containers(), [])
        self.assertEqual(len(self.kept()), 1)

    def test_docker_is_given_the_image_once(self):
        self.takes_it_in(self.started(engines.Docker()))

    def test_podman_is_given_the_image_once(self):
        self.takes_it_in(self.started(engines.Podman()))

    def test_an_image_without_a_command_runs_its_own_there_too(self):
        self.engine.add_busybox("own", 'ENTRYPOINT ["sh", "-c"]', 'CMD ["echo own $SAID in $PWD"]',
                                'ENV SAID="two words"', "WORKDIR /usr/bin")
        self.join_with(self.started(engines.Docker()).url)
        self.assertEqual(self.run_there(image="own"), "own two words in /usr/bin\n")

    def test_of_an_image_that_the_engine_has_nothing_is_fetched_until_it_is_needed(self):
        self.join_with(self.engine.url)  # The server's own: it has the very image.
        self.assertEqual(self.run_there("echo", "$0"), "$0\n")
        [folder] = self.kept()
        self.assertFalse((folder / "root").exists())
        if not shutil.which("bwrap", path=engines.PATH):
            return
        self.join_with(NONE)
        self.assertEqual(self.run_there("sh", "-c", "echo $FROM_IMAGE"), "yes\n")
        self.assertTrue((folder / "root").exists())


class Runtimes(Elsewhere):
    """Which of two a machine uses."""

    def setUp(self):
        engines.skip_without("bwrap")
        super().setUp()

    def test_a_machine_without_an_engine_uses_bubblewrap_and_gives_its_files_to_one_that_comes(self):
        self.join_with(NONE)
        self.assertEqual(self.run_there(*WHICH), "bubblewrap\n")
        docker = self.started(engines.Docker())
        self.join_with(docker.url)
        self.assertEqual(self.run_there(*WHICH), "docker\n")
        self.assertEqual(len(self.given(docker)), 1)

    def test_a_machine_with_both_uses_the_engine_unless_it_is_told_otherwise(self):
        docker = self.started(engines.Docker())
        self.join_with(docker.url)
        self.assertEqual(self.run_there(*WHICH, options=("--docker-arg", "--cap-add SYS_PTRACE")), "docker\n")
        self.join_with(docker.url, TRAINYARD_CONTAINER_RUNTIME="bubblewrap")
        self.assertEqual(self.run_there(*WHICH), "bubblewrap\n")
        # The run's own word is the last.
        self.assertEqual(self.run_there(*WHICH, options=(
            "--env-var", "TRAINYARD_CONTAINER_RUNTIME=docker", "--env-var", f"DOCKER_HOST={docker.url}")), "docker\n")

    def test_a_machine_with_neither_says_what_to_start(self):
        self.join_with(NONE, PATH=str(self.without("bwrap")))
        done = self.run_cli("submit", "-e", "test", "--target", "box", "--image", "tiny", "--", "true")
        self.assertNotEqual(done.code, 0)
        self.assertIn("there is no bubblewrap on", done.err + done.out)
        self.assertIn("start docker or podman", done.err + done.out)

    def without(self, *programs):
        """A folder of the machine's programs but these."""
        folder = self.scratch / "programs"
        folder.mkdir()
        for name in os.listdir("/usr/bin"):
            if name not in programs:
                (folder / name).symlink_to(f"/usr/bin/{name}")
        return folder


class Later(YardTest):
    """An engine that came after the image had been unpacked, on the server's own machine."""

    def test_it_is_given_what_was_unpacked_without_it(self):
        engines.skip_without("bwrap")
        tar = self.scratch / "busybox.tar"
        engines.make_busybox_root(tar)
        self.env["DOCKER_HOST"] = NONE
        words = ("submit", "-e", "test", "--image", f"rootfs:{tar}")
        self.assertEqual(self.ok(*words, "--", *WHICH), "bubblewrap\n")
        docker = engines.Docker()
        self.addCleanup(docker.down)
        docker.up()
        for _ in range(2):
            said = self.ok(*words, "--env-var", f"DOCKER_HOST={docker.url}", "--", *WHICH)
            self.assertEqual(said, "docker\n")
        self.assertEqual(len(docker.cli("images", "-q", "trainyard/env").split()), 1)


if __name__ == "__main__":
    main()
