"""A home on a network file system, here any FUSE mount, is refused with advice."""
import os
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from yard import YardTest, main


class NetworkHome(YardTest):
    def setUp(self):
        super().setUp()
        if shutil.which("bindfs") is None or not os.access("/dev/fuse", os.R_OK | os.W_OK):
            self.skipTest("needs bindfs and /dev/fuse")
        self.mount = self.scratch / "mount"
        behind = self.scratch / "behind"
        self.mount.mkdir()
        behind.mkdir()
        subprocess.run(["bindfs", "--no-allow-other", str(behind), str(self.mount)], check=True)
        # Before the scratch folder is removed.
        self.addCleanup(subprocess.run, ["fusermount", "-u", str(self.mount)], check=True)

    def test_a_home_on_it_is_refused(self):
        words = self.refused(2, "run", "list", "--home", self.mount / "home")
        self.assertIn("network file system", words)
        self.assertIn("TRAINYARD_HOME", words)
        self.assertEqual(list(self.mount.iterdir()), [], "nothing was written there")


if __name__ == "__main__":
    main()
