"""Brings a snapshot to the server: what it has already is not sent again."""

import os

from .capture import Captured
from .errors import Conflict, TrainyardError
from .tree import Entry

_ASK_MAX = 8000  # Digests in one question: half a megabyte.
_PACK_MAX = 64 << 20  # A pack ends with the blob that reaches it.
_PACK_S = 300.0  # The server answers when the pack is on its disk, and that may be slow.
_ROUNDS_MAX = 3
_CHUNK = 256 * 1024
_HEAD = 40


def upload_missing(server, captured: "Captured", workspace: str = "") -> int:
    """Sends missing blobs in packs, then the tree's own text; returns how many files it sent. The
    tree goes last, so a server that has it has everything it names. ``workspace`` is the one it
    is submitted to."""
    if not _missing(server, [captured.id], workspace):
        return 0
    by_digest = {entry.digest: entry for entry in captured.entries if entry.is_file}
    wanted = [by_digest[digest] for digest in _missing(server, sorted(by_digest), workspace)]
    wanted.sort(key=lambda entry: entry.path)
    sent = len(wanted)
    for _ in range(_ROUNDS_MAX):
        if not wanted:
            break
        bad = set()
        for pack in _packs(wanted):
            bad.update(_send_files(server, captured.folder, pack))
        wanted = [entry for entry in wanted if entry.digest in bad]
    if wanted:
        path = os.path.join(captured.folder, os.fsdecode(wanted[0].path))
        raise Conflict(f"{path} is no longer what was captured",
                       "Try again when nothing writes to it.")
    if _send(server, _head(captured.id, len(captured.text)) + captured.text, None):
        raise TrainyardError("the server does not take the snapshot's tree")
    return sent


def _missing(server, digests: "list[str]", workspace: str) -> "list[str]":
    missing = []
    for begin in range(0, len(digests), _ASK_MAX):
        answer = server.call("POST", "/blobs/missing", {"digests": digests[begin:begin + _ASK_MAX],
                                                        "workspace": workspace}, again=True)
        missing += answer["missing"]
    return missing


def _packs(entries: "list[Entry]"):
    pack: list[Entry] = []
    size = 0
    for entry in entries:
        pack.append(entry)
        size += _HEAD + entry.size
        if size >= _PACK_MAX:
            yield pack
            pack, size = [], 0
    if pack:
        yield pack


def _send_files(server, folder: str, pack: "list[Entry]") -> "list[str]":
    """Sends a pack; returns the digests of those that came out wrong."""
    return _send(server, _pieces(os.fsencode(folder), pack),
                 sum(_HEAD + entry.size for entry in pack))


def _send(server, body, size: "int | None") -> "list[str]":
    import json
    headers = {"content-type": "application/octet-stream"}
    if size is not None:
        headers["content-length"] = str(size)
    return json.loads(server.send("POST", "/blobs", body, headers=headers, timeout=_PACK_S,
                                  again=True))["bad"]


def _head(digest: str, size: int) -> bytes:
    return bytes.fromhex(digest) + size.to_bytes(8, "little")


def _pieces(folder: bytes, pack: "list[Entry]"):
    for entry in pack:
        yield _head(entry.digest, entry.size)
        if entry.replaced is not None:
            yield entry.replaced
            continue
        left = entry.size
        try:
            file = open(os.path.join(folder, entry.path), "rb")
        except OSError as error:
            raise Conflict(f"{os.fsdecode(entry.path)} is no longer what was captured: "
                           f"{error.strerror}", "Try again when nothing writes to it.") from error
        with file:
            while left:
                piece = file.read(min(left, _CHUNK))
                # One that has become shorter is filled up: the size is promised already, and the
                # server will call the blob bad.
                piece = piece or bytes(min(left, _CHUNK))
                left -= len(piece)
                yield piece
