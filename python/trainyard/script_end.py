"""The end of a script that called ``run.fail()``, in a run or by hand: its process exits with 1."""

import os

from .run import failure_text
from .warn import warn

_failed = False
_registered = False


def exit_code_at_end() -> None:
    """Registers the handler that sets the exit code. Called when the run object is made: handlers
    that the script registers later run before this one, which ends the process."""
    global _registered
    if not _registered:
        import atexit
        atexit.register(_leave)
        _registered = True


def fail_script(run, error_details, error_code) -> None:
    """Records why the run fails and lets the process exit with 1 at its end."""
    global _failed
    _failed = True
    why = failure_text(error_details, error_code)
    run._put_end("Failed", why)
    warn(f"the run is marked as failed: {why}")


def _leave() -> None:
    if _failed:
        import sys
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError, AttributeError):
                pass
        os._exit(1)
