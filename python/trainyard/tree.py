"""A folder as a list: the text whose SHA-256 is a snapshot's id. Same folder, same text, whoever
reads it: this is the command line's format, byte for byte."""

import re

from .errors import TrainyardError

_FIRST_LINE = b"trainyard-tree 1\n"
_ODD = re.compile(rb"[^ -~]|\\")
_ESCAPE = re.compile(rb"\\x([0-9a-f]{2})")


class Entry:
    """Something in a folder. ``kind``: file, exec, link, or folder (an empty one)."""

    __slots__ = ("kind", "path", "size", "digest", "target", "replaced")

    def __init__(self, kind: str, path: bytes, size: int = 0, digest: str = "",
                 target: bytes = b"") -> None:
        self.kind = kind
        self.path = path  # Relative, '/' between parts.
        self.size = size
        self.digest = digest  # Of a file's bytes, in hex.
        self.target = target  # Of a link, as it was written.
        self.replaced: bytes | None = None  # What is kept in place of the file's own bytes.

    @property
    def is_file(self) -> bool:
        """Whether it has bytes."""
        return self.kind in ("file", "exec")


def write_tree(entries: "list[Entry]") -> bytes:
    """The text of entries, which are in the order of their paths' bytes."""
    lines = [_FIRST_LINE]
    for entry in entries:
        fields = [entry.kind.encode()]
        if entry.is_file:
            fields += [entry.digest.encode(), b"%d" % entry.size]
        fields.append(_escaped(entry.path))
        if entry.kind == "link":
            fields.append(_escaped(entry.target))
        lines.append(b"\t".join(fields) + b"\n")
    return b"".join(lines)


def read_tree(text: bytes) -> "list[Entry]":
    """The entries of a text; a path that would leave the folder is refused."""
    if not text.startswith(_FIRST_LINE) or not text.endswith(b"\n"):
        raise TrainyardError("this is not a tree of a version known here")
    entries = []
    for line in text[len(_FIRST_LINE):].splitlines():
        word, *fields = line.split(b"\t")
        kind = word.decode()
        if kind in ("file", "exec"):
            digest, size, path = fields
            entry = Entry(kind, _plain(path), int(size), digest.decode())
        elif kind == "link":
            path, target = fields
            entry = Entry(kind, _plain(path), target=_plain(target))
        elif kind == "folder":
            entry = Entry(kind, _plain(fields[0]))
        else:
            raise TrainyardError(f"a tree has an entry of unknown kind: {kind}")
        if any(part in (b"", b".", b"..") for part in entry.path.split(b"/")):
            raise TrainyardError(f"a tree has a path that leaves it: {entry.path!r}")
        entries.append(entry)
    return entries


def _escaped(name: bytes) -> bytes:
    return _ODD.sub(lambda found: b"\\x%02x" % found.group()[0], name)


def _plain(name: bytes) -> bytes:
    return _ESCAPE.sub(lambda found: bytes([int(found.group(1), 16)]), name)
