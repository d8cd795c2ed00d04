"""A run without a command: this program does the work and reports it."""

from . import program_end
from .courier import Courier
from .reported_run import ReportedRun
from .run_ids import new_run_id

_END_S = 60.0  # What the end of a run waits for the server at most.


class InteractiveRun(ReportedRun):
    """What ``Experiment.start_logging`` gives. It is over by ``complete()``, ``fail()`` or
    ``cancel()``, at the end of its ``with``, or with the program."""

    def _end(self, status: str, error: str) -> None:
        program_end.forget(self)
        super()._end(status, error)
        self._sink.close(_END_S)

    def _end_with_program(self, status: str, error: str) -> None:
        # The courier's own handler, which is next, waits for the server, and not as long.
        program_end.forget(self)
        super()._end(status, error)


def start_run(experiment, name: "str | None" = None, outputs: "str | None" = None, *,
              parent: "str | None" = None, run_id: "str | None" = None, snapshot: str = "",
              tags: "dict | None" = None) -> "InteractiveRun":
    """Asks the server for an interactive run."""
    run_id = run_id or new_run_id()
    spec = {"workspace": experiment.workspace.name, "experiment": experiment.name,
            "displayName": name or "", "interactive": True, "command": [], "snapshot": snapshot,
            "parent": parent or "",
            "tags": {str(key): str(value) for key, value in (tags or {}).items()}}
    server = experiment.workspace._server()
    data = server.call("POST", "/runs", {"id": run_id, "spec": spec}, again=True)
    courier = Courier(server, run_id)
    courier.start()  # At the program's end Python lets nobody start a thread any more.
    run = InteractiveRun(experiment, run_id, courier, name=name, outputs=outputs)
    run._data = data
    program_end.watch(run)
    return run
