"""What a run's code is, and how it comes back."""
import hashlib
import os
import pathlib
import stat
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from yard import YardTest, main


class Snapshot(YardTest):
    def test_the_snapshot_comes_back_byte_for_byte(self):
        (self.code / "bin").write_bytes(bytes(range(256)) * 100)
        self.write("run.sh", "#!/bin/sh\necho hi\n", 0o755)
        self.write("pkg/mod.py", "x = 1\n")
        os.symlink("pkg/mod.py", self.code / "link.py")
        os.symlink("/nowhere/at/all", self.code / "dangling")
        (self.code / "empty").mkdir()
        os.mkdir(os.fsencode(self.code) + b"/od\xff d")
        (self.code / "näme with\nnewline").write_text("y")
        self.ok("submit", "-e", "t", "--", "./run.sh")
        run = self.json("run", "list")[0]["id"]
        got = self.scratch / "got"
        self.ok("run", "download", run, "--snapshot", "-d", got)
        same = subprocess.run(["diff", "-r", "--no-dereference", str(self.code), str(got)],
                              capture_output=True, text=True)
        self.assertEqual(same.returncode, 0, same.stdout + same.stderr)
        self.assertTrue(os.stat(got / "run.sh").st_mode & stat.S_IXUSR)
        self.assertFalse(os.stat(got / "bin").st_mode & stat.S_IXUSR)

    def test_files_of_another_workspace_are_not_to_be_had_by_their_hash(self):
        self.ok("workspace", "create", "private")
        self.write("secret.txt", "of another workspace\n")
        theirs = self.submit("-w", "private", "--target", "local", "--", "true")
        self.finish(theirs)
        digest = hashlib.sha256(b"of another workspace\n").hexdigest()
        # An attempt of the default workspace asks with its own token, as a script can.
        (self.code / "secret.txt").unlink()
        self.write("ask.py", "import os, sys, urllib.request, urllib.error\n"
                   "for url in sys.argv[1:]:\n"
                   "    request = urllib.request.Request(os.environ['TRAINYARD_SERVER'] + url, headers={\n"
                   "        'Authorization': 'Bearer ' + os.environ['TRAINYARD_TOKEN']})\n"
                   "    try:\n"
                   "        print(urllib.request.urlopen(request).status)\n"
                   "    except urllib.error.HTTPError as error:\n"
                   "        print(error.code)\n")
        own = hashlib.sha256((self.code / "ask.py").read_bytes()).hexdigest()
        out = self.ok("submit", "-e", "t", "--", "python3", "ask.py", f"/api/v1/blobs/{digest}",
                      f"/api/v1/runs/{theirs}/blobs/{digest}", f"/api/v1/blobs/{own}")
        self.assertEqual(out.split(), ["404", "403", "200"])

    def test_ignored_files_never_enter(self):
        self.write(".amlignore", "*.log\n/data/\n!keep.log\n__pycache__\nbuild/**/tmp\n")
        for path in ["a.log", "keep.log", "data/big", "sub/data/kept", "x/__pycache__/c.pyc", "build/a/b/tmp/z",
                     "outputs/old", "logs/old", ".git/config", "main.py"]:
            self.write(path, path)
        out = self.ok("submit", "-e", "t", "--", "find", ".", "-type", "f")
        self.assertEqual(sorted(out.split()),
                         sorted(["./.amlignore", "./keep.log", "./sub/data/kept", "./main.py"]))

    def test_gitignore_serves_where_there_is_no_amlignore(self):
        self.write(".gitignore", "*.tmp\n")
        self.write("a.tmp", "")
        self.write("a.py", "")
        out = self.ok("submit", "-e", "t", "--", "find", ".", "-type", "f")
        self.assertEqual(sorted(out.split()), ["./.gitignore", "./a.py"])

    def test_an_unchanged_tree_sends_nothing(self):
        for i in range(50):
            self.write(f"f{i}.py", f"x = {i}\n" * 100)
        first = self.run_cli("submit", "-e", "t", "--", "true").err
        again = self.run_cli("submit", "-e", "t", "--", "true").err
        self.assertIn("50 files", first)
        self.assertIn("50 files", again)
        self.assertIn("50 new", first)
        self.assertNotIn("50 new", again)
        runs = self.json("run", "list")
        self.assertEqual(runs[0]["snapshotId"], runs[1]["snapshotId"])

    def test_the_script_has_a_copy_of_its_own(self):
        self.write("x.txt", "original")
        self.ok("submit", "-e", "t", "--", "sh", "-c", "echo changed > x.txt; rm -f x.txt; touch new")
        self.assertEqual((self.code / "x.txt").read_text(), "original")
        self.assertFalse((self.code / "new").exists())
        out = self.ok("submit", "-e", "t", "--", "cat", "x.txt")
        self.assertEqual(out, "original")

    def test_run_show_lists_the_snapshot(self):
        self.write("train.py", "pass\n")
        self.ok("submit", "-e", "t", "--", "true")
        run = self.show(self.json("run", "list")[0]["id"])
        self.assertEqual([f["path"] for f in run["snapshot"]["files"]], ["train.py"])

    def test_the_home_never_enters(self):
        self.env["TRAINYARD_HOME"] = str(self.code / "yard")
        self.home = self.code / "yard"
        self.write("a.py", "")
        out = self.ok("submit", "-e", "t", "--", "find", ".", "-mindepth", "1")
        self.assertEqual(sorted(out.split()), ["./a.py", "./logs", "./outputs"])

    def test_an_unreadable_folder_is_named(self):
        if os.geteuid() == 0:
            # root reads everything: be somebody else.
            secret = self.code / "secret"
            secret.mkdir(mode=0o700)
            self.scratch.chmod(0o755)
            self.env["TRAINYARD_HOME"] = str(self.scratch / "nobody")
            (self.scratch / "nobody").mkdir()
            os.chown(self.scratch / "nobody", 65534, 65534)
            self.env["HOME"] = str(self.scratch)
            error = self.refused(3, "submit", "-e", "t", "--", "true", user=65534, group=65534, extra_groups=[])
            self.run_cli("server", "stop", user=65534, group=65534, extra_groups=[])
        else:
            (self.code / "secret").mkdir(mode=0)
            error = self.refused(3, "submit", "-e", "t", "--", "true")
        self.assertIn("secret", error)
        self.assertIn(".amlignore", error)

    def test_the_root_needs_a_yes(self):
        error = self.refused(2, "submit", "-e", "t", "--", "true", cwd="/")
        self.assertIn("--yes", error)
        self.refused(2, "submit", "-e", "t", "--", "true", cwd=self.code, env={"HOME": str(self.code)})


if __name__ == "__main__":
    main()
