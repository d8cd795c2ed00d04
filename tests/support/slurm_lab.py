"""A real Slurm of several nodes on this one machine, for tests.

    lab = SlurmLab(nodes=4)
    self.addCleanup(lab.down)
    lab.up()
    subprocess.run(["sbatch", ...], env=dict(os.environ, **lab.env))

Where we are root, every node is in mount, network, host-name and PID namespaces of its own: it sees
this machine's system read-only, a /tmp of its own, and neither the project's folder nor any home; it
reaches the other nodes and `lab.address` (where a server may listen) and nothing else. Jobs run as
the user `lab.user`, who has no rights. Elsewhere the nodes are plain processes, and `lab.isolated` is
false; needs_isolation() then skips a test, saying why.

Nothing is fixed: several labs run side by side. All ends with down(), and all but a folder and a
bridge also when the test itself is killed; the next lab removes those.
"""
import contextlib
import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

import lab_root
from lab_config import CONFIG
from lab_control import Control
from lab_tools import (COMMAND_S, PATH, PREFIX, check_packages, child_of, clean, descendants, end, free_port, make_user,
                       name_of, open_way_to, owner_mark, remove_stale, run, why_not_isolated)

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
USER = "trainyard-lab"
CLIENTS = ("sbatch", "squeue", "scancel", "scontrol", "sinfo", "srun", "salloc", "sprio", "sacct")
PORT_TRIES = 5
UP_S = 30       # A lab comes up in about a second.


