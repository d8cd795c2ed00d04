"""The snapshot of a folder: what enters, and its text, as the command line makes it."""
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
from fake_yard import ROOT
from trainyard import TrainyardError, UserError
from trainyard.capture import capture
from trainyard.ignore import IgnoreFile, Level
from trainyard.redact import without_passwords
from trainyard.tree import Entry, read_tree, write_tree


def cases(name):
    """The list of that name in the C++ test of the same rules: one matrix for both."""
    text = (ROOT / "src/snapshot/ignore_test.cc").read_text()
    block = re.search(rf"> {name} = {{(.*?)\n}};", text, re.S).group(1)
    found = []
    for literal in re.findall(r'"((?:[^"\\]|\\.)*)"', block):
        found.append(literal.encode().decode("unicode_escape").encode("latin-1"))
    return found


def literal(text):
    """The bytes of a string of C++."""
    return text[3:-2].encode() if text.startswith("R") else text[1:-1].encode().decode("unicode_escape").encode()


class IgnoreRules(unittest.TestCase):
    @unittest.skipUnless(shutil.which("git"), "skipped: git is not installed")
    def test_every_pattern_means_what_git_says(self):
        patterns, paths = cases("kPatterns"), [p for p in cases("kPaths") if p != b"." and p[:1] != b":"]
        self.assertGreater(len(patterns), 100)
        self.assertGreater(len(paths), 50)
        with tempfile.TemporaryDirectory() as folder:
            env = dict(os.environ, HOME="/nonexistent", XDG_CONFIG_HOME="/nonexistent", GIT_CONFIG_NOSYSTEM="1")
            subprocess.run(["git", "init", "-q", "."], cwd=folder, env=env, check=True)
            asked = []
            for i, pattern in enumerate(patterns):
                os.mkdir(os.path.join(folder, f"p{i}"))
                with open(os.path.join(folder, f"p{i}", ".gitignore"), "wb") as file:
                    file.write(pattern + b"\n")
                asked += [b"p%d/" % i + path for path in paths]
            done = subprocess.run(["git", "check-ignore", "--no-index", "-z", "--stdin"], cwd=folder, env=env,
                                  input=b"\0".join(asked) + b"\0", stdout=subprocess.PIPE)
            theirs = set(done.stdout.split(b"\0"))
        for i, pattern in enumerate(patterns):
            for path in paths:
                ours = self.ignored(IgnoreFile(pattern + b"\n"), path)
                self.assertEqual(ours, b"p%d/" % i + path in theirs, (pattern, path))

    @staticmethod
    def ignored(file, path):
        """As the walk asks: from the top down, and nothing below an ignored folder."""
        level = Level(file, 0, None)
        parts = path.split(b"/")
        return any(level.ignores(b"/".join(parts[:n]), n < len(parts)) for n in range(1, len(parts) + 1))

    def test_a_pattern_full_of_stars_takes_no_exponential_time(self):
        began = time.monotonic()
        self.assertIsNone(IgnoreFile(b"*a**/" * 40 + b"b\n").judge(b"a" * 2000, False))
        self.assertLess(time.monotonic() - began, 5)

    def test_a_folders_own_file_wins_over_those_above_it(self):
        top = Level(IgnoreFile(b"*.log\n/sub/x\n"), 0, None)
        sub = Level(IgnoreFile(b"!keep.log\n/y\n"), 4, top)
        self.assertEqual([sub.ignores(path, False) for path in (b"sub/a.log", b"sub/keep.log", b"sub/x", b"sub/y")],
                         [True, False, True, True])

    def test_a_byte_order_mark_and_crlf(self):
        file = IgnoreFile(b"\xef\xbb\xbf*.log\r\n\r\nbuild/\r\n!keep.log\r")
        self.assertEqual([file.judge(b"x.log", False), file.judge(b"build", True), file.judge(b"build", False),
                          file.judge(b"keep.log", False)], [True, True, None, False])


class Trees(unittest.TestCase):
    def test_the_text_is_the_format_of_the_command_line(self):
        text = write_tree([Entry("folder", b"a"), Entry("exec", b"b\\\n", 3, "ab" * 32),
                           Entry("link", "ü".encode(), target=b"x y\t")])
        self.assertEqual(text, b"trainyard-tree 1\nfolder\ta\nexec\t" + b"ab" * 32 +
                         b"\t3\tb\\x5c\\x0a\nlink\t\\xc3\\xbc\tx y\\x09\n")
        again = read_tree(text)
        self.assertEqual(write_tree(again), text)
        self.assertEqual(again[1].path, b"b\\\n")

    def test_a_tree_that_leaves_its_folder_is_refused(self):
        for path in (b"../x", b"/x", b"a/../x", b""):
            with self.assertRaises(TrainyardError):
                read_tree(b"trainyard-tree 1\nfolder\t" + path + b"\n")
        with self.assertRaises(TrainyardError):
            read_tree(b"something else\n")


