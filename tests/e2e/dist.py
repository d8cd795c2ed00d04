"""The packages of `make dist`: each is installed in a Debian 11 without compiler, network or our sources, and
trains the example there."""
import base64
import csv
import hashlib
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from support.yard import ROOT, main

DIST = ROOT / "build/dist"
TRAIN = """
set -eux
! command -v cc
cd /root/digits
trainyard version -o json > /root/version.json
trainyard submit -e digits -- python3 train.py --epochs 1
trainyard run list -o json > /root/runs.json
trainyard run download "$(trainyard run list -o tsv --query '[0].id')" -d /root/results
python3 -c 'import trainyard; print(trainyard.__file__)' > /root/package.txt
# src/glibc_compat.c: a C++ exception, the name of a signal.
echo 'command: [' > bad.yml
trainyard job validate bad.yml 2> /root/invalid.txt || test $? = 2
trainyard submit -e digits -- sh -c 'kill -KILL $$' 2> /root/killed.txt || true
trainyard server stop
"""


def setUpModule():
    if shutil.which("bwrap") is None:
        skip("there is no bwrap")
    made = subprocess.run(["make", "--no-print-directory", "dist"], cwd=ROOT, capture_output=True, text=True)
    if "Debian 11's packages are needed" in made.stderr:
        skip(made.stderr)
    if made.returncode != 0:
        raise AssertionError(f"make dist: {made.stdout}{made.stderr}")
    for path in DIST.iterdir():
        if str(path.relative_to(ROOT)) not in made.stdout:
            raise AssertionError(f"{path} is not in: {made.stdout}")


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def only(pattern):
    [path] = DIST.glob(pattern)
    return path


def typed(section):
    """The commands of a section of docs/install.md."""
    text = (ROOT / "docs/install.md").read_text(encoding="utf-8").split(f"## {section}\n")[1].split("\n## ")[0]
    return "".join(f"{line[2:]}\n" for line in text.splitlines() if line.startswith("$ "))


class Installed(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="dist-")
        self.addCleanup(scratch.cleanup)
        self.user = pathlib.Path(scratch.name) / "user"
        shutil.copytree(ROOT / "examples/digits", self.user / "digits")
        shutil.copytree(DIST, self.user / "dist")

    def train(self, install, system=("--ro-bind", ROOT / "build/debian11", "/")):
        """Installs by a shell's lines, and trains; returns where the command and the package were found."""
        script = f"cd /root/dist\n{install}command -v trainyard > /root/command.txt\n{TRAIN}"
        done = subprocess.run(
            ["bwrap", *system, "--bind", self.user, "/root", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp",
             "--unshare-all", "--unshare-user", "--uid", "0", "--gid", "0", "--die-with-parent",
             "/bin/sh", "-euc", script],
            env={"HOME": "/root", "LC_ALL": "C.UTF-8",
                 "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        [run] = json.loads(self.read("runs.json"))
        self.assertEqual((run["status"], run["experiment"]), ("Completed", "digits"))
        self.assertIn("bad.yml:", self.read("invalid.txt"))
        self.assertIn("SIGKILL", self.read("killed.txt"))
        self.assertTrue((self.user / "results/outputs/model.json").exists())
        commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], capture_output=True, text=True).stdout
        self.assertEqual(json.loads(self.read("version.json"))["commit"], commit.strip() or None)
        return self.read("command.txt").strip(), self.read("package.txt").strip()

    def read(self, name):
        return (self.user / name).read_text()

    def has(self, folder, *paths):
        for path in paths:
            self.assertTrue((folder / path).is_file(), f"{folder}/{path}")

    def test_the_wheel_puts_command_and_package_into_a_venv(self):
        command, package = self.train(typed("With pip"))
        self.assertEqual(command, "/root/trainyard/bin/trainyard")
        self.assertEqual(package, "/root/trainyard/lib/python3.9/site-packages/trainyard/__init__.py")
        self.has(self.user / "trainyard/share", "man/man1/trainyard.1", "man/man1/trainyard-run-list.1",
                 "bash-completion/completions/trainyard", "zsh/site-functions/_trainyard",
                 "fish/vendor_completions.d/trainyard.fish")

    def test_the_debian_package_installs_for_the_whole_system(self):
        system = self.user.parent / "system"
        subprocess.run(["cp", "-a", ROOT / "build/debian11", system], check=True)
        (system / "etc/dpkg/dpkg.cfg.d/no-sync").write_text("force-unsafe-io\n")
        command, package = self.train(typed("On Debian and Ubuntu"), ("--bind", system, "/"))
        self.assertEqual(command, "/usr/bin/trainyard")
        self.assertEqual(package, "/usr/lib/python3/dist-packages/trainyard/__init__.py")
        self.has(system / "usr/share", "man/man1/trainyard.1.gz", "bash-completion/completions/trainyard",
                 "zsh/vendor-completions/_trainyard", "fish/vendor_completions.d/trainyard.fish",
                 "doc/trainyard/copyright", "doc/trainyard/manual/submit.md")
        sums = subprocess.run(["md5sum", "--check", "--quiet", "var/lib/dpkg/info/trainyard.md5sums"],
                              cwd=system, capture_output=True, text=True)
        self.assertEqual(sums.returncode, 0, sums.stdout + sums.stderr)

    def test_the_tarball_works_where_it_is_unpacked(self):
        command, package = self.train(typed("From the tarball"))
        folder = only("*.tar.gz").name.removesuffix(".tar.gz")
        self.assertEqual(command, f"/root/{folder}/bin/trainyard")
        self.assertEqual(package, f"/root/{folder}/lib/python3/dist-packages/trainyard/__init__.py")
        self.has(self.user / folder / "share", "man/man1/trainyard.1", "bash-completion/completions/trainyard")


class Files(unittest.TestCase):
    def test_the_wheel_names_every_file_with_its_hash(self):
        with zipfile.ZipFile(only("*.whl")) as wheel:
            files = {name: wheel.read(name) for name in wheel.namelist()}
            script = next(entry for entry in wheel.infolist() if "/scripts/" in entry.filename)
        self.assertEqual(script.external_attr >> 16, 0o100755)
        [record] = [name for name in files if name.endswith("/RECORD")]
        rows = {path: (digest, size) for path, digest, size in csv.reader(files[record].decode().splitlines())}
        self.assertEqual(rows.pop(record), ("", ""))
        self.assertEqual(rows, {
            name: ("sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode(),
                   str(len(data))) for name, data in files.items() if name != record})

    def test_the_node_program_is_in_the_binary_and_needs_no_glibc(self):
        node = ROOT / "build/release/trainyard-node"
        self.assertIn(node.read_bytes(), (ROOT / "build/release/trainyard-portable").read_bytes())
        needed = subprocess.run(["objdump", "-p", node], capture_output=True, text=True, check=True).stdout
        self.assertNotIn("NEEDED", needed)

    def test_the_same_commit_makes_the_same_packages(self):
        before = {path.name: path.read_bytes() for path in DIST.iterdir()}
        subprocess.run([ROOT / "scripts/dist"], check=True, capture_output=True)
        self.assertEqual({path.name for path in DIST.iterdir()}, set(before))
        for path in DIST.iterdir():
            self.assertTrue(path.read_bytes() == before[path.name], path.name)


if __name__ == "__main__":
    main()
