"""A real docker or podman of our own, for tests.

    engine = Docker()              # or Podman()
    self.addCleanup(engine.down)
    engine.up()
    engine.add_busybox("tiny")
    subprocess.run([...], env=dict(os.environ, DOCKER_HOST=engine.url))

Each has its images, containers and socket in a temporary folder of its own: nothing of an engine that
the machine has is seen or touched, and several may run side by side. What is missing here skips the
test, saying why.
"""
import contextlib
import ctypes
import ctypes.util
import fcntl
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tarfile
import tempfile
import time
import unittest

PATH = "/usr/bin:/usr/sbin:" + os.environ.get("PATH", "")  # A newer docker before it cannot build.
UP_S = 60       # Either is up in about a second.
DOWN_S = 20
COMMAND_S = 120
BASE_S = 600    # mmdebstrap: 40 s where packages come quickly.

# crun refuses hybrid cgroups, and the machine's limits may be lower than podman's own.
CONTAINERS_CONF = """\
[containers]
default_ulimits = ["nofile=20000:20000", "nproc=32768:32768"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""


def skip_without(*programs):
    missing = [name for name in programs if not shutil.which(name, path=PATH)]
    if missing:
        raise unittest.SkipTest(f"skipped: {' and '.join(missing)} not installed")
    if os.geteuid() != 0:
        raise unittest.SkipTest("skipped: an engine of our own needs root")


class Engine:
    """What both have in common: a folder, a daemon, a socket, and the command line for it."""

    name = ""
    programs = ()

    def __init__(self, folder=None):
        self.own_folder = folder is None
        self.folder = pathlib.Path(folder or tempfile.mkdtemp(prefix=f"{self.name}-"))
        self.folder.mkdir(exist_ok=True)
        self.folder.chmod(0o711)  # Who may use the socket is for its own mode to say.
        self.socket = self.folder / "sock"
        self.daemon = None

    @property
    def url(self):
        return f"unix://{self.socket}"

    def up(self):
        try:
            skip_without(*self.programs)
            self.start()
        except BaseException:
            self.down()
            raise
        return self

    def start(self):
        """Starts the daemon; also again, after kill()."""
        with open(self.folder / "log", "ab") as log:
            # conmon writes a file `oom` where it stands.
            self.daemon = subprocess.Popen(self.words(), env=self.env, stdin=subprocess.DEVNULL, stdout=log,
                                           stderr=log, start_new_session=True, cwd=self.folder)
        end = time.monotonic() + UP_S
        while not self.answers():
            if self.daemon.poll() is not None or time.monotonic() > end:
                log = (self.folder / "log").read_text(errors="replace")[-2000:]
                raise unittest.SkipTest(f"skipped: {self.name} does not start here: {log}")
            time.sleep(0.02)

    def answers(self):
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as line:
            line.settimeout(5)
            line.connect(str(self.socket))
            line.sendall(b"GET /_ping HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            return b" 200 " in line.recv(4096)
        return False

    def stop(self):
        """Ends the daemon as an admin would."""
        if self.daemon is None:
            return
        self.daemon.terminate()
        try:
            self.daemon.wait(DOWN_S)
        except subprocess.TimeoutExpired:
            self.daemon.kill()
            self.daemon.wait()
        self.daemon = None

    def down(self):
        """Ends containers, daemon and what it started, and removes the folder. May be called twice."""
        if self.daemon is not None and self.daemon.poll() is None:
            with contextlib.suppress(subprocess.SubprocessError, OSError):
                ids = self.cli("ps", "-aq", check=False).split()
                if ids:
                    self.cli("rm", "-f", *ids, check=False)
        self.stop()
        end_processes_of(self.folder)
        unmount_below(self.folder)
        if self.own_folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def cli(self, *words, check=True, timeout=COMMAND_S, **more):
        """Its own command line; what it prints."""
        done = subprocess.run([*self.client(), *map(str, words)], env=self.env, stdin=more.pop("stdin", subprocess.DEVNULL),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=timeout,
                              check=False, **more)
        if check and done.returncode != 0:
            raise AssertionError(f"{' '.join(map(str, words))}: {done.stderr}")
        return done.stdout

    def containers(self):
        """The names of all, those that have ended too."""
        return self.cli("ps", "-a", "--format", "{{.Names}}").split()

    def add_tar(self, path, tag, *changes):
        """An image of a root's tar file; `changes` as a Dockerfile has them: "ENTRYPOINT [...]"."""
        words = [word for change in changes for word in ("--change", change)]
        self.cli("import", *words, path, tag)
        return tag

    def add_busybox(self, tag="tiny", *changes):
        """One of a shell and its tools, 2 MB, made in an instant."""
        path = self.folder / "busybox.tar"
        if not path.exists():
            make_busybox_root(path)
        return self.add_tar(path, tag, *changes)


