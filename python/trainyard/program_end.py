"""Ends the interactive runs that a program left open, when the program ends: Completed, or Failed
with the exception or the exit code it ends by."""

import atexit
import os
import sys
import threading

_open: dict = {}  # By id: the runs that nobody has ended yet.
_failure: "str | None" = None  # Why the program ends, where it does not end well.
_watching = False


def watch(run) -> None:
    """Ends ``run`` with the program, unless it is over by then."""
    global _watching
    _open[run.id] = run
    if not _watching:
        _watching = True
        _watch_exits()
    # Registered for each: it has to run before the handler of the run's own courier.
    atexit.register(_end_open, os.getpid())


def forget(run) -> None:
    """The run is over."""
    _open.pop(run.id, None)


def _end_open(pid: int) -> None:
    if os.getpid() != pid:
        return  # A forked process: the run is its parent's.
    for run in list(_open.values()):
        run._end_with_program("Failed" if _failure else "Completed", _failure or "")


def _watch_exits() -> None:
    # A handler at exit is told neither of the exception nor of the exit code.
    show, leave = sys.excepthook, sys.exit

    def excepthook(kind, error, trace):
        global _failure
        from .run import failure_text
        _failure = failure_text(error, None)
        show(kind, error, trace)

    def exit(code=None):
        global _failure
        if threading.current_thread() is threading.main_thread():
            text = f"exit code {code}" if isinstance(code, int) else str(code)
            _failure = None if code in (None, 0) else text
        leave(code)

    if not hasattr(sys, "ps1"):  # An exception does not end a prompt or a notebook.
        sys.excepthook, sys.exit = excepthook, exit
