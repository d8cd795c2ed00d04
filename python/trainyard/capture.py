"""Reads a folder of code into a tree, as the command line does: ``.amlignore``, else
``.gitignore`` and those below it, is honoured; ``.git``, ``outputs``, ``logs`` at the top and the
home stay out."""

import hashlib
import os
import stat
import time

from . import redact
from .errors import Conflict, UserError
from .ignore import IgnoreFile, Level
from .tree import Entry, write_tree
from .warn import warn

_CHUNK = 256 * 1024
_READS_MAX = 7  # Of a file that changes while it is read, after 1, 4, 16, … ms.
_NO_FOLLOW = (getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
              | getattr(os, "O_BINARY", 0))


class Captured:
    """A folder as it was: its entries, their text, and the text's SHA-256, the snapshot's id."""

    def __init__(self, folder: str, entries: "list[Entry]") -> None:
        self.folder = folder
        self.entries = entries
        self.text = write_tree(entries)
        self.id = hashlib.sha256(self.text).hexdigest()

    @property
    def size(self) -> int:
        """How many bytes its files have."""
        return sum(entry.size for entry in self.entries)


def capture(folder: str, excluded: "list[str] | None" = None) -> "Captured":
    """``excluded``: folders that stay out wherever they lie, such as the home."""
    if not os.path.isdir(folder):
        raise UserError(f"the source directory '{folder}' is not a folder")
    walk = _Walk(os.fsencode(folder), excluded or [])
    walk.visit(b"", walk.top_rules())
    entries = []
    for entry in sorted(walk.found, key=lambda found: found.path):
        if not entry.is_file or _read(walk.root, entry, walk.ignore_file):
            _take_out_password(walk.root, entry)
            entries.append(entry)
    return Captured(folder, entries)


class _Walk:
    def __init__(self, root: bytes, excluded: "list[str]") -> None:
        self.root = root
        self.found: list[Entry] = []
        self.ignore_file = ".amlignore"
        self._nested = False  # .gitignore files below the top count too.
        self._excluded = {_identity(path, True) for path in excluded} - {None}

    def top_rules(self) -> "Level | None":
        text = _read_rules(os.path.join(self.root, b".amlignore"), follow=True)
        if text is None:
            text = _read_rules(os.path.join(self.root, b".gitignore"), follow=False)
            self._nested = text is not None
        if self._nested:
            self.ignore_file = ".gitignore"
        return None if text is None else Level(IgnoreFile(text), 0, None)

    def visit(self, top: bytes, rules: "Level | None") -> None:
        waiting = [(top, rules)]
        while waiting:
            folder, level = waiting.pop()
            waiting.extend(self._list(folder, level))

    def _list(self, folder: bytes, level: "Level | None") -> list:
        where = os.path.join(self.root, folder) if folder else self.root
        if self._nested and folder:
            text = _read_rules(os.path.join(where, b".gitignore"), follow=False)
            if text is not None:
                level = Level(IgnoreFile(text), len(folder) + 1, level)
        below = []
        empty = True
        try:
            with os.scandir(where) as items:
                for item in items:
                    path = folder + b"/" + item.name if folder else item.name
                    if self._stays_out(folder, item.name):
                        continue
                    is_folder = item.is_dir(follow_symlinks=False)
                    if level is not None and level.ignores(path, is_folder):
                        continue
                    taken = self._take(item, path, is_folder)
                    empty = empty and not taken
                    if taken and is_folder:
                        below.append((path, level))
        except FileNotFoundError:
            return []  # Gone since its parent was listed.
        except PermissionError as error:
            raise self._unreadable(where, error) from error
        if empty and folder:
            self.found.append(Entry("folder", folder))
        return below

    def _take(self, item, path: bytes, is_folder: bool) -> bool:
        if self._excluded and _identity(item.path) in self._excluded:
            return False
        if is_folder:
            return True
        if item.is_symlink():
            target = os.readlink(item.path)
            if os.name == "nt":
                target = target.replace(b"\\", b"/")
            self.found.append(Entry("link", path, target=target))
        elif item.is_file(follow_symlinks=False):
            self.found.append(Entry("file", path))
        else:
            warn(f"{os.fsdecode(path)}: neither a file nor a folder, left out")
            return False
        return True

    @staticmethod
    def _stays_out(folder: bytes, name: bytes) -> bool:
        # .git at any depth: a submodule has one too. The run gets its own outputs and logs.
        return name == b".git" or not folder and name in (b"outputs", b"logs")

    def _unreadable(self, path: bytes, error: "OSError") -> "UserError":
        return UserError(f"cannot read {os.fsdecode(path)}: {error.strerror}",
                         f"Make it readable, or leave it out by a line in {self.ignore_file}.")


def _read(root: bytes, entry: "Entry", ignore_file: str) -> bool:
    """Fills in an entry's size, digest and kind; False when the file is gone."""
    path = os.path.join(root, entry.path)
    for tries in range(_READS_MAX):
        if tries:
            time.sleep(0.001 * 4**(tries - 1))
        try:
            fd = os.open(path, os.O_RDONLY | _NO_FOLLOW)
        except FileNotFoundError:
            return False
        except PermissionError as error:
            raise UserError(f"cannot read {os.fsdecode(path)}: {error.strerror}",
                            f"Make it readable, or leave it out by a line in {ignore_file}."
                            ) from error
        except OSError:
            continue  # A symbolic link by now.
        with open(fd, "rb", buffering=0) as file:
            before = os.fstat(fd)
            if stat.S_ISREG(before.st_mode) and _hash(file, entry, before.st_size):
                after = os.fstat(fd)
                if _stamp(before) == _stamp(after):
                    runs = os.name != "nt" and after.st_mode & stat.S_IXUSR
                    entry.kind = "exec" if runs else "file"
                    return True
    raise Conflict(f"{os.fsdecode(path)} changes while it is read",
                   "Try again when nothing writes to it, or leave it out by a line in "
                   f"{ignore_file}.")


def _take_out_password(root: bytes, entry: "Entry") -> None:
    """A password in a run configuration is not kept with the run."""
    if not entry.is_file or entry.size > redact.FILE_MAX or not redact.may_hold_password(entry.path):
        return
    with open(os.path.join(root, entry.path), "rb") as file:
        kept = redact.without_passwords(file.read(redact.FILE_MAX))
    if kept is None:
        return
    warn(f"{os.fsdecode(entry.path)}: its password is not kept with the run")
    entry.replaced = kept
    entry.size = len(kept)
    entry.digest = hashlib.sha256(kept).hexdigest()


def _hash(file, entry: "Entry", size: int) -> bool:
    digest = hashlib.sha256()
    got = 0
    while got <= size:
        piece = file.read(_CHUNK)
        if not piece:
            break
        digest.update(piece)
        got += len(piece)
    entry.size = size
    entry.digest = digest.hexdigest()
    return got == size


def _stamp(status: "os.stat_result") -> tuple:
    return status.st_size, status.st_mtime_ns, status.st_ino, status.st_mode


def _identity(path, follow: bool = False) -> "tuple | None":
    try:
        status = os.stat(path, follow_symlinks=follow)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _read_rules(path: bytes, follow: bool) -> "bytes | None":
    """The text of an ignore file, if there is one. Git does not follow a symbolic link."""
    if not os.path.isfile(path) or (not follow and os.path.islink(path)):
        return None
    with open(path, "rb") as file:
        return file.read()
