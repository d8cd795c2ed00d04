"""Completion as one sees it: real shells on a terminal, the tab key, and the line that was run in the end."""
import contextlib
import fcntl
import os
import pathlib
import pty
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from support.yard import ROOT, TRAINYARD, YardTest, main

# Runs completions for real, and shows any other command line as the words it has become.
WRAPPER = f"""#!/bin/sh
case "$1" in __complete|completion) exec {TRAINYARD} "$@";; esac
printf 'RAN'; for word; do printf ' <%s>' "$word"; done; echo ' END'
"""


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, argv, env, cwd):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(cwd)
            os.execvpe(argv[0], argv, env)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 250, 0, 0))
        self.seen = ""

    def type(self, keys):
        os.write(self.fd, keys.encode())

    def expect(self, text, seconds=20):
        """Reads until `text` comes; returns all that came before it."""
        end = time.monotonic() + seconds
        while text not in self.seen:
            if not select.select([self.fd], [], [], max(0, end - time.monotonic()))[0]:
                raise AssertionError(f"waited in vain for {text!r}; there was: {self.seen[-1500:]!r}")
            try:
                self.seen += os.read(self.fd, 65536).decode(errors="replace")
            except OSError:
                raise AssertionError(f"the shell ended; there was: {self.seen[-1500:]!r}") from None
        before, self.seen = self.seen.split(text, 1)
        return before

    def close(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


class Completion(YardTest):
    def setUp(self):
        super().setUp()
        self.bin = self.scratch / "bin"
        self.bin.mkdir()
        for name, text in (("trainyard", WRAPPER), ("yard-own-program", "#!/bin/sh\n")):
            (self.bin / name).write_text(text)
            (self.bin / name).chmod(0o755)
        (self.scratch / "user").mkdir()
        self.env |= {"PATH": f"{self.bin}:/usr/local/bin:/usr/bin:/bin", "HOME": str(self.scratch / "user"),
                     "TERM": "xterm", "LC_ALL": "C.UTF-8", "INPUTRC": "/dev/null"}
        (self.code / "backup-folder").mkdir()
        (self.code / "backup-file").touch()
        (self.code / "metadata.json").touch()

    def fill(self):
        """Two runs of two experiments; returns the ids."""
        self.ok("submit", "-e", "alpha", "--name", "my first", "--", "true")
        self.ok("submit", "-e", "two words", "--", "true")
        second, first = (run["id"] for run in self.json("run", "list"))
        return first, second

    def installed(self, name):
        """A script as `make install` leaves it."""
        prefix = self.scratch / "prefix"
        if not prefix.exists():
            subprocess.run(["cmake", "--install", ROOT / "build/release", "--prefix", prefix],
                           check=True, capture_output=True)
        return prefix / "share" / name

    def words(self, *words):
        return self.ok("__complete", "--", *words)

    # ---- what the scripts ask ----

    def test_without_a_server_nothing_is_said_and_none_is_started(self):
        self.assertEqual(self.words("run", "show", ""), "")
        self.assertFalse(self.home.exists())
        self.assertIn("list\tList runs", self.words("run", ""))

    def test_a_server_that_does_not_answer_is_not_waited_for(self):
        self.home.mkdir()
        with socket.socket(socket.AF_UNIX) as deaf:
            deaf.bind(str(self.home / "socket"))
            deaf.listen()
            begin = time.monotonic()
            self.assertEqual(self.words("run", "show", ""), "")
            took = time.monotonic() - begin
        self.assertGreater(took, 0.25)
        self.assertLess(took, 3)

    def test_an_unknown_server_is_silence(self):
        for url in ("nonsense", "http://127.0.0.1:1", "http://256.0.0.1:80"):
            done = self.run_cli("__complete", "--", "--server", url, "run", "show", "")
            self.assertEqual((done.code, done.out, done.err), (0, "", ""))

    def test_names_come_from_the_server(self):
        first, second = self.fill()
        self.ok("workspace", "create", "lab")
        self.ok("user", "create", "ada", "--role", "reader")
        self.assertEqual(self.words("run", "show", ""),
                         f"{second}\tCompleted, two words\n{first}\tmy first, Completed, alpha\n")
        self.assertEqual(self.words("run", "show", first[:-3]), f"{first}\tmy first, Completed, alpha\n")
        self.assertEqual(self.words("run", "show", "my f"), f"{first}\tmy first, Completed, alpha\n")
        self.assertEqual(self.words("run", "show", "-e", "two words", ""), f"{second}\tCompleted, two words\n")
        self.assertEqual(self.words("run", "show", "-w", "lab", ""), "")
        self.assertEqual(self.words("run", "show", f"--run={first[:-2]}"),
                         f"--run={first}\tmy first, Completed, alpha\n")
        self.assertEqual(self.words("run", "list", "-e", "al"), "alpha\truns: 1\n")
        self.assertEqual(self.words("run", "list", "-w", "lab", "-e", ""), "")
        self.assertEqual(self.words("run", "list", "-w", "l"), "lab\n")
        self.assertEqual(self.words("user", "delete", "a"), "ada\treader\n")
        self.ok("secret", "set", "API_KEY", "--value", "not in the answer")
        self.assertEqual(self.words("secret", "delete", ""), "API_KEY\n")
        self.assertEqual(self.words("submit", "--secret", "API"), "API_KEY\n")
        self.assertEqual(self.words("secret", "delete", "-w", "lab", ""), "")
        self.ok("environment", "register", "-n", "skies", "--image", "debian")
        self.assertEqual(self.words("submit", "--environment", "sk"), "skies\tcontainer\nsklearn\tvenv\n")
        self.assertEqual(self.words("environment", "show", "sk"), "skies\tcontainer\nsklearn\tvenv\n")
        elsewhere = str(self.scratch / "elsewhere")
        self.assertEqual(self.words("--home", elsewhere, "run", "show", ""), "")

    def test_completion_refuses_what_is_no_shell(self):
        self.refused(2, "completion")
        self.assertIn("bash, zsh, fish", self.refused(2, "completion", "tcsh"))

    def test_what_is_printed_is_what_is_installed(self):
        for shell, name in (("bash", "bash-completion/completions/trainyard"),
                            ("zsh", "zsh/site-functions/_trainyard"),
                            ("fish", "fish/vendor_completions.d/trainyard.fish")):
            self.assertEqual(self.ok("completion", shell), self.installed(name).read_text())

    # ---- the shells ----

    @contextlib.contextmanager
    def terminal(self, argv, *setup):
        terminal = Terminal(argv, self.env, self.code)
        try:
            for line in setup:
                terminal.type(line + "\r")
            terminal.type("echo rea''dy\r")
            terminal.expect("ready")
            yield terminal
        finally:
            terminal.close()

    def becomes(self, terminal, keys, *words):
        """What is typed is run as `words` in the end."""
        terminal.type(f"trainyard {keys}\r")
        terminal.expect("RAN ")
        # zsh takes the slash of a folder back when the line ends there.
        ran = terminal.expect(" END").replace("/>", ">")
        self.assertEqual(ran, " ".join(f"<{word}>" for word in words), keys)

    def everything(self, terminal, first):
        self.becomes(terminal, "ru\t", "run")
        self.becomes(terminal, "run sho\t", "run", "show")
        self.becomes(terminal, "run list --exper\talpha", "run", "list", "--experiment-name", "alpha")
        self.becomes(terminal, "run list -o tab\t", "run", "list", "-o", "table")
        self.becomes(terminal, "run list --output=tab\t", "run", "list", "--output=table")
        self.becomes(terminal, "run list --status Comp\t", "run", "list", "--status", "Completed")
        self.becomes(terminal, f"run show {first[:-3]}\t", "run", "show", first)
        self.becomes(terminal, f"run show --run={first[:-3]}\t", "run", "show", f"--run={first}")
        self.becomes(terminal, f"run cp {first[:-3]}\tlog x", "run", "cp", f"{first}:log", "x")
        self.becomes(terminal, "run list -e alp\t", "run", "list", "-e", "alpha")
        self.becomes(terminal, "run list -e tw\t", "run", "list", "-e", "two words")
        self.becomes(terminal, "run list -e 'tw\t", "run", "list", "-e", "two words")
        self.becomes(terminal, "server backup back\t", "server", "backup", "backup-folder")
        self.becomes(terminal, "run list -t met\t", "run", "list", "-t", "metadata.json")
        self.becomes(terminal, "run list --output-metadata-file=met\t", "run", "list",
                     "--output-metadata-file=metadata.json")
        self.becomes(terminal, "submit -- yard-own\t", "submit", "--", "yard-own-program")
        self.becomes(terminal, "submit -- cat met\t", "submit", "--", "cat", "metadata.json")
        self.becomes(terminal, "submit --nonsense\t", "submit", "--nonsense")

    def needs(self, program):
        if shutil.which(program) is None:
            self.skipTest(f"skipped: {program} is not installed")

    def bash(self, *setup):
        script = self.installed("bash-completion/completions/trainyard")
        return self.terminal(["bash", "--norc", "--noprofile", "-i"], "PS1='> '",
                             "bind 'set enable-bracketed-paste off'", *setup, f"source {script}")

    def test_bash(self):
        first, second = self.fill()
        with self.bash() as terminal:
            self.everything(terminal, first)
            self.becomes(terminal, "run show my\\ fi\t", "run", "show", first)
            # The ids may begin alike: the first tab then writes that, and the next ones list them.
            terminal.type("trainyard run show \t\t\t")
            listed = terminal.expect(first) + terminal.expect("> ")
            self.assertIn(second, listed)

    def test_bash_with_bash_completion(self):
        library = pathlib.Path("/usr/share/bash-completion/bash_completion")
        if not library.exists():
            self.skipTest("skipped: bash-completion is not installed")
        first, _ = self.fill()
        with self.bash(f"source {library}") as terminal:
            self.everything(terminal, first)

    def test_zsh(self):
        self.needs("zsh")
        first, _ = self.fill()
        folder = self.installed("zsh/site-functions/_trainyard").parent
        with self.terminal(["zsh", "-f", "-i"], "PS1='> '; unset zle_bracketed_paste", f"fpath=({folder} $fpath)",
                           "autoload -Uz compinit; compinit -D -u") as terminal:
            self.everything(terminal, first)
            self.becomes(terminal, "run show my\\ fi\t", "run", "show", first)

    def test_zsh_by_source(self):
        self.needs("zsh")
        with self.terminal(["zsh", "-f", "-i"], "PS1='> '; unset zle_bracketed_paste",
                           "autoload -Uz compinit; compinit -D -u",
                           "source <(trainyard completion zsh)") as terminal:
            self.becomes(terminal, "run sho\t", "run", "show")

    def test_fish(self):
        self.needs("fish")
        first, _ = self.fill()
        share = self.installed("fish/vendor_completions.d/trainyard.fish").parent.parent.parent
        # Without it fish goes through all manuals in the background, and outlives the test.
        (self.scratch / "user/.local/share/fish/generated_completions").mkdir(parents=True)
        self.env["XDG_DATA_DIRS"] = f"{share}:/usr/share"
        with self.terminal(["fish", "-i"], "set fish_autosuggestion_enabled 0; set fish_greeting",
                           "function fish_prompt; echo '> '; end") as terminal:
            self.everything(terminal, first)


if __name__ == "__main__":
    main()
