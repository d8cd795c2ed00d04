"""Runs in containers of a real docker and a real podman: the whole way, as people go it."""
import http.server
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import engines
from yard import YardTest, main, wait_until


MPI = r"""
#include <mpi.h>
#include <stdio.h>
int main(int count, char** words) {
  MPI_Init(&count, &words);
  int rank, size, sum;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  printf("rank %d of %d, sum %d, %s\n", rank, size, sum, fopen("/bin/busybox", "r") ? "inside" : "outside");
  MPI_Finalize();
  return 0;
}
"""


class Containers:
    """The rules, for each engine."""

    engine_type = None

    @classmethod
    def setUpClass(cls):
        cls.engine = cls.engine_type()
        cls.addClassCleanup(cls.engine.down)
        cls.engine.up()
        cls.engine.add_busybox("tiny", "ENV FROM_IMAGE=yes")

    def setUp(self):
        super().setUp()
        self.env["DOCKER_HOST"] = self.engine.url
        self.env["TRAINYARD_CONTAINER_RUNTIME"] = self.engine.name
        self.addCleanup(lambda: self.assertEqual(self.engine.containers(), []))

    def run_in(self, image, *words, code=0, options=()):
        """Submits and waits -> the run."""
        run = self.finish(self.submit("--image", image, *options, *(["--", *words] if words else [])))
        self.assertEqual(run["exitCode"], code, run)
        return run

    def build_log(self, run, name="system_logs/environment.txt"):
        return self.ok("run", "cp", f"{run['id']}:{name}", "-")

    def create(self, file):
        """A run of a job file, at its end."""
        return self.finish(self.json("job", "create", "-f", file)["id"])

    # ---- what a run has ----

    def test_a_run_is_in_the_image_with_its_code_its_variables_and_its_outputs(self):
        self.write("say.sh", "echo $FROM_IMAGE $GIVEN; test -e /bin/busybox && echo inside; pwd\n"
                             "mkdir -p outputs; echo made > outputs/result; id -u\n")
        run = self.run_in("tiny", "sh", "say.sh", options=("--env-var", "GIVEN=too"))
        self.assertEqual(run["status"], "Completed")
        lines = self.console(run["id"]).splitlines()
        self.assertEqual(lines[:2] + lines[3:], ["yes too", "inside", str(os.getuid())])
        self.ok("run", "download", run["id"], "-d", str(self.scratch / "got"))
        made = self.scratch / "got" / "outputs" / "result"
        self.assertEqual(made.read_text(), "made\n")
        self.assertEqual(made.stat().st_uid, os.getuid())

    def test_an_image_that_was_used_before_costs_nothing(self):
        first = self.run_in("tiny", "true")
        again = self.run_in("tiny", "true")
        self.assertEqual(first["environment"]["hash"], again["environment"]["hash"])
        environments = list((self.home / "environments").glob("*/environment.json"))
        self.assertEqual(len(environments), 1)
        lock = json.loads(environments[0].read_text())["lock"]
        self.assertTrue(lock[0].startswith("sha256:"), lock)

    def test_an_image_without_a_command_runs_its_own(self):
        self.engine.add_busybox("own", 'ENTRYPOINT ["sh", "-c"]', 'CMD ["echo own in $PWD"]', "WORKDIR /usr/bin")
        run = self.run_in("own")
        self.assertEqual(self.console(run["id"]), "own in /usr/bin\n")

    def test_folders_of_the_machine_are_where_arguments_say(self):
        data = self.scratch / "data"
        data.mkdir()
        (data / "x").write_text("given\n")
        run = self.run_in("tiny", "sh", "-c", "cat /data/x; echo kept > /data/y; echo $E",
                          options=("--docker-arg", f"-v {data}:/data", "--docker-arg", "-e E=e"))
        self.assertEqual(self.console(run["id"]), "given\ne\n")
        self.assertEqual((data / "y").read_text(), "kept\n")

    def test_every_rank_has_a_container_of_its_own(self):
        run = self.run_in("tiny", "sh", "-c", "echo rank $RANK of $WORLD_SIZE", options=(
            "--processes-per-node", "3", "--distribution", "pytorch"))
        lines = [self.ok("run", "logs", run["id"], "--rank", str(rank)) for rank in range(3)]
        self.assertEqual(lines, [f"rank {rank} of 3\n" for rank in range(3)])

    def test_a_rank_that_fails_ends_the_others(self):
        run = self.run_in("tiny", "sh", "-c", "[ $RANK = 1 ] && exit 5; sleep 300", code=5, options=(
            "--processes-per-node", "2", "--distribution", "pytorch"))
        self.assertEqual(run["status"], "Failed")
        self.assertEqual(self.engine.containers(), [])

    def test_ranks_of_mpi_meet_though_each_is_in_a_container(self):
        if not os.path.exists("/usr/bin/mpicc"):
            self.skipTest("skipped: there is no mpicc here; install libopenmpi-dev")
        self.write("hello.c", MPI)
        subprocess.run(["/usr/bin/mpicc", "-o", "hello", "hello.c"], cwd=self.code, check=True)
        # The machine's own MPI is shown inside: the image has none.
        shown = [word for path, inside in (("/usr", "/usr"), ("/usr/lib", "/lib"), ("/usr/lib64", "/lib64"),
                                           ("/etc", "/etc")) for word in ("--docker-arg", f"-v {path}:{inside}:ro")]
        run = self.run_in("tiny", "./hello", options=("--processes-per-node", "2", "--distribution", "mpi", *shown))
        lines = [self.ok("run", "logs", run["id"], "--rank", str(rank)) for rank in range(2)]
        self.assertEqual(lines, [f"rank {rank} of 2, sum 1, inside\n" for rank in range(2)])

    def test_what_the_program_uses_is_counted_though_an_engine_has_it(self):
        spin = "i=0; while [ $i -lt 400000 ]; do i=$((i + 1)); done; echo held; sleep 1"
        run = self.run_in("tiny", "sh", "-c", "x=$(head -c 64000000 /dev/zero | tr '\\0' x); " + spin)
        [attempt] = run["attempts"]
        self.assertGreaterEqual(attempt["memoryPeakBytes"], 64_000_000)
        self.assertGreater(attempt["cpuSeconds"], 0.5)

    # ---- images that are made ----

    def test_a_dockerfile_is_built_once_and_its_log_is_a_log_of_the_run(self):
        self.write("image/Dockerfile", "FROM tiny\nCOPY what /what\nRUN echo building; cat /what > /made\n")
        self.write("image/what", "from the folder\n")
        self.write("job.yml", "command: cat /made\nenvironment:\n  build:\n    path: image\n")
        run = self.create("job.yml")
        self.assertIn("from the folder", self.console(run["id"]))
        log = self.build_log(run, "azureml-logs/20_image_build_log.txt")
        self.assertIn("RUN echo building", log)
        self.create("job.yml")
        self.assertEqual(len(list((self.home / "environments").glob("*/environment.json"))), 1)

    def test_a_dockerfile_alone_is_a_job(self):
        self.write("Dockerfile", "FROM tiny\nWORKDIR /app\nCOPY . .\nRUN mkdir models\nCMD sh main.sh\n")
        self.write("main.sh", "pwd; echo made | tee models/m > outputs/o\n")
        self.write("job.yml", "environment:\n  build:\n    path: .\n")
        self.write("image.runconfig", "environment:\n  docker:\n    enabled: true\n    baseDockerfile: Dockerfile\n")
        run = self.create("job.yml")
        self.assertEqual((run["exitCode"], self.console(run["id"])), (0, "/app\n"), run)
        done = self.run_cli("run", "submit-script", "-c", "image")
        self.assertEqual((done.code, done.out), (0, "/app\n"), done)
        # What is bound over a folder of the image outlives every container.
        models = self.scratch / "models"
        models.mkdir()
        run = self.finish(self.json("job", "create", "-f", "job.yml", "--set",
                                    f"resources.docker_args=-v {models}:/app/models")["id"])
        self.assertEqual((run["exitCode"], (models / "m").read_text()), (0, "made\n"), run)

    def test_a_dockerfile_that_fails_shows_its_step(self):
        self.write("image/Dockerfile", "FROM tiny\nRUN echo the reason; exit 3\n")
        self.write("job.yml", "command: 'true'\nenvironment:\n  build:\n    path: image\n")
        run = self.create("job.yml")
        self.assertEqual(run["status"], "Failed")
        text = json.dumps(run)
        self.assertIn("2/2", text)
        self.assertIn("exit 3", text)
        log = self.build_log(run)
        self.assertIn("the reason", log)

    def test_an_image_that_was_removed_from_the_engine_is_made_again(self):
        self.write("image/Dockerfile", "FROM tiny\nRUN echo again > /made\n")
        self.write("job.yml", "command: cat /made\nenvironment:\n  build:\n    path: image\n")
        hash_ = self.create("job.yml")["environment"]["hash"]
        self.engine.cli("rmi", "-f", f"trainyard/env:{hash_[:12]}")
        run = self.create("job.yml")
        self.assertEqual((run["status"], run["environment"]["hash"]), ("Completed", hash_), run)
        self.assertEqual(self.console(run["id"]), "again\n")
        self.assertIn("echo again", self.build_log(run))

    def test_an_environment_that_makes_room_takes_its_image_along(self):
        self.ok("server", "start", "--environments-max", "1")

        def named(text):
            self.write("image/Dockerfile", f"FROM tiny\nRUN echo {text} > /made\n")
            self.write("job.yml", "command: cat /made\nenvironment:\n  build:\n    path: image\n")
            run = self.create("job.yml")
            self.assertEqual(run["status"], "Completed", run)
            return f"trainyard/env:{run['environment']['hash'][:12]}"
        first = named("first")
        self.assertTrue(self.engine.cli("images", "-q", first))
        second = named("second")
        wait_until(lambda: not self.engine.cli("images", "-q", first), "the first to be gone")
        self.assertTrue(self.engine.cli("images", "-q", second))
        self.assertTrue(self.engine.cli("images", "-q", "tiny"))

    # ---- how it ends ----

    def test_the_exit_code_is_the_runs(self):
        done = self.run_cli("submit", "-e", "test", "--image", "tiny", "--", "sh", "-c", "echo oh; exit 7")
        self.assertEqual(done.code, 7, done)
        self.assertIn("oh\n", done.out)

    def test_a_cancelled_run_may_clean_up_and_its_container_is_gone(self):
        run = self.submit("--image", "tiny", "--", "sh", "-c",
                          "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done")
        wait_until(lambda: self.console(run) == "up\n", "the container to be up")
        self.ok("run", "cancel", run)
        self.assertEqual(self.finish(run)["status"], "Canceled")
        self.assertEqual(self.console(run), "up\nbye\n")
        self.assertEqual(self.engine.containers(), [])

    def test_out_of_memory_is_told_as_such(self):
        run = self.finish(self.submit("--image", "tiny", "--mem", "32M", "--", "sh", "-c",
                                      "x=x; while :; do x=$x$x; done"))
        self.assertEqual(run["status"], "Failed")
        self.assertIn("out of memory", json.dumps(run))

    def test_what_a_dead_engine_leaves_is_ended_when_it_is_back(self):
        run = self.submit("--image", "tiny", "--", "sh", "-c", "echo up; sleep 300")
        wait_until(lambda: self.console(run) == "up\n", "the container to be up")
        self.end_engine()
        ended = self.finish(run)
        self.assertEqual(ended["status"], "Failed")
        self.engine.start()
        wait_until(lambda: self.engine.containers() == [], "its container to be removed", 30)

    def test_an_unprivileged_submitter_is_known_inside(self):
        if os.geteuid() != 0:
            self.skipTest("skipped: only root can be somebody else")
        self.engine.socket.chmod(0o666)
        for folder in (self.scratch, self.code):
            os.chown(folder, 65534, 65534)
        words = "id -u; id -G; id -un; id -gn; echo $USER $LOGNAME $HOME; echo kept > outputs/file"
        done = self.run_cli("submit", "-e", "test", "--image", "tiny", "--", "sh", "-c", words,
                            user=65534, group=65534, extra_groups=[54321])
        self.assertEqual(done.code, 0, done)
        self.assertEqual(done.out.splitlines(), ["65534", "65534 54321", "nobody", "nogroup", "nobody nobody /tmp"])

    def test_a_killed_supervisor_leaves_no_container(self):
        run = self.submit("--image", "tiny", "--", "sh", "-c", "echo up; sleep 300")
        wait_until(lambda: self.console(run) == "up\n", "the container to be up")
        os.kill(self.supervisor_of(run), signal.SIGKILL)
        self.assertEqual(self.finish(run)["status"], "Failed")
        self.assertEqual(self.engine.containers(), [])

    # ---- what cannot be ----

    def test_an_image_that_cannot_be_had_is_told_in_the_engines_words(self):
        run = self.finish(self.submit("--image", "127.0.0.1:1/no/such:1", "--", "true"), seconds=120)
        self.assertEqual(run["status"], "Failed")
        self.assertIn("127.0.0.1:1/no/such", json.dumps(run))

    def test_arguments_that_are_not_taken_are_refused_at_once(self):
        error = self.refused(2, "submit", "-e", "test", "--image", "tiny", "--docker-arg=--privileged", "--", "true")
        self.assertIn("--privileged", error)
        error = self.refused(2, "submit", "-e", "test", "--image", "tiny", "--docker-arg", "-v C:\\data:/data", "--",
                             "true")
        self.assertIn("Windows", error)

    def say_which(self, image):
        """What the image's variable says in a run of it, and the run."""
        run = self.run_in(image, "sh", "-c", "echo $WHICH")
        return self.console(run["id"]).strip(), run

    def test_an_image_that_was_built_again_is_used_by_the_next_submit(self):
        for which in ("first", "second"):
            self.engine.add_busybox("moving:1", f"ENV WHICH={which}")
            said, run = self.say_which("moving:1")
            self.assertEqual(said, which)
            self.assertRegex(run["environment"]["imageDigest"], "^sha256:[0-9a-f]{64}$")
        first = self.json("run", "list")[-1]
        self.assertNotEqual(first["environment"]["imageDigest"], run["environment"]["imageDigest"])
        self.assertEqual(run["warnings"], [])


