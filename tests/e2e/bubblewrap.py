"""Containers without an engine, and views of a run's own: here, and on nodes of a real Slurm where nobody has rights.

Images are made of busybox, or of a Debian that mmdebstrap makes once on this machine."""
import fcntl
import gzip
import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from engines import Docker, Podman, Registry, make_busybox_root, skip_without
from lab_yard import LabTest
from yard import TRAINYARD, YardTest, main, wait_until

ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)

# Saves on SIGTERM, as a training script does.
SAVE = "trap 'echo saving; sleep 0.2; echo saved > outputs/state; echo saved; exit 0' TERM; echo up; " \
       "while :; do sleep 0.05; done"

# All ranks meet at the first one's address, as PyTorch's do, and learn each other's number.
MEET = """
import os, socket
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    listener = socket.create_server(place)
    lines = [listener.accept()[0] for _ in range(world - 1)]
    total = sum(int(line.recv(10)) for line in lines)
    for line in lines:
        line.sendall(b"%d" % total)
else:
    while True:
        try:
            line = socket.create_connection(place)
            break
        except ConnectionRefusedError:
            pass
    line.sendall(b"%d" % rank)
    total = int(line.recv(10))
print("rank", rank, "of", world, "sum", total, "in", open("/etc/image").read().strip(), "as", os.getuid())
open("outputs/rank-%d" % rank, "w").write(str(total))
"""

MPI = r"""
#include <mpi.h>
#include <stdio.h>
int main(int count, char** words) {
  MPI_Init(&count, &words);
  int rank, size, sum;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  FILE* image = fopen("/etc/image", "r");
  printf("rank %d of %d: sum %d, %s\n", rank, size, sum, image ? "inside" : "outside");
  MPI_Finalize();
  return 0;
}
"""


def write_layout(folder, tar, config):
    """A layout of the OCI with one layer, as skopeo writes it."""
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def add(data, kind):
        digest = hashlib.sha256(data).hexdigest()
        (blobs / digest).write_bytes(data)
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(data)}

    bytes_of = pathlib.Path(tar).read_bytes()
    described = {"architecture": ARCHITECTURE, "os": "linux", "config": config,
                 "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(bytes_of).hexdigest()}"]}}
    manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "config": add(json.dumps(described).encode(), "config.v1+json"),
                "layers": [add(gzip.compress(bytes_of, 1), "layer.v1.tar+gzip")]}
    index = {"schemaVersion": 2, "manifests": [add(json.dumps(manifest).encode(), "manifest.v1+json")]}
    (folder / "index.json").write_text(json.dumps(index))
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')


class Contained(YardTest):
    @classmethod
    def setUpClass(cls):
        skip_without("bwrap")
        super().setUpClass()
        cls.images = pathlib.Path(tempfile.mkdtemp(prefix="yard-images-"))
        cls.addClassCleanup(shutil.rmtree, cls.images, ignore_errors=True)
        cls.tar = cls.images / "busybox.tar"
        make_busybox_root(cls.tar)
        cls.tiny = f"rootfs:{cls.tar}"

    def setUp(self):
        super().setUp()
        self.before_serving()

    def before_serving(self):
        self.env["TRAINYARD_CONTAINER_RUNTIME"] = "bubblewrap"
        self.env["DOCKER_HOST"] = "unix:///no-such-socket"  # Whatever the machine has.

    def inside(self, *words, image=None, **more):
        """Submits and waits."""
        return self.run_cli("submit", "-e", "test", "--image", image or self.tiny, *words, **more)

    def newest(self):
        return self.show(self.json("run", "list")[0]["id"])

    def output(self, run, name):
        folder = self.scratch / f"outputs-{run}"
        self.ok("run", "download", run, "-d", folder)
        return folder / "outputs" / name