class Docker(Engine):
    """`words` are more of dockerd's."""

    name = "docker"
    programs = ("dockerd", "docker", "containerd", "runc")

    def __init__(self, folder=None, words=()):
        super().__init__(folder)
        self.more = words

    @property
    def env(self):
        return dict(os.environ, PATH=PATH, DOCKER_HOST=self.url, DOCKER_CONFIG=str(self.folder / "config"),
                    DOCKER_BUILDKIT="0")

    def client(self):
        return ["docker"]

    def words(self):
        # containerd's socket is found only by an absolute path.
        folder = self.folder.resolve()
        return ["dockerd", "--data-root", str(folder / "data"), "--exec-root", str(folder / "exec"),
                "--pidfile", str(folder / "pid"), "-H", f"unix://{folder / 'sock'}", "--bridge=none",
                "--iptables=false", "--ip-forward=false", "--ip-masq=false", *self.more]


class Podman(Engine):
    """`registries` are addresses without TLS that it may ask; docker asks any of this machine."""

    name = "podman"
    programs = ("podman", "runc", "conmon")

    def __init__(self, folder=None, registries=()):
        super().__init__(folder)
        self.registries = registries

    @property
    def env(self):
        conf, storage = self.folder / "containers.conf", self.folder / "storage.conf"
        if not conf.exists():
            conf.write_text(CONTAINERS_CONF)
            storage.write_text('[storage]\ndriver = "overlay"\n'
                               f'graphroot = "{self.folder}/graph"\nrunroot = "{self.folder}/run"\n')
            (self.folder / "registries.conf").write_text(
                "".join(f'[[registry]]\nlocation = "{address}"\ninsecure = true\n' for address in self.registries))
        return dict(os.environ, PATH=PATH, CONTAINERS_CONF=str(conf), CONTAINERS_STORAGE_CONF=str(storage),
                    CONTAINERS_REGISTRIES_CONF=str(self.folder / "registries.conf"), TMPDIR=str(self.folder))

    def client(self):
        return ["podman", "--remote", "--url", self.url]

    def words(self):
        return ["podman", "system", "service", "--time=0", self.url]


