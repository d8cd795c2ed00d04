"""Waiting for a run, with its console or without."""

import codecs
import json
import struct
import sys
import time

from .errors import RunFailed, TrainyardError, Unavailable, printable
from .run import FINAL

_HEAD = struct.Struct("<cII")  # Kind, rank, size.
_WAIT_RUNNING_S = 20
_WAIT_QUEUED_S = 1  # Its reason changes without the run's version: look again.
_LOST_MAX_S = 120.0  # A server that is not back by then is an error.
_GRACE_S = 15.0
_NOT_BEGUN = ("NotStarted", "Queued", "Provisioning")


def wait_for(run, show_output: bool, raise_on_error: bool) -> dict:
    """Waits for the end of a run and returns its details; raises RunFailed when it is no good."""
    try:
        if show_output:
            url = run.get_portal_url()
            print(f"RunId: {run.id}\n" + (f"Web View: {url}\n" if url else ""), flush=True)
            Follower(run).follow()
        else:
            _wait(run)
    except KeyboardInterrupt:
        print(f"\nThe run goes on. Follow it again with wait_for_completion, or stop it with "
              f"cancel(). RunId: {run.id}", file=sys.stderr)
        raise
    details = run.get_details()
    if show_output:
        print(_summary(run.id, details), flush=True)
    if raise_on_error and details.get("status") != "Completed":
        why = details.get("error") or details.get("reason") or ""
        code = details.get("exitCode")
        ended = f"run {run.id}: {details.get('status')}"
        ended += f", exit {code}" if code is not None else ""
        raise RunFailed(f"{ended}: {printable(why)}" if why else ended, details=details)
    return details


def _summary(run_id: str, details: dict) -> str:
    url = details.get("studioUrl")
    lines = ["", "Execution Summary", "=================", f"RunId: {run_id}",
             *([f"Web View: {url}"] if url else []), f"Status: {details.get('status')}"]
    if details.get("error"):
        lines.append(f"Error: {printable(details['error'])}")
    return "\n".join(lines) + "\n"


def _wait(run) -> None:
    version = 0
    lost = _Lost()
    while True:
        try:
            state = run._server().call("GET", f"/runs/{run.id}/wait",
                                       query={"version": version, "wait": _WAIT_RUNNING_S},
                                       timeout=_WAIT_RUNNING_S + _GRACE_S)
        except Unavailable as error:
            lost.note(error)
            continue
        lost.clear()
        if state["status"] in FINAL:
            return
        version = state.get("version", version)


class Follower:
    """Shows a run's console until the run is over."""

    def __init__(self, run) -> None:
        self._server = run._server()
        self._run = run.id
        known = run._known()
        ranks = known.get("rankCount") or (known.get("nodeCount") or 1) * (known.get("processCountPerNode") or 1)
        self._console = Console(prefix=ranks > 1)
        self._offsets = [0] * ranks
        self._version = 0
        self._reason = ""
        self._lost = _Lost()

    def follow(self) -> dict:
        """Until the end; returns the last state."""
        wait = _WAIT_QUEUED_S
        while True:
            try:
                state, shown = self.ask(wait)
            except Unavailable as error:
                self._lost.note(error)
                continue
            self._lost.clear()
            if state["final"] and not shown:
                self._console.finish()
                return state
            begun = state["status"] not in _NOT_BEGUN
            wait = 0 if state["final"] else _WAIT_RUNNING_S if begun else _WAIT_QUEUED_S
            if not begun and state.get("reason") and state["reason"] != self._reason:
                self._reason = state["reason"]
                self._console.say(f"{state['status']}: {self._reason}")

    def show(self) -> None:
        """What is there by now."""
        while self.ask(0)[1]:
            pass
        self._console.finish()

    def ask(self, wait: int) -> "tuple[dict, int]":
        """One answer of the server: the run's state, and how many bytes of console came."""
        reader = _Frames(self._take)
        self._server.stream(f"/runs/{self._run}/follow",
                            {"from": ",".join(map(str, self._offsets)), "version": self._version,
                             "wait": wait},
                            reader.feed, timeout=wait + _GRACE_S)
        state = reader.finish()
        self._version = state.get("version", self._version)
        return state, reader.shown

    def _take(self, kind: bytes, rank: int, data: bytes) -> None:
        if rank >= len(self._offsets):
            raise TrainyardError(f"follow: the run has no rank {rank}")
        self._console.write(kind, rank, data)
        self._offsets[rank] += len(data)  # As they come: after a lost connection we go on here.


