"""A run without a command: this program does the work and reports it."""
from __future__ import annotations

from .courier import Courier
from .reported_run import ReportedRun
from .run_ids import new_run_id

_END_S = 60.0  # What the end of a run waits for the server at most.


class InteractiveRun(ReportedRun):
    """What ``Experiment.start_logging`` gives. It is over by ``complete()``, ``fail()`` or
    ``cancel()``, or at the end of its ``with``."""

    def _end(self, status: str, error: str) -> None:
        super()._end(status, error)
        self._sink.close(_END_S)


def start_run(experiment, name: str | None = None, outputs: str | None = None, *,
              parent: str | None = None, run_id: str | None = None, snapshot: str = "",
              tags: dict | None = None) -> InteractiveRun:
    """Asks the server for an interactive run."""
    run_id = run_id or new_run_id()
    spec = {"workspace": experiment.workspace.name, "experiment": experiment.name,
            "displayName": name or "", "interactive": True, "command": [], "snapshot": snapshot,
            "parent": parent or "",
            "tags": {str(key): str(value) for key, value in (tags or {}).items()}}
    server = experiment.workspace._server()
    data = server.call("POST", "/runs", {"id": run_id, "spec": spec}, again=True)
    run = InteractiveRun(experiment, run_id, Courier(server, run_id), name=name, outputs=outputs)
    run._data = data
    return run