class Registry:
    """A registry on a free port of this machine; with a password only `user` gets anything."""

    user = "reader"

    def __init__(self, password=None):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="registry-"))
        self.password = password
        self.address = ""
        self.process = None

    def up(self):
        try:
            skip_without("docker-registry")
            self._start()
        except BaseException:
            self.down()
            raise
        return self

    def _start(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{probe.getsockname()[1]}"
        config = (f"version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: {self.folder}/data\n"
                  f"http:\n  addr: {self.address}\n")
        if self.password:
            (self.folder / "users").write_text(f"{self.user}:{bcrypt(self.password)}\n")
            config += f"auth:\n  htpasswd:\n    realm: test\n    path: {self.folder}/users\n"
        (self.folder / "config.yml").write_text(config)
        with open(self.folder / "log", "wb") as log:
            self.process = subprocess.Popen(["docker-registry", "serve", str(self.folder / "config.yml")],
                                            env=dict(os.environ, PATH=PATH), stdout=log, stderr=log)
        host, port = self.address.split(":")
        end = time.monotonic() + UP_S
        while True:
            with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 1):
                return
            if self.process.poll() is not None or time.monotonic() > end:
                raise AssertionError((self.folder / "log").read_text())
            time.sleep(0.02)

    def down(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None
        shutil.rmtree(self.folder, ignore_errors=True)


def bcrypt(password):
    """As htpasswd writes it; the machine's own libcrypt knows how."""
    name = ctypes.util.find_library("crypt")
    library = ctypes.CDLL(name) if name else None
    if library is None:
        raise unittest.SkipTest("skipped: this machine has no libcrypt")
    library.crypt.restype = ctypes.c_char_p
    hashed = (library.crypt(password.encode(), b"$2b$05$abcdefghijklmnopqrstuu") or b"*").decode()
    if not hashed.startswith("$2b$"):
        raise unittest.SkipTest("skipped: this machine's libcrypt knows no bcrypt")
    return hashed.replace("$2b$", "$2y$", 1)


# ---- images ----

def make_busybox_root(path):
    """Debian's busybox-static as a root file system, in a tar file."""
    skip_without("busybox")
    busybox = shutil.which("busybox", path=PATH)
    applets = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split()
    with tarfile.open(path, "w") as tar:
        for folder in ("bin", "etc", "proc", "sys", "dev", "tmp", "root", "usr", "usr/bin"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            tar.addfile(entry)
        tar.add(busybox, "bin/busybox", filter=owned_by_root)
        for name in applets:
            if name == "busybox":
                continue
            entry = tarfile.TarInfo(f"bin/{name}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(entry)


def owned_by_root(entry):
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    return entry


def debian_root():
    """A tar file of a small Debian with Python, made once per machine (40 s, 200 MB)."""
    skip_without("mmdebstrap")
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "trainyard-tests"
    cache.mkdir(parents=True, exist_ok=True)
    path = cache / "bookworm-python.tar"
    with open(cache / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if path.exists():
            return path
        half = cache / "half-made.tar"
        done = subprocess.run(["mmdebstrap", "--variant=minbase", "--include=python3-minimal,python3-pip,ca-certificates",
                               "bookworm", str(half)], env=dict(os.environ, PATH=PATH), capture_output=True,
                              text=True, timeout=BASE_S, check=False)
        if done.returncode != 0:
            raise unittest.SkipTest(f"skipped: no base image can be made here: {done.stderr[-500:]}")
        half.rename(path)
    return path


# ---- what a killed daemon leaves ----

def end_processes_of(folder):
    """Kills what names the folder: containerd, its shims, conmon; and what has its root there: containers."""
    mark = str(folder).encode()
    end = time.monotonic() + DOWN_S
    while time.monotonic() < end:
        left = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
                if pid != os.getpid() and (mark in command_line(pid) or mark in root_mount(pid))]
        if not left:
            return
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def command_line(pid):
    """Of shims and monitors alone: a test names the folder too, and is not ours to end."""
    with contextlib.suppress(OSError):
        words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
        program = words.split(b"\0", 1)[0].rsplit(b"/", 1)[-1]
        if program in (b"containerd", b"containerd-shim-runc-v2", b"dockerd", b"conmon", b"podman", b"runc"):
            return words
    return b""


def root_mount(pid):
    """What its root is mounted from."""
    with contextlib.suppress(OSError):
        for line in pathlib.Path(f"/proc/{pid}/mountinfo").read_bytes().splitlines():
            if line.split()[4] == b"/":
                return line
    return b""


def unmount_below(folder):
    """A killed engine leaves its overlays mounted, and a folder with a mount cannot be removed."""
    mounts = [line.split()[4] for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()]
    for path in sorted((m for m in mounts if m.startswith(f"{folder}/")), reverse=True):
        subprocess.run(["umount", "-l", path], check=False, stderr=subprocess.DEVNULL)