class _Frames:
    """Cuts an answer into frames, whatever pieces it comes in."""

    def __init__(self, take) -> None:
        self._take = take
        self._held = b""
        self._frame: tuple[bytes, int, int] | None = None  # Kind, rank, bytes left.
        self._state = b""
        self.shown = 0

    def feed(self, data: bytes) -> None:
        self._held += data
        while self._held:
            if self._frame is None:
                if len(self._held) < _HEAD.size:
                    return
                kind, rank, size = _HEAD.unpack_from(self._held)
                if kind not in (b"o", b"e", b"s"):
                    raise TrainyardError("follow: a frame of unknown kind")
                self._held = self._held[_HEAD.size:]
                self._frame = (kind, rank, size) if size else None
                continue
            kind, rank, left = self._frame
            piece, self._held = self._held[:left], self._held[left:]
            self._frame = (kind, rank, left - len(piece)) if len(piece) < left else None
            if kind == b"s":
                self._state += piece
            else:
                self.shown += len(piece)
                self._take(kind, rank, piece)

    def finish(self) -> dict:
        if self._held or self._frame is not None or not self._state:
            raise Unavailable("the server's answer was cut short")
        return json.loads(self._state)


class Console:
    """Writes ranks' outputs to ours; with several ranks, whole lines after ``[rank] ``."""

    def __init__(self, prefix: bool) -> None:
        self._prefix = prefix
        self._lines: dict[tuple[bytes, int], bytes] = {}
        decoder = codecs.getincrementaldecoder("utf-8")
        self._decoders = {b"o": decoder("replace"), b"e": decoder("replace")}

    def write(self, kind: bytes, rank: int, data: bytes) -> None:
        """Shows what a rank wrote to its stdout or stderr."""
        if not self._prefix:
            return self._put(kind, data)
        whole, newline, rest = (self._lines.pop((kind, rank), b"") + data).rpartition(b"\n")
        if newline:
            head = f"[{rank}] ".encode()
            self._put(kind, b"".join(head + line + b"\n" for line in whole.split(b"\n")))
        if rest:
            self._lines[kind, rank] = rest
        return None

    def finish(self) -> None:
        """Shows lines that have no end yet."""
        for (kind, rank), rest in self._lines.items():
            self._put(kind, f"[{rank}] ".encode() + rest + b"\n")
        self._lines.clear()

    def say(self, text: str) -> None:
        """Shows a line of our own, on stderr."""
        print(printable(text, keep="\n"), file=sys.stderr, flush=True)

    def _put(self, kind: bytes, data: bytes) -> None:
        stream = sys.stderr if kind == b"e" else sys.stdout
        raw = getattr(stream, "buffer", None)
        if raw is None:  # A notebook.
            stream.write(self._decoders[kind].decode(data))
        else:
            stream.flush()
            raw.write(data)
        stream.flush()


class _Lost:
    """Patience with a server that does not answer."""

    def __init__(self) -> None:
        self._since: float | None = None

    def note(self, error: "Unavailable") -> None:
        now = time.monotonic()
        if self._since is None:
            self._since = now
            print(f"the server does not answer ({printable(error.message)}); looking for it again",
                  file=sys.stderr)
        if now - self._since > _LOST_MAX_S:
            raise error
        time.sleep(0.2)

    def clear(self) -> None:
        self._since = None
