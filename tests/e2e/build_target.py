"""Environments that a named compute builds, by a run of its own: the server and all nodes fetch them from there."""
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from engines import make_busybox_root, skip_without
from lab_yard import LabTest
from wheels import SlowIndex, wheel
from yard import main, wait_until

SHOW = """
import os, sys, apple
print("apple", apple.version, os.environ.get("SLURMD_NODENAME", "here"), sys.prefix)
"""


class BuildTarget(LabTest):
    LAB = {"nodes": 4, "shared": True}
    TARGET = ["--max-nodes", "4"]

    def before_serving(self):
        self.env["TRAINYARD_CONTAINER_RUNTIME"] = "bubblewrap"
        self.env["DOCKER_HOST"] = "unix:///no-such-socket"  # Whatever the machine has.
        # A Python that the nodes have too.
        self.env["PATH"] = ":".join(part for part in self.env["PATH"].split(":") if "pyenv" not in part)

    def setUp(self):
        super().setUp()
        self.wheels = self.scratch / "wheels"
        wheel(self.wheels, "apple", "1.0", requires=["pear>=2"], scripts={"apple-say": "apple:main"})
        wheel(self.wheels, "pear", "2.5")
        # Where nodes reach it too.
        self.index = SlowIndex(self.wheels, self.lab.address)
        self.addCleanup(self.index.close)
        self.write("show.py", SHOW)
        self.requires("apple==1.0")
        self.ok("compute", "create", "-n", "builders", "--engine", "slurm", "--max-nodes", "4")
        self.ok("workspace", "update", "-n", "default", "--image-build-compute", "builders")

    def requires(self, *lines):
        host = self.lab.address
        text = "\n".join((f"--index-url {self.index.url}", f"--trusted-host {host}", *lines))
        self.write("requirements.txt", text + "\n")

    def submit(self, *words, target="lab", command=("python", "show.py")):
        return self.ok("submit", "--target", target, "--requirements", "requirements.txt", "--async", *words, "--",
                       *command).strip()

    def waits(self, run):
        self.assertEqual(self.run_cli("run", "wait", run, timeout=120).code, 0, self.show(run))

    def builds(self):
        return self.json("run", "list", "--experiment", "environments")

    def build_log(self, run):
        done = self.run_cli("run", "cp", f"{run}:system_logs/environment.txt", "-")
        return done.out if done.code == 0 else ""

    def test_one_run_builds_for_twenty_on_four_nodes_and_the_server(self):
        runs = [self.submit() for _ in range(20)]
        build = self.show(wait_until(self.builds, "a run builds it")[0]["id"])
        self.assertTrue(self.index.begun.wait(60))
        wanted = self.show(runs[0])["environment"]["hash"]
        self.assertEqual((build["name"], build["target"], build["environment"], build["tags"]),
                         (f"environment {wanted[:6]}", "builders", "system", {"environment": wanted}))
        wait_until(lambda: "is being built" in self.show(runs[0])["reason"], "it says what it waits for")
        wait_until(lambda: f"built by run {build['id']}" in self.build_log(runs[0]), "the log is the run's meanwhile")
        self.index.go.set()
        nodes = set()
        for run in runs:
            self.waits(run)
            name, version, node, prefix = self.ok("run", "logs", run).split()
            self.assertEqual((name, version), ("apple", "1.0"))
            self.assertNotIn(str(self.home), prefix)
            nodes.add(node)
        self.assertGreater(len(nodes), 1)
        self.assertEqual(len(self.builds()), 1)
        self.assertIn("apple", self.build_log(runs[0]))
        lock = self.ok("run", "cp", f"{runs[0]}:system_logs/environment_lock.txt", "-")
        self.assertEqual([line.split(" --hash=sha256:")[0] for line in lock.splitlines()], ["apple==1.0", "pear==2.5"])
        self.assertEqual(lock.count(" --hash=sha256:"), 2)
        # The server itself has it too, scripts and links as they were, and makes nothing anew.
        here = self.submit(target="local", command=("sh", "-c", "apple-say && python show.py"))
        self.waits(here)
        words = self.ok("run", "logs", here).split()
        self.assertEqual(words[:5], ["apple", "1.0", "apple", "1.0", "here"])
        self.assertIn(str(self.home / "environments"), words[5])
        self.assertEqual(self.build_log(here), "")

    def test_a_build_that_fails_or_is_canceled_ends_who_waits_in_its_words(self):
        self.index.go.set()
        self.requires("nosuchfruit==3")
        run = self.submit()
        self.assertNotEqual(self.run_cli("run", "wait", run, timeout=120).code, 0)
        shown, build = self.show(run), self.builds()[0]
        self.assertEqual((shown["status"], shown["attempts"], build["status"]), ("Failed", [], "Failed"))
        self.assertTrue(shown["error"].startswith("environment: "), shown["error"])
        self.assertIn("nosuchfruit", shown["error"])
        self.assertIn(build["id"], shown["error"])
        self.assertIn("nosuchfruit", self.build_log(run))
        # Once it can be had, it is had.
        wheel(self.wheels, "nosuchfruit", "3")
        self.waits(self.submit(command=("python", "-c", "import nosuchfruit")))
        self.index.go.clear()
        self.requires("pear==2.5")
        run = self.submit()
        build = wait_until(lambda: [b for b in self.builds() if b["status"] == "Running"], "the next is built")[0]
        self.ok("run", "cancel", build["id"])
        self.assertNotEqual(self.run_cli("run", "wait", run, timeout=120).code, 0)
        self.assertIn(f"run {build['id']}, which was to build it, was stopped", self.show(run)["error"])

    def test_a_build_goes_on_without_the_server_and_is_found_again(self):
        run = self.submit()
        self.assertTrue(self.index.begun.wait(60))
        build = self.builds()[0]["id"]
        self.kill_server()
        self.index.go.set()
        self.serve()
        self.waits(run)
        self.assertEqual([one["id"] for one in self.builds()], [build])
        # What is not on the server's shelf any more is taken from what was built once.
        self.kill_server()
        for path in (self.home / "environments").iterdir():
            if (path / "environment.json").exists():
                shutil.rmtree(path)
        self.serve()
        self.waits(self.submit())
        self.assertEqual([one["id"] for one in self.builds()], [build])

    def test_an_image_is_built_there_and_runs_on_nodes_and_here(self):
        skip_without("bwrap")
        tar = self.lab.shared / f"{self.home.parent.name}.tar"
        self.addCleanup(tar.unlink)
        make_busybox_root(tar)
        tar.chmod(0o644)
        words = ("submit", "--image", f"rootfs:{tar}", "--async")
        command = ("--", "sh", "-c", "readlink /bin/cat; ls /bin/busybox")
        for target in ("lab", "local"):
            run = self.ok(*words, "--target", target, *command).strip()
            self.waits(run)
            self.assertEqual(self.ok("run", "logs", run).split(), ["busybox", "/bin/busybox"])
        self.assertEqual(len(self.builds()), 1)

    def test_the_name_is_checked_and_can_be_taken_away(self):
        self.assertEqual(self.json("workspace", "show")["imageBuildCompute"], "builders")
        self.assertIn("'bilders'", self.refused(4, "workspace", "update", "--image-build-compute", "bilders"))
        self.refused(2, "workspace", "update")
        self.refused(2, "workspace", "update", "--image-build-compute", "local")
        self.ok("workspace", "update", "--image-build-compute", "")
        self.assertEqual(self.json("workspace", "show")["imageBuildCompute"], "")
        self.index.go.set()
        self.waits(self.submit())
        self.assertEqual(self.builds(), [])
        done = self.run_cli("workspace", "create", "vision", "--image-build-compute", "builders")
        self.assertEqual(done.code, 0, done)
        self.assertIn("has no compute builders yet", done.err)
        run = self.ok("submit", "-w", "vision", "--target", "local", "--async", "--", "true").strip()
        self.waits(run)


if __name__ == "__main__":
    main()
