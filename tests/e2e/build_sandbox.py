"""Builds of environments: code of packages reaches nothing of the server's, nor what others build."""
import hashlib
import json
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from wheels import SlowIndex, sdist, wheel
from yard import YardTest, main

# What a hostile build backend tries; the module that it makes tells how far it got.
HOSTILE = """
import os, socket

HOME = {home!r}


def attempt(what):
    try:
        return "got " + repr(what())
    except OSError as error:
        return "failed: " + str(error)


def ask_server():
    server = socket.socket(socket.AF_UNIX)
    server.connect(HOME + "/socket")
    server.sendall(b"GET /api/v1/users HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n")
    return server.recv(1000)


def write_cache():
    with open(HOME + "/cache/packages/planted", "w") as file:
        return file.write("x")


def module():
    seen = dict(key=attempt(lambda: open(HOME + "/secrets.key", "rb").read()),
                socket=attempt(ask_server),
                database=attempt(lambda: open(HOME + "/trainyard.db", "rb").read(16)),
                cache=attempt(write_cache),
                victim=attempt(lambda: open({victim!r}).read()),
                blobs=attempt(lambda: os.listdir(HOME + "/blobs")),
                environments=attempt(lambda: [p for p in os.listdir(HOME + "/environments") if ".new-" not in p]),
                pids=len([p for p in os.listdir("/proc") if p.isdigit()]),
                uid=os.getuid(),
                secret=os.environ.get("SERVERS_OWN_SECRET"),
                privileges=[line for line in open("/proc/self/status") if line.startswith(("CapEff", "NoNewPrivs"))])
    return "SEEN = " + repr(seen)
"""

# A backend that writes into every cache it finds, and changes the packages there.
POISON = """
import os

FOUND = [os.environ.get("UV_CACHE_DIR", "/nowhere"), os.getcwd()]


def module():
    for top in FOUND:
        for folder, _, names in os.walk(top):
            open(os.path.join(folder, "poison"), "w").close()
            for name in names:
                if name == "apple.py":
                    os.remove(os.path.join(folder, name))
                    with open(os.path.join(folder, name), "w") as file:
                        file.write("version = 'poison'")
    return ""
"""


