"""One example, unchanged, in every kind of environment: one option changes, and nothing else."""
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from engines import Docker, debian_root, skip_without
from wheels import wheel
from yard import ROOT, YardTest, main

TRAIN = ("python3", "train.py", "--epochs", "2", "--samples", "300")


class Kinds(YardTest):
    @classmethod
    def setUpClass(cls):
        skip_without("bwrap")
        cls.root = debian_root()
        cls.docker = Docker()
        cls.addClassCleanup(cls.docker.down)
        cls.docker.up()
        cls.docker.add_tar(cls.root, "python-here")

    def setUp(self):
        super().setUp()
        self.env["DOCKER_HOST"] = self.docker.url
        shutil.copytree(ROOT / "examples" / "digits", self.code, dirs_exist_ok=True)
        wheels = self.scratch / "wheels"
        wheel(wheels, "pear", "2.5")
        self.write("requirements.txt", f"--no-index\n--find-links {wheels}\npear\n")
        self.write("conda.yml", "name: digits\nchannels: [conda-forge]\ndependencies:\n- python>=3.8\n- pip\n- pip:\n"
                                f"  - --no-index\n  - --find-links {wheels}\n  - pear\n")

    def train(self, *options):
        """The run, and what it learnt."""
        done = self.run_cli("submit", "-e", "digits", *options, "--", *TRAIN, timeout=200)
        self.assertEqual(done.code, 0, done)
        run = self.show(self.json("run", "list", "--last", "1")[0]["id"])
        self.assertEqual(run["status"], "Completed")
        folder = self.scratch / run["id"]
        self.ok("run", "download", run["id"], "-d", folder)
        self.assertTrue(list(folder.rglob("*.json")), "its model is there")
        return run, run["metrics"]

    def test_the_same_metrics_in_all_of_them(self):
        run, learnt = self.train()
        self.assertEqual(run["environment"], "system")
        self.assertTrue(learnt)
        for kind, options in (("venv", ("--requirements", "requirements.txt")),
                              ("venv", ("--conda", "conda.yml")),
                              ("container", ("--image", "python-here")),
                              ("container", ("--image", f"rootfs:{self.root}", "--env-var",
                                             "TRAINYARD_CONTAINER_RUNTIME=bubblewrap"))):
            with self.subTest(options=options[:2]):
                run, same = self.train(*options)
                self.assertIn(run["environment"]["kind"], (kind, "conda"))
                timed = [name for name in learnt if "second" in name or "time" in name]
                self.assertEqual({k: v for k, v in same.items() if k not in timed},
                                 {k: v for k, v in learnt.items() if k not in timed})


if __name__ == "__main__":
    main()