class Local(Contained):
    def layers(self):
        return list(self.home.glob("node/*/*.layer"))

    def test_a_command_runs_in_the_image_and_its_outputs_are_the_submitters(self):
        (self.code / "script.sh").write_text("ls /bin/busybox; echo $PATH; echo out > outputs/file; cat script.sh | wc -l")
        done = self.inside("--", "sh", "script.sh")
        self.assertEqual(done.code, 0, done)
        self.assertEqual(done.out.splitlines()[:2], ["/bin/busybox",
                                                     "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"])
        kept = self.output(self.newest()["id"], "file")
        self.assertEqual(kept.read_text(), "out\n")
        self.assertEqual(kept.stat().st_uid, os.getuid())

    def test_an_image_without_a_command_runs_its_own_in_its_own_folder(self):
        write_layout(self.images / "own", self.tar,
                     {"Entrypoint": ["sh", "-c"], "Cmd": ["pwd; echo $GIVEN; echo kept > outputs/file"],
                      "WorkingDir": "/srv/app", "Env": ["GIVEN=by the image", "PATH=/bin"]})
        done = self.inside(image=f"oci:{self.images / 'own'}")
        self.assertEqual(done.code, 0, done)
        self.assertEqual(done.out.splitlines(), ["/srv/app", "by the image"])
        self.assertEqual(self.output(self.newest()["id"], "file").read_text(), "kept\n")

    def test_what_a_run_writes_into_the_image_is_gone_with_it(self):
        write = "echo changed > /etc/mark && mkdir /new && cat /etc/mark"
        self.assertEqual(self.inside("--", "sh", "-c", write).out, "changed\n")
        self.assertEqual(self.inside("--", "sh", "-c", write).out, "changed\n")  # mkdir would fail.
        wait_until(lambda: not self.layers(), "their layers are gone")

    def test_exit_codes_and_signals_are_the_programs_own(self):
        self.assertEqual(self.inside("--", "sh", "-c", "exit 42").code, 42)
        self.assertEqual(self.inside("--", "sh", "-c", "kill -9 $$").code, 137)
        self.assertIn("signal 9", self.newest()["error"])
        done = self.inside("--", "pyhton")
        self.assertEqual(done.code, 127, done)
        self.assertIn("program 'pyhton' was not found in the container", done.err + done.out + self.newest()["error"])

    def test_memory_over_the_limit_is_told_as_such(self):
        done = self.inside("--mem", "32MB", "--", "sh", "-c", "x=x; while :; do x=$x$x; done")
        self.assertEqual(done.code, 137, done)
        self.assertIn("out of memory: the run's limit is 32 MB", done.err)

    def test_a_cancel_lets_the_program_save_and_leaves_nothing(self):
        run = self.submit("--image", self.tiny, "--", "sh", "-c", SAVE)
        wait_until(lambda: "up" in self.console(run), "the program is up", 60)
        self.ok("run", "cancel", run)
        self.assertEqual(self.finish(run)["status"], "Canceled")
        self.assertTrue(self.console(run).endswith("saving\nsaved\n"), self.console(run))
        self.assertEqual(self.output(run, "state").read_text(), "saved\n")

    def test_a_container_whose_supervisor_is_killed_ends_with_it_and_leaves_no_layer(self):
        run = self.submit("--image", self.tiny, "--", "sh", "-c",
                          "echo x > /etc/mark; (sleep 1000 &); echo up; while :; do sleep 0.05; done")
        wait_until(lambda: "up" in self.console(run), "the program is up", 60)
        self.assertEqual(len(self.layers()), 1)
        for supervisor in self.live_supervisors():
            os.kill(supervisor, signal.SIGKILL)
        self.assertEqual(self.finish(run)["status"], "Failed")
        wait_until(lambda: not self.layers(), "its layer is gone")

    def test_arguments_of_docker_are_honoured_or_refused(self):
        data = self.scratch / "data"
        data.mkdir()
        (data / "file").write_text("of the machine\n")
        done = self.inside("--docker-arg", f"-v {data}:/data:ro", "--docker-arg", "-e GIVEN=here",
                           "--docker-arg", "--ulimit nofile=123", "--docker-arg", "--ipc private --shm-size 8m", "--",
                           "sh", "-c", "cat /data/file; echo $GIVEN; ulimit -n; touch /data/new; "
                           "df -k /dev/shm | tail -n 1 | awk '{print $2}'")
        self.assertEqual(done.out.splitlines(), ["of the machine", "here", "123", "8192"], done)
        self.assertFalse((data / "new").exists())
        done = self.inside("--docker-arg", "--network bridge", "--", "true")
        self.assertNotEqual(done.code, 0)
        self.assertIn("--network bridge needs docker or podman", self.newest()["error"])
        done = self.inside("--docker-arg", "-v /no-such:/data", "--", "true")
        self.assertIn("show /no-such as /data: No such file or directory", self.newest()["error"])

    def test_an_image_that_is_damaged_or_not_there_is_told_as_such(self):
        self.assertNotEqual(self.inside("--", "true", image="rootfs:/no-such.tar").code, 0)
        self.assertIn("/no-such.tar", self.newest()["error"])
        broken = self.images / "broken.tar"
        broken.write_bytes(self.tar.read_bytes()[:100_000])
        self.assertNotEqual(self.inside("--", "true", image=f"rootfs:{broken}").code, 0)
        self.assertIn("damaged tar: it ends in the middle", self.newest()["error"])
        self.assertEqual([path for path in (self.home / "environments").iterdir() if path.is_dir()], [])

    def test_an_image_that_changed_under_its_name_is_another(self):
        image = self.scratch / "image.tar"
        root = self.scratch / "root"
        subprocess.run(["mkdir", "-p", root], check=True)
        subprocess.run(["tar", "-xf", self.tar, "-C", root], check=True)

        def pack(word):
            (root / "word").write_text(word)
            subprocess.run(["tar", "-cf", image, "-C", root, "."], check=True)

        def run():
            done = self.inside("--", "cat", "/word", image=f"rootfs:{image}")
            self.assertEqual(done.code, 0, done)
            return done.out, self.newest()
        pack("one")
        said, first = run()
        self.assertEqual(said, "one")
        again, second = run()
        self.assertEqual((again, second["environment"]["hash"]), ("one", first["environment"]["hash"]))
        pack("two")
        said, other = run()
        self.assertEqual(said, "two")
        self.assertNotEqual(other["environment"]["hash"], first["environment"]["hash"])
        # A rerun has what the run had, while that is kept.
        done = self.run_cli("run", "rerun", first["id"])
        self.assertEqual((done.code, done.out), (0, "one"), done)
        # A path from where one is.
        pack("three")
        done = self.inside("--", "cat", "/word", image=f"rootfs:{os.path.relpath(image, self.code)}")
        self.assertEqual((done.code, done.out), (0, "three"), done)

    def test_two_runs_see_their_own_folder_under_one_absolute_path(self):
        self.assertFalse(os.path.exists("/no-such-data"))
        runs = []
        for name in ("one", "two"):
            folder = self.scratch / name
            folder.mkdir()
            (folder / "file").write_text(name)
            runs.append(self.submit("--docker-arg", f"-v {folder}:/no-such-data", "--", "sh", "-c",
                                    "cat /no-such-data/file; id -u; echo more > /no-such-data/by-run; "
                                    "until [ -e /no-such-data/go ]; do sleep 0.05; done; exit 3"))
        for run, name in zip(runs, ("one", "two")):
            wait_until(lambda run=run: self.console(run).count("\n") == 1, "both run at once")
            self.assertEqual(self.console(run), f"{name}{os.getuid()}\n")
        for run, name in zip(runs, ("one", "two")):
            (self.scratch / name / "go").touch()
            ended = self.finish(run)
            self.assertEqual((ended["status"], ended["exitCode"]), ("Failed", 3))
            self.assertEqual((self.scratch / name / "by-run").read_text(), "more\n")
        self.assertFalse(os.path.exists("/no-such-data"))

    def test_a_view_that_would_hide_the_run_is_refused(self):
        self.run_cli("submit", "-e", "test", "--docker-arg", f"-v /etc:{self.scratch}", "--", "true")
        self.assertIn("would hide the run's own folder", self.newest()["error"])

    def test_without_bubblewrap_a_run_says_what_to_install(self):
        bare = self.scratch / "bin"
        bare.mkdir()
        for name in ("sh", "true", "id"):
            (bare / name).symlink_to(shutil.which(name))
        self.env["PATH"] = str(bare)
        self.assertNotEqual(self.inside("--", "true").code, 0)
        run = self.newest()
        self.assertIn("there is no bubblewrap on", run["error"])


    # ---- where the kernel refuses ----

    def asked(self, error):
        """A kernel's refusal, in bubblewrap's words, and what to do about it."""
        self.assertIn("rank 0 exited with code 125: not started: bubblewrap may not make a container on", error)
        self.assertIn("sysctl user.max_user_namespaces=65536", error)

    def test_a_refusal_of_bubblewraps_is_the_runs_error_with_what_to_do(self):
        refusing = self.scratch / "bin"
        refusing.mkdir()
        says = ("bwrap: No permissions to create new namespace, likely because the kernel does not allow "
                "non-privileged user namespaces.")
        (refusing / "bwrap").write_text(f"#!/bin/sh\necho '{says}' >&2\nexit 1\n")
        (refusing / "bwrap").chmod(0o755)
        self.env["PATH"] = f"{refusing}:{self.env['PATH']}"
        self.assertEqual(self.inside("--", "true").code, 125)
        error = self.newest()["error"]
        self.asked(error)
        self.assertIn(says, error)
        self.assertIn("Or start docker or podman there", error)
        self.assertEqual(self.run_cli("submit", "-e", "test", "--docker-arg", "-v /etc:/no-such-data", "--", "true").code, 125)
        error = self.newest()["error"]
        self.asked(error)
        self.assertIn("Or leave out the paths that the run asks for", error)

    def test_what_bubblewrap_could_not_do_for_this_run_alone_is_the_runs_error_too(self):
        picky = self.scratch / "bin"
        picky.mkdir()
        (picky / "bwrap").write_text("#!/bin/sh\ncase \"$*\" in *--version) exit 0;; esac\n"
                                     "echo \"bwrap: Can't mkdir /data: Read-only file system\" >&2\nexit 1\n")
        (picky / "bwrap").chmod(0o755)
        self.env["PATH"] = f"{picky}:{self.env['PATH']}"
        self.assertEqual(self.inside("--", "true").code, 125)
        self.assertIn("not started: bubblewrap could not make it: bwrap: Can't mkdir /data: Read-only file system",
                      self.newest()["error"])

    def test_a_kernel_without_user_namespaces_is_told_with_what_to_do(self):
        skip_without("unshare", "setpriv")
        forbid = ["unshare", "--user", "--map-root-user", "sh", "-c",
                  "echo 0 > /proc/sys/user/max_user_namespaces && "
                  'exec setpriv --bounding-set=-all --inh-caps=-all "$0" "$@"']
        # The server is begun there, and so are its runs.
        for words in (["--image", self.tiny], ["--docker-arg", "-v /etc:/no-such-data"]):
            done = subprocess.run([*forbid, TRAINYARD, "submit", "-e", "test", *words, "--", "true"], cwd=self.code,
                                  env=self.env, capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 125, done)
            self.asked(self.newest()["error"])


