"""Trainyard from Python: log from a training script, submit and read runs from anywhere.

In a script, the same calls work under Trainyard and in a plain ``python train.py``::

    from trainyard import Run

    run = Run.get_context()
    run.log("loss", 0.5)

From a notebook or another machine::

    from trainyard import Experiment, ScriptRunConfig, Workspace

    ws = Workspace.from_config()
    run = Experiment(ws, "first").submit(ScriptRunConfig("src", script="train.py"))
    run.wait_for_completion(show_output=True)

Python 3.6 or newer, standard library only. What is not used is not imported: the names below are
loaded on first use.
"""
import sys

__version__ = "0.1.0"

_HOME_OF = {
    "Run": "run",
    "OfflineRun": "offline_run",
    "Workspace": "workspace",
    "Experiment": "experiment",
    "Environment": "environment",
    "ScriptRunConfig": "script_run_config",
    "TrainyardError": "errors",
    "UserError": "errors",
    "Denied": "errors",
    "NotFound": "errors",
    "Conflict": "errors",
    "Unavailable": "errors",
    "RunFailed": "errors",
    "ConfigNotFound": "errors",
}

# Written out: type checkers read it.
__all__ = ["ConfigNotFound", "Conflict", "Denied", "Environment", "Experiment", "NotFound",
           "OfflineRun", "Run", "RunFailed", "ScriptRunConfig", "TrainyardError", "Unavailable",
           "UserError", "Workspace"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .environment import Environment
    from .errors import (ConfigNotFound, Conflict, Denied, NotFound, RunFailed, TrainyardError,
                         Unavailable, UserError)
    from .experiment import Experiment
    from .offline_run import OfflineRun
    from .run import Run
    from .script_run_config import ScriptRunConfig
    from .workspace import Workspace


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'trainyard' has no attribute '{name}'")
    module = __import__(f"{__name__}.{home}", fromlist=[name])
    value = getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> "list[str]":
    return sorted(set(globals()) | set(_HOME_OF))


if sys.version_info < (3, 7):  # A module's own __getattr__ and __dir__ are new in Python 3.7.
    class _Module(type(sys)):
        def __getattr__(self, name: str) -> object:
            return __getattr__(name)

        def __dir__(self) -> "list[str]":
            return __dir__()

    sys.modules[__name__].__class__ = _Module
