"""The root of a node that has next to nothing: bash, coreutils and Slurm's own programs."""
import pathlib
import shutil
import subprocess

LOADER = "/lib64/ld-linux-x86-64.so.2"
SLURM = ("slurmd", "slurmstepd", "srun", "sbatch", "scontrol")
TOOLS = """bash cat chmod cp cut date dd dirname basename df du echo env expr false head hostname id install kill ln ls
           mkdir mkfifo mktemp mv nohup nproc od printenv printf pwd readlink realpath rm rmdir seq sha256sum sleep
           sort stat stty sync tail tee test timeout touch tr true uname uniq wc""".split()


def make(root, user):
    root = pathlib.Path(root)
    plugins = pathlib.Path("/usr/lib/x86_64-linux-gnu/slurm-wlm")
    programs = [path for name in (*TOOLS, *SLURM) if (path := shutil.which(name, path="/usr/bin:/usr/sbin"))]
    libraries = [str(path) for path in plugins.glob("*.so") if not skipped(path.name)]
    for folder in ("proc", "sys", "dev", "tmp", "run", "root", "home", "etc", "var/tmp", "usr/bin", "usr/sbin",
                   "usr/lib", "usr/lib64"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    for path in {*programs, *libraries, *needs(programs + libraries)}:
        target = root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            shutil.copy(path, target)
    (root / "usr/bin/sh").symlink_to("bash")
    lines = {}
    for name in ("passwd", "group"):
        with open(f"/etc/{name}") as all_lines:
            lines[name] = "".join(line for line in all_lines if line.split(":")[0] in ("root", user))
        (root / "etc" / name).write_text(lines[name])
    (root / "etc/hosts").touch()
    (root / "etc/nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files\n")


def skipped(plugin):
    """Plugins that no lab uses and that would bring libraries with them."""
    return any(word in plugin for word in ("lua", "jwt", "mysql", "elasticsearch", "hdf5", "pmix", "rest", "openapi",
                                           "serializer_yaml", "cgroup_v2", "jobcomp", "burst", "power", "ipmi"))


def needs(files):
    """The shared libraries that these load, themselves aside."""
    found = set()
    for file in files:
        said = subprocess.run([LOADER, "--list", file], capture_output=True, text=True).stdout
        for line in said.splitlines():
            words = line.replace("=>", " ").split()
            found.update(word for word in words if word.startswith("/"))
    return found
