"""README.md as a newcomer types it: every command, in order, in one shell and a new home.

Every block of commands is run, unless the line before it says "Needs …:". At a ^C in its output a command gets a
Ctrl-C.
"""
import functools
import itertools
import os
import pathlib
import re
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from support.yard import FINAL, ROOT, TRAINYARD, YardTest, main, wait_until

STEP_S = 240
NEEDS_MAX = 1  # Blocks that are not run.
INTERNAL = ("node own", "supervise")  # They have manuals, and are not in the help.


def blocks():
    """(line before it, language, text) of every block of code."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.findall(r"^([^\n]*)\n\n```(\w+)\n(.*?)^```$", text, re.M | re.S)


def steps_of(text):
    """(command, what the README shows of its output) of a block."""
    steps = []
    for line in text.splitlines():
        if line.startswith("$ "):
            steps.append([line[2:], []])
        elif steps and not complete(steps[-1][0]):
            steps[-1][0] += f"\n{line}"
        elif steps:
            steps[-1][1].append(line)
    return steps


def complete(command):
    return subprocess.run(["bash", "-n", "-c", command], capture_output=True).returncode == 0


class Readme(YardTest):
    def setUp(self):
        super().setUp()
        person = self.scratch / "person"
        person.mkdir()
        self.env.setdefault("CCACHE_DIR", os.path.expanduser("~/.cache/ccache"))
        self.env["HOME"] = str(person)
        self.home = person / ".trainyard"
        self.shell = {**self.env, "PWD": str(ROOT)}
        del self.shell["TRAINYARD_HOME"]
        self.env["TRAINYARD_HOME"] = str(self.home)

    def typed(self, command, interrupt_after=None):
        """Runs it in a shell that goes on where the last one ended."""
        end = self.scratch / "end"
        keep = f"set -a; trap 'env -0 > {end}' EXIT\n"
        child = subprocess.Popen(["bash", "-c", keep + command], cwd=self.shell["PWD"], env=self.shell,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                 text=True, start_new_session=True)
        printed = ""
        if interrupt_after:
            while interrupt_after not in printed:
                line = child.stdout.readline()
                self.assertTrue(line, f"$ {command}\n{printed}")
                printed += line
            os.killpg(child.pid, signal.SIGINT)
        printed += child.communicate(timeout=STEP_S)[0]
        self.assertEqual(child.returncode, 130 if interrupt_after else 0, f"$ {command}\n{printed}")
        self.shell = dict(pair.split("=", 1) for pair in end.read_text().split("\0") if pair)
        return printed

    def test_every_command_works_as_typed(self):
        needs, last_of_demo = [], None
        for before, language, text in blocks():
            if re.match("Needs .*:$", before):
                needs.append(before)
            elif language == "python":
                self.typed(f"python3 - <<'END'\n{text}END")
            else:
                self.assertEqual(language, "console")
                for command, shown in steps_of(text):
                    stop = shown[shown.index("^C") - 1] if "^C" in shown else None
                    printed = self.typed(command, stop and " ".join(stop.split()[:2]))
                    if command == "make demo":
                        last_of_demo = printed.splitlines()[-1]
        self.assertLessEqual(len(needs), NEEDS_MAX, needs)
        self.check_demo(last_of_demo)
        for run in self.json("run", "list"):
            if run["status"] not in FINAL:
                self.run_cli("run", "cancel", run["id"])
        wait_until(lambda: all(run["status"] in FINAL for run in self.json("run", "list")), "the runs to end")

    def check_demo(self, line):
        """The last line of `make demo`, in a new shell."""
        found = subprocess.run(
            ["sh", "-euc", f"{line}\ncommand -v trainyard\npython3 -c 'import trainyard; print(trainyard.__file__)'"],
            cwd=self.scratch, env={**self.env, "PATH": os.environ["PATH"]}, capture_output=True, text=True)
        self.assertEqual(found.stdout.splitlines(), [str(ROOT / "build/release/trainyard"),
                                                     str(ROOT / "python/trainyard/__init__.py")], found.stderr)


class Docs(unittest.TestCase):
    def test_every_command_in_the_docs_exists_with_its_options(self):
        texts = [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*/README.md"),
                 *ROOT.glob("src/cli/**/*.md"), ROOT / "python/README.md"]
        wrong = []
        for path in texts:
            for line in command_lines(path.read_text(encoding="utf-8")):
                wrong += [f"{path.relative_to(ROOT)}: {line}: {why}" for why in mistakes(line)]
        self.assertEqual(wrong, [])


def command_lines(text):
    """Calls of trainyard in blocks of commands and in `…`."""
    for block in re.findall(r"^```console\n(.*?)^```$", text, re.M | re.S):
        yield from re.findall(r"^(?:\$ |.*\$\()?(trainyard [^)|#\n]*)", block.replace("\\\n", " "), re.M)
    yield from re.findall(r"`(trainyard [^`]+)`", text)


@functools.cache
def help_of(name):
    return subprocess.run([TRAINYARD, *name.split(), "--help"], capture_output=True, text=True, check=True).stdout


def mistakes(line):
    """What the program does not know of the line, which may leave out values."""
    words = line.split(" -- ")[0].split()[1:]
    spelled = list(itertools.takewhile(re.compile("[a-z][a-z-]*$").match, words))
    names = [" ".join(spelled[:count]) for count in range(len(spelled), 0, -1)]
    commands = re.findall(r"^  (\S+(?: \S+)*)  +\S", help_of("").split("COMMANDS")[1], re.M)
    name = next((name for name in names if name in commands or name in INTERNAL), "")
    # The name of a group alone is fine.
    if names and not name and not any(command.startswith(f"{names[0]} ") for command in commands):
        return ["no such command"]
    return [f"no option {word}" for word in words
            if re.fullmatch("--[a-z][a-z-]*", word) and name and not re.search(rf"{word}\b", help_of(name))]


if __name__ == "__main__":
    main()
