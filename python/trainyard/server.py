"""One Trainyard server, over HTTP, HTTPS or its home's Unix socket. Thread-safe: a connection is
taken for each call and kept for the next."""

import http.client
import json
import os
import socket
import time
from urllib.parse import quote, urlencode, urlsplit

from .errors import Unavailable, UserError, from_answer

API = "/api/v1"
TIMEOUT_S = 60.0
_IDLE_MAX_S = 5.0  # An older connection may have been closed by the server by now.
_CHUNK = 256 * 1024
_AGAIN = ("GET", "HEAD", "PUT", "PATCH", "DELETE")  # Asked twice, these do the same.


class Server:
    """``url`` is http://host:port or https://…; ``unix_socket`` a path. ``start`` is called when
    nobody listens on the socket; it returns whether it is worth another try."""

    def __init__(self, url: str = "", token: str = "", unix_socket: str = "", start=None) -> None:
        self.url = url.rstrip("/")
        self.token = token
        self.unix_socket = unix_socket
        self._start = start
        self._idle: list[tuple[http.client.HTTPConnection, float]] = []
        self._pid = os.getpid()
        parts = urlsplit(self.url)
        self._prefix = parts.path
        if not unix_socket and (parts.scheme not in ("http", "https") or not parts.hostname):
            raise UserError(f"'{url}' is not a server's address",
                            "It looks like http://host:8700 or https://host.")

    @property
    def is_local(self) -> bool:
        """Whether the server runs on this machine, for this user."""
        return bool(self.unix_socket)

    def __repr__(self) -> str:
        return f"Server({self.unix_socket or self.url})"  # Without the token.

    def __getstate__(self) -> dict:
        return {**self.__dict__, "_idle": [], "_start": None}

    def __del__(self) -> None:
        for connection, _ in self.__dict__.get("_idle", ()):
            connection.close()

    # ---- calls ----

    def call(self, method: str, path: str, body: object = None, query: "dict | None" = None,
             timeout: float = TIMEOUT_S, again: "bool | None" = None):
        """A call with JSON both ways. ``path`` is below /api/v1; ``again`` says that it may be
        asked twice when the connection is lost."""
        headers = {}
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["content-type"] = "application/json"
        answer = self.send(method, path, data, query, headers, timeout, again)
        try:
            return json.loads(answer) if answer else None
        except ValueError:
            raise self._lost("what answers there is no Trainyard server") from None

    def pages(self, path: str, query: "dict | None" = None, page: int = 200):
        """The items of a list, page by page as they are asked for."""
        cursor = None
        while True:
            asked = dict(query or {}, limit=page)
            if cursor is not None:
                asked["cursor"] = cursor
            answer = self.call("GET", path, query=asked)
            if isinstance(answer, list):
                yield from answer
                return
            yield from answer["items"]
            cursor = answer.get("next")
            if cursor is None:
                return

    def send(self, method: str, path: str, body=None, query: "dict | None" = None,
             headers: "dict | None" = None, timeout: float = TIMEOUT_S,
             again: "bool | None" = None) -> bytes:
        """A call with bytes both ways. ``body`` is bytes or yields them; then ``headers`` must have
        a content-length."""
        connection, response = self._ask(method, path, body, query, headers, timeout, again)
        try:
            answer = response.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise self._lost(error) from error
        self._keep(connection, response)
        if response.status // 100 != 2:
            raise from_answer(response.status, answer)
        return answer

    def stream(self, path: str, query: "dict | None", take, timeout: float = TIMEOUT_S) -> dict:
        """GETs bytes and hands them to ``take`` as they come; returns the answer's headers."""
        connection, response = self._ask("GET", path, None, query, None, timeout, True)
        try:
            if response.status // 100 != 2:
                raise from_answer(response.status, response.read())
            while True:
                piece = response.read(_CHUNK)
                if not piece:
                    break
                take(piece)
        except (http.client.HTTPException, ConnectionError, socket.timeout) as error:
            connection.close()
            raise self._lost(error) from error
        except BaseException:
            connection.close()
            raise
        self._keep(connection, response)
        if response.length:
            raise self._lost("the answer was cut short")
        return {key.lower(): value for key, value in response.getheaders()}

    # ---- connections ----

    def _ask(self, method, path, body, query, headers, timeout, again):
        target = self._prefix + (path if path.startswith("/version") else API + path)
        if query:
            target += "?" + urlencode(query)
        asked = dict(headers or {})
        if self.token:
            asked["authorization"] = f"Bearer {self.token}"
        if again is None:
            again = method in _AGAIN
        again = again and (body is None or isinstance(body, bytes))
        connection, kept = self._take(timeout)
        try:
            return connection, self._exchange(connection, method, target, body, asked)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            if not (kept and again) and not self._started(error):
                raise self._lost(error) from error
        connection = self._make(timeout)
        try:
            return connection, self._exchange(connection, method, target, body, asked)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise self._lost(error) from error

    @staticmethod
    def _exchange(connection, method, target, body, headers):
        try:
            connection.request(method, target, body, headers)
        except (BrokenPipeError, ConnectionResetError):
            # Refused before all of the body was read: the answer says why.
            try:
                return connection.getresponse()
            except (OSError, http.client.HTTPException):
                pass
            raise
        return connection.getresponse()

    def _started(self, error: "Exception") -> bool:
        nobody = isinstance(error, (FileNotFoundError, ConnectionRefusedError))
        return bool(nobody and self._start and self._start())

    def _take(self, timeout: float):
        if self._pid != os.getpid():  # A forked child must not speak on its parent's connections.
            for connection, _ in self._idle:
                connection.close()
            self._idle, self._pid = [], os.getpid()
        while self._idle:
            try:
                connection, since = self._idle.pop()
            except IndexError:
                break
            if time.monotonic() - since < _IDLE_MAX_S and connection.sock is not None:
                connection.sock.settimeout(timeout)
                return connection, True
            connection.close()
        return self._make(timeout), False

    def _keep(self, connection, response) -> None:
        if response.will_close or connection.sock is None:
            connection.close()
        else:
            self._idle.append((connection, time.monotonic()))

    def _make(self, timeout: float) -> "http.client.HTTPConnection":
        if self.unix_socket:
            return _UnixConnection(self.unix_socket, timeout)
        parts = urlsplit(self.url)
        if parts.scheme == "http":
            return http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout)
        import ssl
        trusted = os.environ.get("TRAINYARD_CA_FILE")
        try:
            context = ssl.create_default_context(cafile=trusted or None)
        except OSError as error:  # Not there, or no certificate.
            raise UserError(f"TRAINYARD_CA_FILE: {trusted}: {error.strerror or error}",
                            "It names a file with the certificate to trust.") from error
        return http.client.HTTPSConnection(parts.hostname, parts.port, timeout=timeout,
                                           context=context)

    def _lost(self, why: object) -> "Unavailable":
        where = self.unix_socket or self.url
        hint = "Is the server running, and its address right (TRAINYARD_SERVER, trainyard login)?"
        if self.unix_socket:
            hint = "Start it with: trainyard server start"
        if "CERTIFICATE_VERIFY_FAILED" in str(why):
            hint = "If the certificate is your own, name its file in TRAINYARD_CA_FILE."
        return Unavailable(f"{where} does not answer: {why or type(why).__name__}", hint)


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        try:
            self._connect_by_name()
        except OSError:
            self.sock.close()
            self.sock = None
            raise

    def _connect_by_name(self) -> None:
        # A socket's name has room for 108 bytes; a longer one goes by its folder's descriptor.
        if len(os.fsencode(self._path)) < 104 or not os.path.isdir("/proc/self/fd"):
            return self.sock.connect(self._path)
        folder, name = os.path.split(self._path)
        fd = os.open(folder, getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY)
        try:
            return self.sock.connect(f"/proc/self/fd/{fd}/{name}")
        finally:
            os.close(fd)


def quote_path(path: str) -> str:
    """A file's path in a URL; '/' stays."""
    return quote(path.encode("utf-8", "surrogateescape"), safe="/")
