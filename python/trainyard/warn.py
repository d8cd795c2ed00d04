"""Warnings that never disturb a training: one line on stderr for each cause, once."""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, TypeVar
    _Method = TypeVar("_Method", bound=Callable[..., Any])

_said: "set[str]" = set()


def warn_once(cause: str, text: str) -> None:
    """Says ``text`` unless something was said for this ``cause`` in this process before."""
    if cause not in _said:
        _said.add(cause)
        warn(text)


def warn(text: str) -> None:
    """Writes one line to stderr, where there is one."""
    try:
        sys.stderr.write(f"trainyard: warning: {text}\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        pass  # No stderr: nobody to tell.


def never_raises(method: "_Method") -> "_Method":
    """For calls of a training script: whatever goes wrong becomes one warning."""

    def guarded(*args, **kwargs):
        try:
            return method(*args, **kwargs)
        except Exception as error:  # The promise: logging does not end a training.
            _warn_of(method.__name__.lstrip("_"), error)
            return None

    guarded.__name__ = method.__name__
    guarded.__qualname__ = method.__qualname__
    guarded.__doc__ = method.__doc__
    guarded.__wrapped__ = method
    return guarded


def _warn_of(call: str, error: "Exception") -> None:
    # A disk that is full fails every call: said once for all of them.
    cause = "write" if isinstance(error, OSError) else call
    try:
        why = str(error) or type(error).__name__
    except Exception:
        why = type(error).__name__
    warn_once(cause, f"{call}: {why}; the training goes on, and more of this is not told")
