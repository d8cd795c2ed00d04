"""What a server or a run names is written below the folder one chose, through no link on the way."""
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from yard import TRAINYARD, YardTest, main

SCRIPT = """
import os
for folder in ("outputs/sub", "logs/sub"):
    os.makedirs(folder, exist_ok=True)
    for name in ("a.txt", "sub/b.txt"):
        with open(folder.split("/")[0] + "/" + name, "w") as file:
            file.write("of the run")
"""


class ClientDisk(YardTest):
    def setUp(self):
        super().setUp()
        self.write("train.py", SCRIPT)
        self.ok("submit", "-e", "t", "--", "python3", "train.py")
        self.run_id = self.json("run", "list")[0]["id"]
        self.victim = self.scratch / "victim"
        self.victim.mkdir()
        (self.victim / "file").write_text("mine")

    def folder(self, **links):
        folder = self.scratch / f"to-{len(os.listdir(self.scratch))}"
        folder.mkdir()
        for path, target in links.items():
            os.symlink(target, folder / path)
        return folder

    def assert_untouched(self):
        self.assertEqual(os.listdir(self.victim), ["file"])
        self.assertEqual((self.victim / "file").read_text(), "mine")

    def test_a_folder_that_is_a_link_is_refused(self):
        for args in (("run", "download", self.run_id, "-d"), ("run", "download-logs", self.run_id, "-d"),
                     ("job", "download", "-n", self.run_id, "--all", "-p"),
                     ("run", "cp", f"{self.run_id}:outputs"), ("run", "cp", f"{self.run_id}:logs")):
            to = self.folder(outputs=self.victim, logs=self.victim, artifacts=self.victim)
            self.refused(5, *args, to)
            self.assert_untouched()

    def test_a_file_that_is_a_link_is_replaced(self):
        to = self.folder()
        (to / "logs").mkdir()
        (to / "outputs").mkdir()
        for path in ("logs/a.txt", "logs/a.txt.part", "outputs/a.txt", "outputs/a.txt.part", "b.txt", "b.txt.part"):
            os.symlink(self.victim / "file", to / path)
        self.ok("run", "download-logs", self.run_id, "-d", to)
        self.ok("run", "download", self.run_id, "-d", to)
        self.ok("run", "cp", f"{self.run_id}:outputs/sub/b.txt", to)
        self.assert_untouched()
        for path in ("logs/a.txt", "outputs/a.txt", "b.txt"):
            self.assertFalse((to / path).is_symlink())
            self.assertEqual((to / path).read_text(), "of the run")

    def test_a_pipe_or_device_is_written_into_and_stays(self):
        pipe = self.scratch / "pipe"
        os.mkfifo(pipe)
        self.write("job.yml", "command: 'true'\n")
        for words in (("run", "cp", f"{self.run_id}:outputs/a.txt"), ("job", "create", "-f", "job.yml", "--save-as"),
                      ("run", "show", self.run_id, "-t")):
            reader = subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE)
            self.ok(*words, pipe)
            self.assertTrue(reader.communicate(timeout=60)[0], words)
            self.assertTrue(pipe.is_fifo(), words)
        # A file behind /dev/stdout is no reason to put another in its place.
        out = self.scratch / "out"
        with open(out, "w") as file:
            file.write("before\n")
            file.flush()
            subprocess.run([TRAINYARD, "run", "cp", f"{self.run_id}:outputs/a.txt", "/dev/stdout"], env=self.env,
                           cwd=self.code, stdout=file, check=True)
        self.assertEqual(out.read_text(), "before\nof the run")
        self.assertTrue(os.path.islink("/dev/stdout"))

    def test_a_link_of_the_code_leads_no_outputs_elsewhere(self):
        """First the code, with a link in it, then the outputs into the same folder."""
        os.symlink(self.victim, self.code / "artifacts")
        self.ok("submit", "-e", "t", "--", "python3", "train.py")
        run = self.json("run", "list")[0]["id"]
        to = self.folder()
        self.ok("run", "download", run, "--snapshot", "-d", to)
        self.refused(5, "job", "download", "-n", run, "-p", to)
        self.assert_untouched()

    def test_as_before_it_copies_to_a_name_and_a_new_folder(self):
        to = self.folder()
        self.ok("run", "cp", f"{self.run_id}:outputs/a.txt", to / "name.txt")
        self.ok("run", "cp", f"{self.run_id}:outputs/a.txt", to / "new" / "name.txt")
        self.ok("run", "cp", f"{self.run_id}:outputs", to / "whole")
        self.ok("run", "cp", f"{self.run_id}:outputs/a.txt", "here.txt")
        for path in ("name.txt", "new/name.txt", "whole/a.txt", "whole/sub/b.txt"):
            self.assertEqual((to / path).read_text(), "of the run")
        self.assertEqual((self.code / "here.txt").read_text(), "of the run")


if __name__ == "__main__":
    main()
