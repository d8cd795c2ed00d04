"""What the lab asks of the machine: packages, rights, processes, networks."""
import contextlib
import os
import pathlib
import pwd
import shutil
import socket
import subprocess
import tempfile
import unittest

PREFIX = "tylab-"
NEEDED = {"slurmctld": "slurmctld", "slurmd": "slurmd", "munged": "munge", "sinfo": "slurm-client",
          "setpriv": "util-linux"}
PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
COMMAND_S = 30  # Slurm's clients try for 10 s where there is no controller.


def check_packages():
    missing = sorted({package for program, package in NEEDED.items() if not shutil.which(program, path=PATH)})
    if missing:
        raise unittest.SkipTest(f"skipped: a Slurm is needed; install {' '.join(missing)}")


def why_not_isolated():
    """Why nodes cannot have namespaces here; empty when they can."""
    if os.geteuid() != 0:
        return "namespaces and a bridge for the nodes need root"
    for program, package in (("ip", "iproute2"), ("unshare", "util-linux"), ("nsenter", "util-linux")):
        if not shutil.which(program, path=PATH):
            return f"{program} is missing; install {package}"
    tried = run(["unshare", "--mount", "--net", "--uts", "--ipc", "--pid", "--fork", "mount", "-t", "tmpfs", "lab",
                 "/mnt"], check=False)
    return "" if tried.returncode == 0 else f"this machine allows no namespaces: {tried.stderr.strip()}"


def make_user(name):
    with contextlib.suppress(KeyError):
        pwd.getpwnam(name)
        return
    run(["useradd", "--system", "--user-group", "--no-create-home", "--home-dir", f"/home/{name}",
         "--shell", "/bin/bash", name], check=False)
    pwd.getpwnam(name)  # Another lab may have been the first.


def open_way_to(folder):
    """Lets everybody pass through folders of ours that lead to the lab; munge insists on it."""
    for part in (folder, *folder.parents):
        info = part.stat()
        if info.st_uid == os.geteuid() and not info.st_mode & 0o001:
            part.chmod(info.st_mode & 0o7777 | 0o011)
    folder.chmod(0o755)


def owner_mark(pid):
    """Of a process, for ever: its id and when it started."""
    try:
        return f"{pid}:{pathlib.Path(f'/proc/{pid}/stat').read_text().rsplit(')', 1)[1].split()[19]}"
    except OSError:
        return ""


def remove_stale():
    """What is left of labs whose test was killed."""
    for path in pathlib.Path(tempfile.gettempdir()).glob(PREFIX + "*/owner"):
        with contextlib.suppress(OSError):
            mark = path.read_text()
            if owner_mark(mark.split(":")[0]) != mark:
                shutil.rmtree(path.parent, ignore_errors=True)
    for path in pathlib.Path("/sys/class/net").glob("tylab*"):
        with contextlib.suppress(OSError):
            alias = (path / "ifalias").read_text().strip()
            if (path / "bridge").exists() and alias and owner_mark(alias.split(":")[0]) != alias:
                run(["ip", "link", "delete", path.name], check=False)


def free_port(address="127.0.0.1"):
    with socket.socket() as probe:
        probe.bind((address, 0))
        return probe.getsockname()[1]


def clean(env):
    return {k: v for k, v in env.items() if not k.startswith(("SLURM", "SBATCH_", "SRUN_"))}


def run(argv, check=True, timeout=COMMAND_S, **more):
    done = subprocess.run([str(word) for word in argv], capture_output=True, text=True, timeout=timeout, **more)
    if check and done.returncode != 0:
        raise AssertionError(f"{argv} failed: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def end(process):
    if process is None:
        return
    if process.poll() is None:
        process.kill()
    process.wait(timeout=10)
    for pipe in (process.stdin, process.stdout):
        if pipe:
            pipe.close()


def name_of(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def children_of(pid):
    with contextlib.suppress(OSError):
        return [int(word) for word in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def child_of(pid):
    """A node's first process, as we see it: the child of its `unshare`."""
    return children_of(pid)[0]


def descendants(pid):
    found = [pid]
    for one in found:
        found.extend(children_of(one))
    return found