class Docker(Containers, YardTest):
    engine_type = engines.Docker

    def end_engine(self):
        self.engine.stop()  # Killed, it could not be started again beside what it left.

    def test_no_engine_says_what_to_start(self):
        self.env["DOCKER_HOST"] = f"unix://{self.scratch}/none.sock"
        self.write("image/Dockerfile", "FROM tiny\n")
        self.write("job.yml", "command: 'true'\nenvironment:\n  build:\n    path: image\n")
        run = self.create("job.yml")
        self.assertEqual(run["status"], "Failed")
        self.assertIn("start docker", json.dumps(run))

    def test_packages_are_put_upon_an_image(self):
        self.engine.add_tar(engines.debian_root(), "debian-python")
        index = Index(self)
        index.add("yardling", "1.5")
        self.env["PIP_INDEX_URL"] = index.url
        for name in ("PIP_CERT", "SSL_CERT_FILE", "https_proxy", "http_proxy", "HTTPS_PROXY", "HTTP_PROXY"):
            self.env.pop(name, None)
        self.write("requirements.txt", "yardling==1.5\ntrainyard  # left out\n")
        run = self.run_in("debian-python", "python3", "-c", "import yardling; print(yardling.version)",
                          options=("--requirements", "requirements.txt"))
        self.assertIn("1.5\n", self.console(run["id"]))
        self.write("bad.txt", "# one\nyardling==9\n")
        run = self.finish(self.submit("--image", "debian-python", "--requirements", "bad.txt", "--", "true"))
        self.assertEqual(run["status"], "Failed")
        self.assertIn("bad.txt:2", json.dumps(run))


    def test_a_tag_that_was_pushed_again_is_used_and_the_copy_here_where_the_registry_is_silent(self):
        registry = engines.Registry()
        self.addCleanup(registry.down)
        registry.up()
        image = f"{registry.address}/moving:1"
        for which in ("first", "second"):
            self.engine.add_busybox(image, f"ENV WHICH={which}")
            self.engine.cli("push", *(["--tls-verify=false"] if self.engine.name == "podman" else []), image)
            self.engine.cli("rmi", image)
            said, run = self.say_which(image)
            self.assertEqual(said, which)
            self.assertEqual(run["warnings"], [])
        digest = run["environment"]["imageDigest"]
        registry.process.kill()
        registry.process.wait()
        self.kill_server()  # Its memory of a moment ago goes too.
        said, run = self.say_which(image)
        self.assertEqual((said, run["environment"]["imageDigest"]), ("second", digest))
        self.assertIn("the copy that is here is used", run["warnings"][0])

    def test_an_image_of_a_private_registry_comes_with_its_password(self):
        registry = engines.Registry(password="open sesame")
        self.addCleanup(registry.down)
        registry.up()
        image = f"{registry.address}/private/tiny:1"
        self.engine.cli("login", "-u", registry.user, "-p", registry.password, registry.address)
        self.engine.cli("tag", "tiny", image)
        self.engine.cli("push", image)
        self.engine.cli("logout", registry.address)
        self.engine.cli("rmi", image)
        self.write("say.sh", "echo inside\n")
        for name, password in (("good", registry.password), ("bad", "wrong")):
            self.write(f".azureml/{name}.runconfig", json.dumps({
                "command": "sh say.sh", "target": "local", "environment": {"docker": {
                    "enabled": True, "baseImage": image, "baseImageRegistry": {
                        "address": registry.address, "username": registry.user, "password": password}},
                    "python": {"userManagedDependencies": True}}}))
        bad = self.run_cli("run", "submit-script", "-c", "bad", "-e", "test")
        self.assertNotEqual(bad.code, 0, bad)
        self.assertIn(image, bad.err)
        good = self.run_cli("run", "submit-script", "-c", "good", "-e", "test")
        self.assertEqual((good.code, good.out), (0, "inside\n"), good)
        kept = subprocess.run(["grep", "-r", "-l", registry.password, str(self.home)], capture_output=True, text=True,
                              check=False).stdout
        self.assertEqual(kept, "", "the password is nowhere in clear")
        # What the password has fetched is not there for who names the image without it.
        without = self.finish(self.submit("--image", image, "--", "true"))
        self.assertEqual(without["status"], "Failed", without)


