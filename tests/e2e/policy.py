"""What a submitter may ask of the server's machine and of the machines of runs, and what an admin allows."""
import io
import os
import pathlib
import sys
import tarfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from yard import YardTest, main

SECRET = "open-sesame-7431"

RUNCONFIG = f"""\
script: train.py
target: local
environment:
  python:
    userManagedDependencies: true
  docker:
    enabled: false
    baseImage: registry.example/private:1
    baseImageRegistry:
      address: registry.example
      username: ann
      password: {SECRET}
"""


class Policy(YardTest):
    def setUp(self):
        super().setUp()
        self.ok("server", "start")
        self.ok("user", "create", "ann", "--role", "submitter")
        token = self.json("token", "create", "--user", "ann")["token"]
        self.ann = {"TRAINYARD_TOKEN": token, "TRAINYARD_SERVER": self.server()["url"],
                    "TRAINYARD_HOME": str(self.scratch / "ann")}
        self.images = self.scratch / "images"
        self.images.mkdir()

    def submit_as_ann(self, *args):
        return ("submit", "-e", "test", "--target", "server", "--async", *args)

    def test_a_submitter_reads_no_file_of_the_server(self):
        fifo = self.scratch / "fifo"
        os.mkfifo(fifo)
        began = time.monotonic()
        for image in (f"rootfs:{fifo}", f"docker-archive:{fifo}", "rootfs:/etc/passwd", "oci:/etc", f"rootfs:{self.home}/trainyard.db"):
            error = self.refused(3, *self.submit_as_ann("--image", image, "--", "true"), env=self.ann)
            self.assertIn("--image-folder", error)
            self.refused(3, "environment", "register", "-n", "x", "--image", image, env=self.ann)
        self.assertLess(time.monotonic() - began, 20)

    def test_a_fifo_holds_up_nobody(self):
        fifo = self.scratch / "fifo"
        os.mkfifo(fifo)
        run = self.submit("--image", f"rootfs:{fifo}", "--", "true")
        shown = self.finish(run)
        self.assertEqual(shown["status"], "Failed")
        self.assertIn("not a plain file", shown["error"])
        self.ok("run", "list")

    def test_images_come_from_allowed_folders_and_no_link_leads_out(self):
        with tarfile.open(self.images / "good.tar", "w") as tar:
            entry = tarfile.TarInfo("word")
            entry.size = 4
            tar.addfile(entry, io.BytesIO(b"good"))
        (self.images / "out.tar").symlink_to(self.home / "trainyard.db")
        good = self.submit_as_ann("--image", f"rootfs:{self.images}/good.tar", "--", "true")
        self.refused(3, *good, env=self.ann)
        self.ok("server", "policy", "set", "--image-folder", self.images)
        run = self.ok(*good, env=self.ann).strip()
        self.assertEqual(self.json("run", "show", run)["environment"]["kind"], "container")
        out = self.ok(*self.submit_as_ann("--image", f"rootfs:{self.images}/out.tar", "--", "true"), env=self.ann).strip()
        shown = self.finish(out)
        self.assertEqual(shown["status"], "Failed")
        self.assertIn("leads out", shown["error"])
        self.refused(3, *self.submit_as_ann("--image", f"rootfs:{self.images}/../home/trainyard.db", "--", "true"), env=self.ann)
        self.finish(run)

    def test_containers_reach_what_an_admin_allows(self):
        mount = self.submit_as_ann("--image", "debian", f"--docker-arg=-v {self.images}:/data", "--", "true")
        error = self.refused(3, *mount, env=self.ann)
        self.assertIn(f"trainyard server policy set --role submitter --host-path {self.images}", error)
        for argument in ("-v /:/host", f"-v {self.home}:/x", "-v /run/docker.sock:/s", "--cap-add SYS_ADMIN",
                         "--device /dev/sda", "--network container:x", "--user root", "--gpus all"):
            self.refused(3, *self.submit_as_ann("--image", "debian", f"--docker-arg={argument}", "--", "true"), env=self.ann)
        self.refused(2, "server", "policy", "set", "--host-path", self.home)
        self.refused(2, "server", "policy", "set", "--host-path", "/")
        self.refused(2, "server", "policy", "set")
        self.refused(3, "server", "policy", "set", "--host-path", "/data", env=self.ann)
        self.ok("server", "policy", "set", "--host-path", self.images)
        self.ok(*mount, env=self.ann)
        shown = {policy["role"]: policy for policy in self.json("server", "policy", "show", env=self.ann)}
        self.assertEqual(shown["submitter"]["hostPaths"], [str(self.images)])
        self.assertEqual(shown["admin"]["hostPaths"], ["*"])
        self.ok("server", "policy", "set", "--host-path", "")
        self.refused(3, *mount, env=self.ann)

    def test_a_path_that_becomes_a_link_is_refused_where_the_run_is(self):
        link = self.images / "data"
        link.mkdir()
        self.ok("server", "policy", "set", "--host-path", self.images)
        argument = f"--docker-arg=-v {link}:/tmp/seen"
        link.rmdir()
        link.symlink_to("/")
        run = self.ok(*self.submit_as_ann(argument, "--", "true"), env=self.ann).strip()
        shown = self.finish(run)
        self.assertEqual(shown["status"], "Failed")
        self.assertIn("not among the allowed paths", shown["error"])

    def test_a_registry_password_is_kept_nowhere_in_clear(self):
        (self.code / "train.py").write_text("print(open('local.runconfig').read())\n")
        (self.code / "local.runconfig").write_text(RUNCONFIG)
        (self.code / ".azureml").mkdir()
        (self.code / ".azureml" / "other.runconfig").write_text(RUNCONFIG)
        done = self.run_cli("run", "submit-script", "-c", "local", "-e", "test", "--async")
        self.assertEqual(done.code, 0, done)
        self.assertIn("password is not kept", done.err)
        run = done.out.strip()
        self.assertEqual(self.finish(run)["status"], "Completed")
        self.assertIn("password: null", self.console(run))
        for command in (("run", "show", run), ("run", "diff", run, run), ("environment", "list")):
            self.assertNotIn(SECRET, self.ok(*command))
        self.ok("run", "rerun", run)
        kept = [str(file) for file in self.home.rglob("*") if file.is_file() and SECRET.encode() in file.read_bytes()]
        self.assertEqual(kept, [])
        self.assertIn(SECRET, (self.code / "local.runconfig").read_text())


if __name__ == "__main__":
    main()