class SlurmLab:
    """Nodes are n1, n2, …; `bare` names one whose root has bash, coreutils and Slurm alone."""

    def __init__(self, folder=None, nodes=4, cpus=2, memory_mb=4000, bare=None, shared=False, hide=(),
                 started=None, slurmd_timeout=10, message_timeout=10, grace_s=5, isolate=True, config=""):
        self.own_folder = folder is None
        self.folder = pathlib.Path(folder or tempfile.mkdtemp(prefix=PREFIX))
        self.folder.mkdir(exist_ok=True)
        (self.folder / "owner").write_text(owner_mark(os.getpid()))
        self.names = [f"n{i + 1}" for i in range(nodes)]
        self.cpus = cpus
        self.memory_mb = memory_mb
        self.bare = bare
        self.hide = [str(ROOT), *map(str, hide)]
        self.shared = self.folder / "shared" if shared else None
        self.started = list(self.names if started is None else started)
        self.slurmd_timeout = slurmd_timeout
        self.message_timeout = message_timeout  # Clients retry a controller that is away for this long.
        self.grace_s = grace_s  # Of preempted jobs; Slurm may take twice as long.
        self.isolate = isolate
        self.config = config
        self.user = USER if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
        self.isolated = False
        self.why_not_isolated = ""
        self.address = "127.0.0.1"
        self.bridge = None
        self.munged = None
        self.controller = None
        self.processes = {}   # Of a node: its first process, or slurmd itself where not isolated.
        self.lock = threading.RLock()
        self.control = None
        self.boot_s = 0           # What the node-up program takes before it starts a node.
        self.boot_fails = set()   # Nodes for which it fails.
        self.booted = []          # What it was asked: ("up", "n1"), ("down", "n1"), …

    # ---- up and down ----

    def up(self):
        try:
            check_packages()
            remove_stale()
            self._prepare()
            self._start_munge()
            self._make_network()
            for _ in range(PORT_TRIES):
                self._write_config()
                self.start_controller(wait=False)
                if self._controller_listens():
                    break
            self.start_nodes(self.started, wait=False)
            self.wait_for(lambda: self.idle() >= set(self.started), "the nodes to be idle", UP_S)
        except BaseException:
            self.down()
            raise
        return self

    def _controller_listens(self):
        """False when it ended at once: somebody took its port since that was found free."""
        while self.controller.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection((self.address, self.controller_port), 1):
                return True
            time.sleep(0.02)
        return False

    def down(self):
        """Ends every process of the lab and removes what it made. May be called twice."""
        with self.lock:
            if self.control:
                self.control.end()
                self.control = None
            for name in list(self.processes):
                self.kill_node(name)
            for process in (self.controller, self.munged):
                end(process)
            self.controller = self.munged = None
            if self.bridge:
                run(["ip", "link", "delete", self.bridge], check=False)
                self.bridge = None
            if self.own_folder:
                shutil.rmtree(self.folder, ignore_errors=True)

    def node_programs(self):
        """Paths of two programs that start and stop the node they are given, as an admin's would."""
        if self.control is None:
            self.control = Control(self)
        return self.folder / "bin" / "node-up", self.folder / "bin" / "node-down"

    def needs_isolation(self):
        if not self.isolated:
            raise unittest.SkipTest(f"skipped: {self.why_not_isolated}")

    # ---- what tests ask of it ----

    @property
    def env(self):
        """Variables for whoever talks to this Slurm. As root, its commands are those of `user`."""
        return {"SLURM_CONF": str(self.folder / "etc" / "slurm.conf"),
                "PATH": f"{self.folder / 'bin'}:{PATH}",
                "OMPI_MCA_btl": "tcp,self"}

    def run(self, *command, timeout=COMMAND_S, check=True, **more):
        """A command here, as `user`, e.g. run("sinfo"); its stdout."""
        more.setdefault("cwd", "/")
        return run([*self._as_user(), *map(str, command)], check=check, timeout=timeout,
                   env=dict(clean(os.environ), **self.env), **more).stdout

    def exec_on(self, name, *command, user=True, timeout=COMMAND_S, check=True):
        """A command on a node, outside of any job -> the finished process."""
        process = self.processes[name]
        argv = [str(word) for word in command]
        if self.isolated:
            me = pwd.getpwnam(self.user)
            who = ["-S", str(me.pw_uid), "-G", str(me.pw_gid)] if user else []
            argv = ["nsenter", "-t", str(child_of(process.pid)), "-m", "-n", "-u", "-i", "-p", *who, "--", *argv]
        return run(argv, timeout=timeout, check=check, cwd="/",
                   env={"PATH": "/usr/bin:/usr/sbin:/bin", "SLURM_CONF": self.env["SLURM_CONF"],
                        "SLURMD_NODENAME": name, "LANG": "C.UTF-8"})

    def processes_on(self, name):
        """The pids, as we see them, of what runs on a node."""
        process = self.processes.get(name)
        return [*(descendants(process.pid) if process else []), *([] if self.isolated else self._tasks(name))]

    def address_of(self, name):
        number = self.names.index(name)
        return f"{self.address.rsplit('.', 1)[0]}.{number + 11}" if self.isolated else "127.0.0.1"

    def states(self):
        """{node: its state as sinfo has it, e.g. idle, down*, drained}"""
        try:
            text = self.run("sinfo", "-h", "-N", "-o", "%N %T", check=False)
        except subprocess.TimeoutExpired:
            text = ""
        return dict(line.split() for line in text.splitlines())

    def idle(self):
        return {name for name, state in self.states().items() if state == "idle"}

    def wait_for(self, condition, what, seconds=30):
        limit = time.monotonic() + seconds
        while not (value := condition()):
            if time.monotonic() > limit:
                raise AssertionError(f"waited {seconds} s in vain for: {what}\n{self.logs()}")
            time.sleep(0.03)
        return value

    def wait_for_state(self, name, *states, seconds=60):
        return self.wait_for(lambda: self.states().get(name) in states, f"{name} to be {' or '.join(states)}",
                             seconds)

    def logs(self, lines=6):
        """The ends of the daemons' logs, for a failed test's message."""
        parts = [f"nodes: {self.states()}"] if self.controller else []
        for path in sorted([*self.folder.glob("munge/log"), *self.folder.glob("state/*.log"),
                            *self.folder.glob("node/*/own/*.log")]):
            with contextlib.suppress(OSError):
                parts.append(f"--- {path.relative_to(self.folder)}\n" + "\n".join(path.read_text().splitlines()[-lines:]))
        return "\n".join(parts)

    # ---- faults ----

    def kill_controller(self):
        """kill -9: what Slurm has not written down yet is lost."""
        self.controller.kill()
        self.controller.wait()

    def start_controller(self, wait=True):
        with self.lock:
            self.controller = self._start(["slurmctld", "-D", "-f", self.env["SLURM_CONF"]], user=True,
                                          log=self.folder / "slurmctld.out")
        if wait:
            self.wait_for(self.states, "the controller to answer", UP_S)

    def kill_slurmd(self, name):
        """kill -9 of slurmd alone; what it started goes on."""
        for pid in self._slurmd_pids(name):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.wait_for(lambda: not self._slurmd_pids(name), f"slurmd of {name} to be gone", 5)

    def kill_node(self, name):
        """The machine loses its power: every process on it is gone at once, its /tmp too."""
        with self.lock:
            process = self.processes.pop(name, None)
        if process is None:
            return
        if self.isolated:
            with contextlib.suppress(ProcessLookupError, LookupError):
                os.kill(child_of(process.pid), signal.SIGKILL)
                process.wait(timeout=10)  # The first process is gone when all others are.
        else:
            for pid in [process.pid, *self._tasks(name)]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        end(process)

    def start_node(self, name, wait=True):
        self.start_nodes([name], wait)

    def start_nodes(self, names, wait=True):
        """Starts nodes that were killed or not there yet, or slurmd alone where only that is gone."""
        with self.lock:
            fresh = [name for name in names if name not in self.processes]
            for name in names:
                if name not in fresh and not self._slurmd_pids(name):
                    self._start_slurmd(name)
            self._start_fresh(fresh)
        if wait:
            for name in names:
                self.wait_for(lambda: self.states().get(name, "*") in ("idle", "mixed", "allocated", "completing"),
                              f"{name} to be up", UP_S)

    def drain(self, name, reason="test"):
        self.run("scontrol", "update", f"NodeName={name}", "State=DRAIN", f"Reason={reason}")

    def set_down(self, name, reason="test"):
        self.run("scontrol", "update", f"NodeName={name}", "State=DOWN", f"Reason={reason}")

    def resume(self, name):
        self.run("scontrol", "update", f"NodeName={name}", "State=RESUME")

    # ---- how it is made ----

    def _as_user(self):
        if os.geteuid() != 0:
            return []
        home = f"HOME=/home/{self.user}"
        return ["setpriv", f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups", "env", home,
                f"USER={self.user}", f"LOGNAME={self.user}"]

    def _prepare(self):
        if os.geteuid() == 0:
            make_user(self.user)
        for part in ("etc", "munge", "state", "bin", *(f"node/{name}/{p}" for name in self.names
                                                       for p in ("own", "root"))):
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        if self.shared:
            self.shared.mkdir(exist_ok=True)
            self.shared.chmod(0o1777)
        open_way_to(self.folder)
        if os.geteuid() == 0:
            for part in ("munge", "state"):
                shutil.chown(self.folder / part, self.user, self.user)
        for name in CLIENTS:
            if real := shutil.which(name, path=PATH):
                script = self.folder / "bin" / name
                as_user = " ".join(self._as_user())
                script.write_text(f'#!/bin/sh\n[ ! -O / ] || exec {as_user} {real} "$@"\nexec {real} "$@"\n')
                script.chmod(0o755)

    def _start_munge(self):
        folder = self.folder / "munge"
        key = folder / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        if os.geteuid() == 0:
            shutil.chown(key, self.user, self.user)
        self.munged = self._start(
            ["munged", "--foreground", f"--key-file={key}", f"--socket={folder / 'socket'}",
             f"--pid-file={folder / 'pid'}", f"--log-file={folder / 'log'}", f"--seed-file={folder / 'seed'}"],
            user=True, log=folder / "out")
        self.wait_for((folder / "socket").exists, "munge's socket", 10)

    def _make_network(self):
        """A bridge of our own, with a /24 of the block that is set apart for tests (RFC 2544)."""
        self.why_not_isolated = why_not_isolated() if self.isolate else "the nodes are to be plain processes"
        if self.why_not_isolated:
            return
        taken = run(["ip", "-o", "-4", "address"]).stdout
        first = os.getpid()
        for number in ((first + i) % 256 for i in range(256)):
            if f" 198.18.{number}." in taken:
                continue
            name = f"tylab{number}"
            made = run(["ip", "link", "add", name, "type", "bridge"], check=False)
            if made.returncode == 0:  # The name is the lock on the number.
                break
        else:
            raise AssertionError(f"no free network for a lab: {made.stderr}")
        self.bridge = name
        self.address = f"198.18.{number}.1"
        run(["ip", "-batch", "-"], input=f"link set {name} alias {owner_mark(os.getpid())}\n"
            f"address add {self.address}/24 dev {name}\nlink set {name} up\n")
        self.isolated = True

    def _write_config(self):
        host = socket.gethostname().split(".")[0]
        folder = self.folder
        if self.isolated:
            nodes = [f"NodeName={name} NodeHostname={name} NodeAddr={self.address_of(name)}" for name in self.names]
            ports = [free_port("0.0.0.0"), 6818]  # Slurm's controller listens everywhere.
        else:
            ports = [free_port() for _ in range(len(self.names) + 2)]
            nodes = [f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port}"
                     for name, port in zip(self.names, ports[2:])]
        self.controller_port = ports[0]
        # By these slurmctld binds to what its host's name means, which is no bridge.
        listen = "" if self.isolated else "CommunicationParameters=NoCtldInAddrAny,NoInAddrAny"
        what = f" CPUs={self.cpus} RealMemory={self.memory_mb} State=UNKNOWN\n"
        text = CONFIG.format(folder=folder, host=host, address=self.address, user=self.user, port=ports[0],
                             slurmd_port=ports[1], slurmd_user="root" if os.geteuid() == 0 else self.user,
                             slurmd_timeout=self.slurmd_timeout, message_timeout=self.message_timeout,
                             listen=listen, grace_s=self.grace_s,
                             nodes="".join(node + what for node in nodes)) + self.config
        (folder / "etc" / "slurm.conf").write_text(text)
        # Said outright, it is not looked for: a node without /sys/fs/cgroup would not start.
        (folder / "etc" / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        hosts = [f"127.0.0.1 localhost\n{self.address} {host}\n"]
        hosts += [f"{self.address_of(name)} {name}\n" for name in self.names]
        (folder / "etc" / "hosts").write_text("".join(hosts))

    def _start_fresh(self, names):
        if not self.isolated:
            for name in names:
                self._start_slurmd(name)
            return
        bare = self.folder / "bare"
        if self.bare in names and not bare.exists():
            lab_root.make(bare, self.user)
        for name in names:
            lower = bare if name == self.bare else "/"
            hide = [] if name == self.bare else self.hide
            self.processes[name] = self._start(
                ["unshare", "--mount", "--net", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "bash",
                 HERE / "lab_node.sh", name, self.address_of(name), self.folder, self.user, lower, *hide],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, log=self.folder / "node" / name / "out")
        for name in names:
            self._expect(name, "ready")
        # The other end of each node's cable has a name only while the node lives.
        cables = "".join(f"link add {self.bridge}.{name} type veth peer name eth0 netns {self.processes[name].pid}\n"
                         f"link set {self.bridge}.{name} master {self.bridge} up\n" for name in names)
        run(["ip", "-batch", "-"], input=cables)
        for name in names:
            self.processes[name].stdin.write(b"go\n")
            self.processes[name].stdin.close()
        for name in names:
            self._expect(name, "up")
            self.processes[name].stdout.close()

    def _expect(self, name, word):
        line = self.processes[name].stdout.readline().decode().strip()
        if line != word:
            said = (self.folder / "node" / name / "out").read_text()
            raise AssertionError(f"node {name} did not start: {line} {said}\n{self.logs()}")

    def _start_slurmd(self, name):
        if self.isolated:
            self.exec_on(name, "slurmd", "-N", name, user=False)
        else:
            self.processes[name] = self._start(["slurmd", "-D", "-N", name], log=self.folder / "node" / name / "out")

    def _slurmd_pids(self, name):
        process = self.processes.get(name)
        if process is None:
            return []
        if not self.isolated:
            return [process.pid] if process.poll() is None else []
        return [pid for pid in descendants(process.pid) if name_of(pid) == "slurmd"]

    def _tasks(self, name):
        """What jobs started on a node that is no namespace."""
        found = []
        for entry in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                words = pathlib.Path(f"/proc/{entry}/environ").read_bytes().split(b"\0")
                if (f"SLURMD_NODENAME={name}".encode() in words
                        and f"SLURM_CONF={self.env['SLURM_CONF']}".encode() in words):
                    found.append(int(entry))
        return found

    def _start(self, argv, log, user=False, **more):
        """A child that ends with us at the latest."""
        rights = self._as_user() if user else []
        lead = ["setpriv", "--pdeathsig", "KILL", *rights[1:]] if rights else ["setpriv", "--pdeathsig", "KILL"]
        more.setdefault("stdin", subprocess.DEVNULL)
        with open(log, "ab") as out:
            more.setdefault("stdout", out)
            return subprocess.Popen([*lead, *map(str, argv)], stderr=out, cwd="/", start_new_session=True,
                                    env=dict(clean(os.environ), PATH=PATH, SLURM_CONF=self.env["SLURM_CONF"]),
                                    **more)