class Sandbox(YardTest):
    def setUp(self):
        super().setUp()
        self.packages = self.scratch / "packages"
        wheel(self.packages, "apple", "1.0")
        self.index = SlowIndex(self.packages)
        self.index.go.set()
        self.addCleanup(self.index.close)
        self.env["SERVERS_OWN_SECRET"] = "never in a build"

    def submitter(self):
        url = self.server()["url"]
        self.ok("user", "create", "sam", "--role", "submitter")
        token = self.json("token", "create", "--user", "sam")["token"]
        return {"TRAINYARD_SERVER": url, "TRAINYARD_TOKEN": token}

    def requires(self, *lines):
        self.write("requirements.txt", "\n".join((f"--index-url {self.index.url}", *lines)) + "\n")

    def build(self, name, user, *lines):
        status, body = self.post_environment(user, name, {"kind": "venv", "requirements": lines,
                                                          "options": [f"--index-url {self.index.url}"]})
        self.assertEqual(status, 201, body)
        return self.run_cli("environment", "build", name, env=user, timeout=120)

    def hostile(self):
        victim = self.scratch / "victim"
        victim.write_text("somebody's file")
        victim.chmod(0o644)
        self.ok("server", "start")
        self.ok("secret", "set", "ANY", stdin=None, input="value\n")  # The key is there.
        sdist(self.packages, "plum", "3.0", HOSTILE.format(home=str(self.home), victim=str(victim)))

    def seen(self):
        done = self.run_cli("submit", "--requirements", "requirements.txt", "--", "python", "-c",
                            "import json, plum; print(json.dumps(plum.SEEN))")
        self.assertEqual(done.code, 0, done)
        return json.loads(done.out.splitlines()[-1])

    def check_nothing_was_reached(self):
        self.hostile()
        user = self.submitter()
        done = self.build("evil", user, "plum", "apple")
        self.assertEqual(done.code, 0, done)
        self.requires("plum", "apple")
        seen = self.seen()
        self.assertEqual(seen["environments"], "got []")  # The folder above its own, and nothing in it.
        for what in ("key", "socket", "database", "cache", "victim", "blobs"):
            self.assertTrue(seen[what].startswith("failed: "), (what, seen))
        self.assertLess(seen["pids"], 20, seen)
        self.assertNotEqual(seen["uid"], 0)
        self.assertIsNone(seen["secret"])
        self.assertEqual([line.split()[1].strip("0") for line in seen["privileges"]], ["", "1"])
        self.assertFalse((self.home / "cache" / "packages" / "planted").exists())

    def test_a_build_backend_reaches_nothing_of_the_server_by_pip(self):
        if shutil.which("uv"):
            folder = self.scratch / "bin"
            folder.mkdir()
            for name in ("python3", "sh", "bwrap", "setpriv", "realpath", "dirname"):
                (folder / name).symlink_to(shutil.which(name, path="/usr/bin:/bin"))
            self.env["PATH"] = str(folder)
        self.check_nothing_was_reached()

    def test_a_build_backend_reaches_nothing_of_the_server_by_uv(self):
        if not shutil.which("uv"):
            self.skipTest("skipped: uv is not here")
        self.check_nothing_was_reached()

    def test_what_a_build_backend_leaves_in_its_cache_reaches_nobody_else(self):
        if not shutil.which("uv"):
            self.skipTest("skipped: uv is not here")
        self.ok("server", "start")
        user = self.submitter()
        sdist(self.packages, "plum", "3.0", POISON)
        done = self.build("evil", user, "plum", "apple")
        self.assertEqual(done.code, 0, done)
        shared = self.home / "cache" / "packages"
        self.assertEqual([path for path in shared.rglob("*") if "poison" in path.name], [])
        self.assertEqual(self.ask_apple(), "1.0")

    def test_a_newer_version_without_a_wheel_is_built(self):
        if not shutil.which("uv"):
            self.skipTest("skipped: uv is not here")
        self.ok("server", "start")
        wheel(self.packages, "plum", "2.0")
        sdist(self.packages, "plum", "3.0", POISON)
        done = self.build("newer", self.submitter(), "plum", "apple")
        self.assertEqual(done.code, 0, done)
        self.assertIn("resolved again, with a cache of its own", done.err)
        self.requires("plum", "apple")
        self.assertEqual(self.ok("submit", "--requirements", "requirements.txt", "--", "python", "-c",
                                 "from importlib.metadata import version; print(version('plum'))").splitlines()[-1], "3.0")
        self.assertEqual(self.ask_apple(), "1.0")

    def test_code_of_a_wheel_does_not_run_while_it_is_installed(self):
        if not shutil.which("uv"):
            self.skipTest("skipped: uv is not here")
        planted = "cache/packages/wheels/uv/poison"
        text = f"import pathlib; pathlib.Path({str(self.home / planted)!r}).write_text('x')\n"
        wheel(self.packages, "plum", "3.0", more={"plum.pth": text})
        self.env["UV_COMPILE_BYTECODE"] = "1"  # It starts the new environment's Python.
        self.ok("server", "start")
        done = self.build("evil", self.submitter(), "plum")
        self.assertEqual(done.code, 0, done)
        self.assertNotIn("with a cache of its own", done.err)
        self.assertFalse((self.home / planted).exists())

    def test_without_a_sandbox_only_an_admin_builds(self):
        folder = self.scratch / "bin"
        folder.mkdir()
        for name in ("python3", "sh", "uv", "setpriv", "realpath", "dirname"):
            if path := shutil.which(name):
                (folder / name).symlink_to(pathlib.Path(path).resolve())
        self.env["PATH"] = str(folder)
        self.ok("server", "start")
        user = self.submitter()
        done = self.build("fruit", user, "apple")
        self.assertNotEqual(done.code, 0, done)
        self.assertIn("only an admin's environments are built", done.err)
        self.assertIn("bubblewrap", done.err)
        self.assertFalse((self.home / "cache" / "packages" / "wheels").exists())
        done = self.run_cli("environment", "build", "fruit", timeout=120)
        self.assertEqual(done.code, 0, done)

    def ask_apple(self):
        self.requires("apple")
        done = self.run_cli("submit", "--requirements", "requirements.txt", "--", "python", "-c",
                            "import apple; print(apple.version)")
        self.assertEqual(done.code, 0, done)
        return done.out.splitlines()[-1]

    def test_only_an_admin_names_an_interpreter_by_its_path(self):
        touched = self.scratch / "touched"
        evil = self.scratch / "python"
        evil.write_text(f"#!/bin/sh\ntouch {touched}\n")
        evil.chmod(0o755)
        self.ok("server", "start", "--interpreters", "/usr/bin/python3")
        user = self.submitter()
        status, body = self.post_environment(user, "x", {"kind": "venv", "python": str(evil)})
        self.assertEqual(status, 403, body)
        self.assertIn("--interpreters", body["error"]["hint"])
        self.assertFalse(touched.exists())
        status, body = self.post_environment(user, "y", {"kind": "venv", "python": "/usr/bin/python3"})
        self.assertEqual(status, 201, body)

    def test_only_an_admin_names_files_of_the_server(self):
        self.ok("server", "start")
        user = self.submitter()
        path = wheel(self.packages, "pear", "2.5")
        for recipe in ({"requirements": [f"pear @ file://{path}"]}, {"requirements": [str(path)]},
                       {"requirements": ["pear"], "options": [f"--find-links {self.packages}"]},
                       {"requirements": ["pear"], "options": [f"--index-url file://{self.packages}"]},
                       {"requirements": [f"git+file://{self.packages}"]}):
            status, body = self.post_environment(user, "x", {"kind": "venv", **recipe})
            self.assertEqual(status, 403, (recipe, body))
        # An admin may: the build sees the file, though not what lies beside it.
        status, body = self.post_environment({}, "fruit", {"kind": "venv", "requirements": [str(path)]})
        self.assertEqual(status, 201, body)
        done = self.run_cli("environment", "build", "fruit", timeout=120)
        self.assertEqual(done.code, 0, done)

    def post_environment(self, user, name, recipe):
        headers = {"Authorization": "Bearer " + user["TRAINYARD_TOKEN"]} if user else {}
        status, body = self.http("POST", "/api/v1/workspaces/default/environments",
                                 {"name": name, "recipe": recipe}, headers=headers)
        return status, json.loads(body)

    def test_a_lock_has_hashes_and_another_file_of_that_version_is_refused(self):
        self.requires("apple")
        self.assertEqual(self.run_cli("submit", "--requirements", "requirements.txt", "--", "true").code, 0)
        run = self.json("run", "list", "--last", "1")[0]["id"]
        lock = self.ok("run", "cp", f"{run}:system_logs/environment_lock.txt", "-")
        digest = hashlib.sha256((self.packages / "apple-1.0-py3-none-any.whl").read_bytes()).hexdigest()
        self.assertEqual(lock, f"apple==1.0 --hash=sha256:{digest}\n")
        # It was taken away meanwhile, and the index has another file by that name.
        for path in list((self.home / "environments").glob("*/environment.json")):
            shutil.rmtree(path.parent.rename(self.scratch / path.parent.name))
        shutil.rmtree(self.home / "cache" / "packages", ignore_errors=True)
        wheel(self.packages, "apple", "1.0", source="version = 'another'\n")
        done = self.run_cli("submit", "--requirements", "requirements.txt", "--", "true")
        self.assertNotEqual(done.code, 0, done)
        self.assertRegex(done.err, "(?i)hash")


if __name__ == "__main__":
    main()