class Sources(Contained):
    """Where images come from."""

    def layout(self, name):
        write_layout(self.scratch / name, self.tar, {"Cmd": ["sh", "-c", "echo $FROM"], "Env": [f"FROM={name}", "PATH=/bin"]})
        return self.scratch / name

    def test_an_image_of_a_registry_comes_without_an_engine(self):
        registry = Registry()
        self.addCleanup(registry.down)
        registry.up()
        skopeo = ["skopeo", "--insecure-policy", "copy", "--dest-tls-verify=false"]
        subprocess.run([*skopeo, f"oci:{self.layout('registry')}", f"docker://{registry.address}/own/image:1"], check=True,
                       capture_output=True)
        done = self.inside(image=f"{registry.address}/own/image:1")
        self.assertEqual((done.code, done.out), (0, "registry\n"), done)
        self.assertNotEqual(self.inside(image=f"{registry.address}/own/image:2").code, 0)
        self.assertIn("manifest unknown", self.newest()["error"])

    def test_archives_of_docker_and_of_the_oci_are_images(self):
        skip_without("skopeo")
        for kind in ("docker-archive", "oci-archive"):
            file = self.scratch / f"{kind}.tar"
            subprocess.run(["skopeo", "--insecure-policy", "copy", f"oci:{self.layout(kind)}", f"{kind}:{file}:a:1"],
                           check=True, capture_output=True)
            done = self.inside(image=f"{kind}:{file}")
            self.assertEqual((done.code, done.out), (0, f"{kind}\n"), done)

    def test_an_image_of_an_engine_is_unpacked(self):
        for engine in (Docker(), Podman()):
            self.addCleanup(engine.down)
            engine.up()
            engine.add_busybox("tiny", "ENV FROM=engine", 'CMD ["sh", "-c", "echo $FROM; ls /.dockerenv /run/.containerenv"]')
            done = self.inside(image="tiny", env={"DOCKER_HOST": engine.url, "TRAINYARD_HOME": f"{self.home}-{engine.name}"})
            self.assertEqual(done.out, "engine\n", done)  # In no engine's container.
            self.run_cli("server", "stop", env={"TRAINYARD_HOME": f"{self.home}-{engine.name}"})
            engine.down()

    def test_a_full_disk_is_told_and_nothing_half_made_stays(self):
        if os.geteuid() != 0:
            self.skipTest("skipped: a small disk needs root")
        disk = self.home / "environments"
        disk.mkdir(parents=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", disk], check=False)
        self.assertNotEqual(self.inside("--", "true").code, 0)
        self.assertIn("No space left on device", self.newest()["error"])
        self.assertEqual([path for path in disk.iterdir() if path.is_dir()], [])


def mpi_root():
    """A Debian with Python and Open MPI, made once per machine beside those of engines.py."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "trainyard-tests"
    cache.mkdir(parents=True, exist_ok=True)
    path = cache / "bookworm-mpi.tar"
    with open(cache / "lock-mpi", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if path.exists():
            return path
        half = cache / "half-mpi.tar"
        done = subprocess.run(["mmdebstrap", "--variant=minbase", "--include=python3-minimal,libopenmpi3", "bookworm",
                               str(half)], capture_output=True, text=True, timeout=600, check=False)
        if done.returncode != 0:
            raise unittest.SkipTest(f"skipped: no image with MPI can be made here: {done.stderr[-500:]}")
        half.rename(path)
    return path


class Lab(Contained, LabTest):
    """Nodes that share nothing with the server, as an ordinary user."""
    LAB = {"nodes": 2}
    TARGET = ("--max-nodes", 2)

    @classmethod
    def setUpClass(cls):
        skip_without("mmdebstrap")
        super().setUpClass()
        root = cls.images / "root"
        root.mkdir()
        subprocess.run(["tar", "-xf", mpi_root(), "-C", root, "--exclude=./dev/*"], check=True)
        (root / "etc" / "image").write_text("the image\n")
        cls.debian = f"rootfs:{cls.images / 'debian.tar'}"
        subprocess.run(["tar", "-cf", cls.images / "debian.tar", "-C", root, "."], check=True)
        shutil.rmtree(root)

    def on_lab(self, *words, nodes=2, ranks=2, image=None):
        variable = ("--env-var", "TRAINYARD_CONTAINER_RUNTIME=bubblewrap")
        return self.submit("--target", "lab", "--nodes", nodes, "--processes-per-node", ranks, *variable,
                           "--image", image or self.debian, *words)

    def printed(self, run, rank):
        return self.ok("run", "logs", run, "--rank", rank)

    def test_ranks_of_two_nodes_meet_in_their_containers(self):
        (self.code / "meet.py").write_text(MEET)
        run = self.on_lab("--distribution", "pytorch", "--", "python3", "meet.py")
        ended = self.finish(run, 240)
        self.assertEqual(ended["status"], "Completed", ended["error"])
        for rank in range(4):
            self.assertRegex(self.printed(run, rank), rf"rank {rank} of 4 sum 6 in the image as [1-9]")
            self.assertEqual(self.output(run, f"rank-{rank}").read_text(), "6")
        self.save_and_fail()
        self.mpi()

    def save_and_fail(self):
        """On nodes that have the image already."""
        run = self.on_lab("--", "sh", "-c", SAVE)
        wait_until(lambda: all("up" in self.printed(run, rank) for rank in range(4)), "all ranks are up", 60)
        self.ok("run", "cancel", run)
        self.assertEqual(self.finish(run)["status"], "Canceled")
        for rank in range(4):
            self.assertTrue(self.printed(run, rank).endswith("saving\nsaved\n"), self.printed(run, rank))
        run = self.on_lab("--", "sh", "-c", "[ $RANK != 3 ] || kill -9 $$; sleep 1000")
        ended = self.finish(run)
        self.assertEqual((ended["status"], ended["exitCode"]), ("Failed", 137))
        self.assertIn("rank 3", ended["error"])

    def test_a_view_of_its_own_needs_no_rights(self):
        run = self.submit("--target", "lab", "--nodes", 2, "--docker-arg", "-v /usr/share:/no-such-data:ro", "--", "sh", "-c",
                          "ls -d /no-such-data/doc /proc/self/status; id -u; echo x > outputs/rank-$RANK; "
                          "trap 'echo saved; exit 0' TERM; echo up; while :; do sleep 0.05; done")
        wait_until(lambda: all("up" in self.printed(run, rank) for rank in range(2)), "both ranks are up", 60)
        self.ok("run", "cancel", run)
        self.assertEqual(self.finish(run)["status"], "Canceled")
        for rank in range(2):
            self.assertRegex(self.printed(run, rank), "^/no-such-data/doc\n/proc/self/status\n[1-9][0-9]*\nup\nsaved\n$")
            self.assertEqual(self.output(run, f"rank-{rank}").read_text(), "x\n")

    def mpi(self):
        if not shutil.which("mpicc") or not shutil.which("mpirun"):
            return
        (self.scratch / "sum.c").write_text(MPI)
        subprocess.run(["mpicc", "-o", self.code / "sum", self.scratch / "sum.c"], check=True)
        # All nodes share one machine, whose memory Open MPI would take for common.
        run = self.on_lab("--distribution", "mpi", "--env-var", "OMPI_MCA_btl=tcp,self", "--", "./sum")
        ended = self.finish(run, 120)
        self.assertEqual(ended["status"], "Completed", ended["error"])
        for rank in range(4):
            self.assertIn(f"rank {rank} of 4: sum 6, inside\n", self.printed(run, rank))


if __name__ == "__main__":
    main()