class Capture(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name) / "code"
        self.root.mkdir()

    def write(self, path, text="x", mode=None):
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        if mode:
            target.chmod(mode)

    def paths(self, **more):
        return [f"{e.kind} {os.fsdecode(e.path)}" for e in capture(str(self.root), **more).entries]

    def test_files_programs_links_and_empty_folders_by_their_bytes(self):
        self.write("b.py", "print()")
        self.write("a/run.sh", "#!/bin/sh", 0o755)
        self.write("a-b", "")
        os.symlink("../nowhere", self.root / "link")
        (self.root / "empty").mkdir()
        captured = capture(str(self.root))
        # By bytes: '-' is before '/'.
        self.assertEqual([e.path for e in captured.entries], [b"a-b", b"a/run.sh", b"b.py", b"empty", b"link"])
        self.assertEqual([e.kind for e in captured.entries], ["file", "exec", "file", "folder", "link"])
        self.assertEqual(captured.entries[2].digest, hashlib.sha256(b"print()").hexdigest())
        self.assertEqual(captured.id, hashlib.sha256(captured.text).hexdigest())

    def test_git_outputs_logs_and_the_home_never_enter(self):
        for path in ("outputs/x", "logs/x", "sub/outputs/x", "sub/.git/x", ".git/x", "home/trainyard.db", "keep"):
            self.write(path)
        self.assertEqual(self.paths(excluded=[str(self.root / "home")]), ["file keep", "file sub/outputs/x"])

    def test_amlignore_wins_over_gitignore_and_only_the_latter_nests(self):
        self.write(".gitignore", "*.log\n")
        self.write("sub/.gitignore", "/only\n")
        for path in ("a.log", "b.txt", "sub/only", "sub/other"):
            self.write(path)
        self.assertEqual(self.paths(), ["file .gitignore", "file b.txt", "file sub/.gitignore", "file sub/other"])
        self.write(".amlignore", "b.txt\n")
        self.assertEqual(self.paths(), ["file .amlignore", "file .gitignore", "file a.log", "file sub/.gitignore",
                                        "file sub/only", "file sub/other"])

    def test_ignored_folders_are_never_walked(self):
        self.write(".gitignore", "data/\n")
        (self.root / "data").mkdir(mode=0o000)
        self.addCleanup((self.root / "data").chmod, 0o700)
        self.assertEqual(self.paths(), ["file .gitignore"])

    def test_pipes_are_left_out_with_a_warning(self):
        os.mkfifo(self.root / "pipe")
        self.assertEqual(self.paths(), [])

    def test_a_password_in_a_run_configuration_is_not_kept(self):
        text, kept = b"docker:\n  password: s3cret\n", b"docker:\n  password: null\n"
        self.write("a.runconfig", text.decode())
        self.write("a.txt", text.decode())
        config, other = capture(str(self.root)).entries
        self.assertEqual((config.digest, config.replaced), (hashlib.sha256(kept).hexdigest(), kept))
        self.assertEqual((other.digest, other.replaced), (hashlib.sha256(text).hexdigest(), None))

    def test_passwords_go_as_the_command_line_takes_them_out(self):
        """The cases of the C++ test of the same rule."""
        text = (ROOT / "src/snapshot/redact_test.cc").read_text()
        changed = re.findall(r'CHECK\(kept\((R"\(.*?\)"|"(?:[^"\\]|\\.)*")\) ==\s+(R"\(.*?\)"|"(?:[^"\\]|\\.)*")\)', text)
        self.assertGreater(len(changed), 12)
        for before, after in changed:
            self.assertEqual(without_passwords(literal(before)), literal(after), before)
        same = re.search(r"for \(const char\* text :\s+{(.*?)}\) {\s+CAPTURE", text, re.S).group(1)
        for before in re.findall(r'"(?:[^"\\]|\\.)*"', same):
            self.assertIsNone(without_passwords(literal(before)), before)

    def test_a_file_that_is_no_text_keeps_its_bytes(self):
        self.assertIsNone(without_passwords(b"\x7fELF\0password: x\n"))

    def test_the_time_to_find_passwords_grows_with_the_size(self):
        for part in (b'"password":1,', b'{password: "\\', b"? password\n", b"password: [", b"password:\n\n"):
            begin = time.monotonic()
            without_passwords(part * (500_000 // len(part)))
            self.assertLess(time.monotonic() - begin, 30, part)

    def test_a_folder_that_is_none_is_said_clearly(self):
        with self.assertRaisesRegex(UserError, "not a folder"):
            capture(str(self.root / "none"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
