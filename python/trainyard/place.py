"""Where the server is: an address, or the home of this user on this machine."""

import os

from .errors import Unavailable
from .server import Server
from .settings import find_address

_START_MAX_S = 60


def home_folder() -> str:
    """``TRAINYARD_HOME``, or ``~/.trainyard``."""
    named = os.environ.get("TRAINYARD_HOME")
    return os.path.abspath(named or os.path.join(os.path.expanduser("~"), ".trainyard"))


def find_server(server: "str | None" = None, token: "str | None" = None) -> "Server":
    """The server by its address, TRAINYARD_SERVER or ``trainyard login``; else the one of this
    machine, which is started when it does not run and the program ``trainyard`` is there."""
    url, token = find_address(server, token)
    if url:
        return Server(url, token)
    import socket
    if not hasattr(socket, "AF_UNIX") or os.name == "nt":
        raise Unavailable("no server was named",
                          "Set TRAINYARD_SERVER to its address and TRAINYARD_TOKEN to your token.")
    home = home_folder()
    return Server(token=token, unix_socket=os.path.join(home, "socket"),
                  start=lambda: start_server(home))


def start_server(home: str) -> bool:
    """Starts the server of ``home`` in the background; False when there is no program for it."""
    import shutil
    import subprocess
    program = shutil.which("trainyard")
    if program is None:
        return False
    done = subprocess.run([program, "server", "start", "--home", home], stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=_START_MAX_S)
    if done.returncode != 0:
        raise Unavailable("the server does not start",
                          done.stderr.decode("utf-8", "replace").strip())
    return True
