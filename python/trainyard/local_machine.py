"""``local`` under a server elsewhere is this machine: its runs are carried by a daemon of the
program ``trainyard``, as the command line's are."""

import os
from urllib.parse import urlsplit

from .errors import Conflict, Denied, NotFound, Unavailable, UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .server import Server

_START_MAX_S = 60
_OF_AN_ATTEMPT = "tya_"  # How the token begins that a run has.
_BY_EXIT = {2: UserError, 3: Denied, 4: NotFound, 5: Conflict}


def program_for(server: "Server", target: str) -> "str | None":
    """The program that has to carry a run of ``target`` on this machine; None where the server sees
    to it: other targets, a server of this machine, and inside a run, whose machine it knows."""
    if target != "local" or server.is_local or server.token.startswith(_OF_AN_ATTEMPT):
        return None
    import shutil
    program = shutil.which("trainyard")
    # By an address of this machine the server may be its own; it refuses where it is not.
    if program is not None or _is_loopback(urlsplit(server.url).hostname or ""):
        return program
    raise UserError("'local' is this machine, and the program trainyard is not on its path",
                    "Install it, or name another target: compute_target='NAME'")


def carry_here(program: str, server: "Server", spec: dict) -> None:
    """Makes this machine known to the server as ours, with the daemon at work, and the run one of
    this machine's."""
    import json
    import subprocess
    # The token goes by a variable: arguments are there for all to see.
    variables = dict(os.environ, TRAINYARD_SERVER=server.url, TRAINYARD_TOKEN=server.token)
    done = subprocess.run([program, "node", "own", "-o", "json"], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=_START_MAX_S,
                          env=variables)
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip()
        message, _, hint = said.replace("error: ", "", 1).partition("\n")
        raise _BY_EXIT.get(done.returncode, Unavailable)(message, hint.strip())
    own = json.loads(done.stdout)
    spec["host"] = own["key"]
    if spec["resources"]["gpus"] > 0 and not own["gpus"]:
        from .warn import warn
        warn("this machine has no GPU to give out: the run goes on without")
        spec["resources"]["gpus"] = 0


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")
