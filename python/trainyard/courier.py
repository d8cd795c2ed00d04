"""Brings record lines to the server from a background thread. They are in a spool file first, so
that neither a lost server nor a killed process loses one."""

import atexit
import json
import os
import threading
import weakref

from .errors import Conflict, TrainyardError, Unavailable, UserError
from .record_file import RecordFile
from .run import FINAL
from .warn import warn, warn_once

_BATCH = 1 << 20
_LINGER_S = 0.05  # Lines that come close together travel together.
_PAUSE_MAX_S = 5.0
_EXIT_S = 10.0  # What an exit waits for a server at most.


class Courier:
    """Takes record lines for one run and sends them in order. ``sent`` is how many bytes of the
    spool the server has. A forked child begins a spool of its own."""

    def __init__(self, server, run_id: str) -> None:
        self._server = server
        self._run = run_id
        self._begin()
        atexit.register(_at_exit, weakref.ref(self))

    def write(self, lines: str) -> None:
        """Keeps whole lines; the thread sends them soon."""
        if os.getpid() != self._pid:
            self._begin()
        self._file.write(lines)
        if not self._news.is_set():
            self._news.set()
        if self._thread is None:
            self.start()

    def read(self, offset: int) -> bytes:
        """The lines from an offset on; none once the server has them all and the run is over."""
        try:
            return self._file.read(max(offset, self._head))
        except FileNotFoundError:
            return b""

    def flush(self, timeout: float) -> bool:
        """Waits until the server has everything; False when it has not by then."""
        with self._moved:
            return self._moved.wait_for(lambda: self._is_through() or self._refused, timeout) \
                and self._is_through()

    def close(self, timeout: float) -> None:
        """Sends what is left and removes the spool; names it when something could not be sent."""
        if self._pid != os.getpid() or self._closed:
            return
        self._closed = True
        through = self.flush(timeout)
        self._stop = True
        self._news.set()
        if through:
            self._file.close()
            remove_spool(self._file.path)
            return
        why = f" ({self._refused.message})" if self._refused else ""
        warn(f"the server has not taken all of run {self._run}{why}; nothing is lost: send the "
             f"rest with\n  python -m trainyard flush {self._file.path}")

    # ---- the thread ----

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._news = threading.Event()
        self._moved = threading.Condition()
        self._refused: TrainyardError | None = None
        self._stop = False
        self._closed = False
        self._file = RecordFile(new_spool(self._run))
        self._stream = int.from_bytes(os.urandom(4), "little") >> 1
        head = json.dumps({"k": "spool", "run": self._run, "stream": self._stream,
                           "server": self._server.url or self._server.unix_socket})
        self._file.write(head + "\n")
        self.sent = self._head = len(head) + 1

    def start(self) -> None:
        """Starts the thread that sends; the first line does so too."""
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._carry, name="trainyard", daemon=True)
                self._thread.start()

    def _carry(self) -> None:
        pause = 0.1
        while not self._stop:
            self._news.wait()
            if not self._closed:
                threading.Event().wait(_LINGER_S)
            self._news.clear()
            try:
                while not self._is_through():
                    sent = send_lines(self._server, self._run, self._stream, self._file,
                                      self._head, self.sent)
                    self._advance(sent)
                    pause = 0.1
            except Unavailable:
                self._news.set()
                threading.Event().wait(pause)
                pause = min(2 * pause, _PAUSE_MAX_S)
            except (TrainyardError, OSError) as error:
                self._give_up(error)
                return

    def _is_through(self) -> bool:
        try:
            return self.sent >= self._file.size()
        except FileNotFoundError:
            return self._closed  # Removed because all was sent.

    def _advance(self, sent: int) -> None:
        note_sent(self._file.path, sent)
        with self._moved:
            self.sent = sent
            self._moved.notify_all()

    def _give_up(self, error: "Exception") -> None:
        if not isinstance(error, TrainyardError):
            error = TrainyardError(str(error))
        with self._moved:
            self._refused = error
            self._moved.notify_all()
        warn_once(f"refused {self._run}", f"the server does not take what run {self._run} logs: "
                                          f"{error.message}; the program goes on")


def send_lines(server, run_id: str, stream: int, file: "RecordFile", head: int, sent: int) -> int:
    """Sends one batch from offset ``sent`` on; returns the offset behind what the server has. It
    counts the bytes of our stream, behind the file's ``head``: what is sent twice is taken once."""
    data = file.read(sent, _BATCH)
    lines, end = before_end(data)
    if lines:
        answer = server.send("POST", f"/runs/{run_id}/records", lines,
                             query={"stream": stream, "from": sent - head},
                             headers={"content-type": "application/x-ndjson"}, again=True)
        return head + int(json.loads(answer)["size"])
    if end is not None:
        record = json.loads(end)
        body = {"status": record["v"], "error": record.get("e", "")}
        try:
            server.call("POST", f"/runs/{run_id}/end", body)
        except Conflict:
            # Over already: by an answer that was lost, or by somebody else.
            if server.call("GET", f"/runs/{run_id}").get("status") not in FINAL:
                raise
        return sent + len(end)
    return sent + len(data)


def before_end(data: bytes) -> "tuple[bytes, bytes | None]":
    """Splits at the line that ends the run itself: it is a call of its own. (lines, that line)."""
    at = 0
    for line in data.splitlines(keepends=True) if b'{"k":"end"' in data else ():
        if line.startswith(b'{"k":"end"') and "r" not in json.loads(line):
            return data[:at], line if at == 0 else None
        at += len(line)
    return data, None


# ---- spools ----

def new_spool(run_id: str) -> str:
    """The path of a new spool: in the home, or where that cannot be written, in the temporary
    folder."""
    from .place import home_folder
    import tempfile
    name = f"{run_id}.{os.getpid()}.{os.urandom(4).hex()}.records"
    home = home_folder()
    for folders in ((home, os.path.join(home, "spool")), (tempfile.gettempdir(),)):
        try:
            for folder in folders:  # Each by itself: the home too is for its owner alone.
                os.makedirs(folder, mode=0o700, exist_ok=True)
            path = os.path.join(folders[-1], name)
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            return path
        except OSError:
            continue
    raise TrainyardError("neither the home nor the temporary folder can be written")


def note_sent(path: str, sent: int) -> None:
    """Remembers beside a spool how much of it the server has."""
    try:
        with open(path + ".sent", "w") as file:
            file.write(str(sent))
    except OSError:
        pass  # At worst, a later flush sends lines again; they count once.


def remove_spool(path: str) -> None:
    """Removes a spool that was sent."""
    for name in (path, path + ".sent"):
        try:
            os.remove(name)
        except OSError:
            pass


def flush_spool(path: str, find_server) -> int:
    """Sends what is left of a spool and removes it; returns how many bytes it sent."""
    file = RecordFile(path)
    head_line = file.read(0, 1)
    head = json.loads(head_line)
    if head.get("k") != "spool":
        raise UserError(f"{path} is not what a program left behind")
    sent = first = len(head_line)
    if os.path.exists(path + ".sent"):
        with open(path + ".sent") as note:
            sent = first = max(sent, int(note.read() or 0))
    server = find_server(head.get("server") or "")
    while sent < file.size():
        after = send_lines(server, head["run"], head["stream"], file, len(head_line), sent)
        if after == sent:
            break  # A torn last line: the disk was full.
        sent = after
        note_sent(path, sent)
    remove_spool(path)
    return sent - first


def _at_exit(reference) -> None:
    courier = reference()
    if courier is not None:
        courier.close(_EXIT_S)