class Podman(Containers, YardTest):
    engine_type = engines.Podman

    def end_engine(self):
        self.engine.daemon.kill()
        self.engine.daemon.wait()


class Silent(YardTest):
    """An engine that takes connections and does not answer."""

    def setUp(self):
        super().setUp()
        self.listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(self.listener.close)
        place = self.scratch / "sock"
        self.listener.bind(str(place))
        self.listener.listen(100)
        self.env["DOCKER_HOST"] = f"unix://{place}"

    def test_it_is_told_within_seconds(self):
        finding = next(f for f in self.json("doctor", timeout=30) if f["name"] == "containers")
        self.assertEqual(finding["status"], "warn")
        self.assertIn(str(self.scratch / "sock"), finding["message"])
        self.env["TRAINYARD_CONTAINER_RUNTIME"] = "docker"
        done = self.run_cli("submit", "-e", "test", "--image", "tiny", "--", "true", timeout=30)
        self.assertEqual(done.code, 1, done)
        self.assertIn("no docker answers here", done.err)
        self.assertNotIn("was built", done.err)


class Index:
    """A package index on this machine."""

    def __init__(self, test):
        self.folder = test.scratch / "index"
        self.folder.mkdir()
        folder = str(self.folder)

        class Files(http.server.SimpleHTTPRequestHandler):
            def __init__(self, *words):
                super().__init__(*words, directory=folder)

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Files)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        test.addCleanup(server.server_close)
        test.addCleanup(server.shutdown)
        self.url = f"http://127.0.0.1:{server.server_address[1]}"

    def add(self, name, version):
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        info = f"{name}-{version}.dist-info"
        with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{name}.py", f"version = '{version}'\n")
            wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", f"{name}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")


if __name__ == "__main__":
    main()
