"""A file of record lines that several threads and processes append to at once."""

import errno
import os

_FLAGS = (os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
          | getattr(os, "O_CLOEXEC", 0))


class RecordFile:
    """Appends whole lines, each by one write(2): what was written outlives a kill of the process.
    Threads need no lock for that, and a forked child shares the file's end with its parent."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._fd: int | None = None
        self._torn = False  # The file ends inside a line: the disk was full.

    def write(self, lines: str) -> None:
        """Appends whole lines."""
        data = lines.encode()
        if self._torn:
            data = b"\n" + data
        fd = self._fd
        if fd is None:
            fd = self._open()
        try:
            done = os.write(fd, data)
        except OSError as error:
            if error.errno != errno.EBADF:
                raise
            done = os.write(self._open(), data)  # Somebody closed every file of the process.
        self._torn = False
        if done < len(data):
            self._finish(data[done:])

    def size(self) -> int:
        """How many bytes it holds by now, whoever wrote them."""
        return os.stat(self.path).st_size

    def read(self, offset: int, size_max: int = -1) -> bytes:
        """Whole lines from ``offset`` on: all, or about ``size_max`` bytes and at least one."""
        with open(self.path, "rb") as file:
            file.seek(offset)
            data = file.read(size_max)
            if data and not data.endswith(b"\n"):
                data += file.readline()
        return data[:data.rfind(b"\n") + 1]

    def close(self) -> None:
        """Closes the file; the next write opens it again."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)

    def _open(self) -> int:
        self._fd = os.open(self.path, _FLAGS, 0o600)
        return self._fd

    def _finish(self, rest: bytes) -> None:
        self._torn = True
        while rest:
            rest = rest[os.write(self._fd, rest):]
        self._torn = False

    def __getstate__(self) -> dict:
        return {"path": self.path, "_fd": None, "_torn": False}
