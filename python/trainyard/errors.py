"""What can go wrong. Each kind is one reaction, not one cause; the text says what to do."""


class TrainyardError(Exception):
    """Any failure of Trainyard's. ``hint`` says what to do about it; it may be empty."""

    kind = "internal"

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


def printable(text: object, keep: str = "") -> str:
    """A text from elsewhere as a terminal may be shown it: without characters that move the cursor
    or turn the direction of writing."""
    return "".join(" " if _is_control(c) and c not in keep else c for c in str(text))


def _is_control(c: str) -> bool:
    return (c < " " or "\x7f" <= c <= "\x9f" or c in "\u200e\u200f" or "\u202a" <= c <= "\u202e"
            or "\u2066" <= c <= "\u2069")


class UserError(TrainyardError, ValueError):
    """The request is wrong: it will be just as wrong the next time."""

    kind = "invalid"


class Denied(TrainyardError, PermissionError):
    """The token is missing or not good enough."""

    kind = "denied"

    def __str__(self) -> str:
        return TrainyardError.__str__(self)


class NotFound(TrainyardError, LookupError):
    """There is no such run, file or workspace."""

    kind = "not_found"


class ConfigNotFound(UserError, FileNotFoundError):
    """No config.json in the folder or above it."""

    def __str__(self) -> str:
        return TrainyardError.__str__(self)


class Conflict(TrainyardError):
    """Not possible in this state: a property that has another value, a run that is over."""

    kind = "conflict"


class Unavailable(TrainyardError, ConnectionError):
    """The server cannot be reached now; later perhaps."""

    kind = "unavailable"

    def __str__(self) -> str:
        return TrainyardError.__str__(self)


class RunFailed(TrainyardError):
    """A run that was waited for did not end well. ``details`` is the run as the server has it."""

    kind = "failed"

    def __init__(self, message: str, hint: str = "", details: "dict | None" = None) -> None:
        super().__init__(message, hint)
        self.details = details or {}


_BY_KIND = {
    "invalid": UserError,
    "denied": Denied,
    "not_found": NotFound,
    "conflict": Conflict,
    "unavailable": Unavailable,
    "no_space": Unavailable,
    "cancelled": Unavailable,
}
_BY_STATUS = {400: UserError, 401: Denied, 403: Denied, 404: NotFound, 409: Conflict,
              408: Unavailable, 429: Unavailable, 499: Unavailable, 502: Unavailable,
              503: Unavailable, 504: Unavailable, 507: Unavailable}


def from_answer(status: int, body: bytes) -> "TrainyardError":
    """The error that a server's answer means, whether the answer is ours or a proxy's."""
    import json
    try:
        error = json.loads(body)["error"]
        made = _BY_KIND.get(error.get("kind"), TrainyardError)
        return made(str(error.get("message", "")), str(error.get("hint") or ""))
    except (ValueError, KeyError, TypeError, AttributeError):
        return _BY_STATUS.get(status, TrainyardError)(f"the server answered {status}")
