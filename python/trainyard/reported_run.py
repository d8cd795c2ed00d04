"""A run that this process reports: what it says goes by record lines, and the server may be
away."""

import os

from .record_lines import quote
from .run import FINAL, Run
from .warn import never_raises, warn, warn_once

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Mapping

    from .experiment import Experiment

_ASK_S = 5.0  # What a script waits for an answer it can do without.


class ReportedRun(Run):
    """The base of the run in a script, of one started by ``start_logging``, of offline runs, and of
    the children of all of them. ``sink`` takes the record lines; a child writes into its parent's.
    """

    def __init__(self, experiment: "Experiment | None", run_id: str, sink: "Any", *,
                 name: "str | None" = None, parent: "ReportedRun | None" = None, outputs: "str | None" = None) -> None:
        super().__init__(experiment, run_id, outputs)
        self._sink = sink
        self._above = parent
        self._status = "Running"
        self._own_tags: dict[str, str | None] = {}
        self._own_properties: dict[str, str] = {}
        self._told = {"id": run_id, "name": name or run_id, "interactive": True,
                      "parentId": parent.id if parent else None}
        if parent is not None:
            self._tail = f',"r":{quote(run_id)}}}\n'

    @property
    def experiment(self) -> "Experiment":
        return self._above.experiment if self._above else self._experiment

    @property
    def parent(self) -> "Run | None":
        return self._above or super().parent

    @property
    def name(self) -> str:
        return self._told["name"] if self._above else super().name

    # ---- labels: what we set ourselves counts before the server has it ----

    tag = never_raises(Run.tag)
    set_tags = never_raises(Run.set_tags)
    remove_tags = never_raises(Run.remove_tags)

    def add_properties(self, properties: "Mapping[str, object]") -> None:
        known = self.get_properties()
        new = {str(key): str(value) for key, value in properties.items()}
        for key, value in new.items():
            if known.get(key, value) != value:
                from .errors import Conflict
                raise Conflict(f"property '{key}' is '{known[key]}' already",
                               "A property is written once. What changes is better a tag.")
        self._own_properties.update(new)
        self._put_properties(new)

    def get_status(self) -> str:
        if self._status in FINAL:
            return self._status
        return self._fresh().get("status") or self._status

    # ---- children and ends ----

    def child_run(self, name: "str | None" = None, run_id: "str | None" = None,
                  outputs: "str | None" = None, **_: object) -> "Run":
        if run_id is None:
            from .run_ids import new_run_id
            run_id = new_run_id()
        child = self._make_child(run_id, name, outputs)
        child._say_begin()
        return child

    def _make_child(self, run_id: str, name: "str | None", outputs: "str | None") -> "ReportedRun":
        return ReportedRun(None, run_id, self._sink, name=name, parent=self, outputs=outputs)

    def _say_begin(self) -> None:
        # The run that writes is the parent unless another is named.
        nested = self._above._above is not None
        self._put_child(self._id, self._told["name"], self._above._id if nested else None)

    def cancel(self) -> None:
        self._end("Canceled", "")

    def _end(self, status: str, error: str) -> None:
        if self._status in FINAL:
            return
        if self._outputs and os.path.isdir(self._outputs):
            self.upload_folder("outputs", self._outputs)
        self._status = status
        self._put_end(status, error)

    def flush(self, timeout_seconds: float = 300) -> None:
        flush = getattr(self._sink, "flush", None)
        if flush is not None:
            flush(timeout_seconds)

    # ---- for the other modules ----

    def _server(self):
        return self._above._server() if self._above else super()._server()

    def _words(self):
        return self._sink

    def _change_tags(self, changes: dict) -> None:
        self._own_tags.update(changes)
        self._put_tags(changes)

    def _fresh(self) -> dict:
        """The run as the server has it; what we know ourselves when it does not answer."""
        from .errors import TrainyardError
        try:
            data = self._server().call("GET", f"/runs/{self._id}", timeout=_ASK_S)
        except TrainyardError:
            return self._with_labels(self._data or self._told)
        self._data = data
        return self._with_labels(data)

    def _with_labels(self, data: dict) -> dict:
        """The same with the tags and properties that the server may not have yet."""
        tags = dict(data.get("tags") or {}, **self._own_tags)
        return dict(data, tags={key: value for key, value in tags.items() if value is not None},
                    properties=dict(data.get("properties") or {}, **self._own_properties))

    def _main(self) -> "ReportedRun":
        """The run whose record lines these are."""
        return self._above._main() if self._above else self

    def _metrics(self, name: "str | None") -> dict:
        """The server's, and what it has not taken yet; all of ours when it does not answer."""
        from .errors import TrainyardError
        from .metric_values import MetricValues, add_lines, from_server
        main = self._main()
        about = self._id if self._above else None
        for _ in range(3):
            try:
                before = main._taken()
                values = from_server(self._server(), self._id, name)
                taken = main._taken()
            except TrainyardError:
                values, before, taken = MetricValues(), 0, 0
            if before == taken:
                break  # Nothing came in between: values and offset are of one moment.
        try:
            add_lines(values, main._sink.read(taken), about)
        except OSError as error:
            warn_once("read", f"what was logged cannot be read: {error}")
        return values.get(name)

    def _taken(self) -> int:
        """How many bytes of our record lines the server has."""
        return self._sink.sent

    def _store_file(self, name: str, source) -> None:
        from .errors import Conflict, NotFound, TrainyardError
        from .run_files import put_output
        try:
            put_output(self, name, source)
        except TrainyardError as error:
            if isinstance(error, (Conflict, NotFound)) and not self._above:
                raise
            kept = f"outputs/{self._id}/{name.replace('outputs/', '', 1)}"
            source.seek(0)
            self._main()._copy_file(kept, source)
            warn(f"{name} of run {self._id} could not be sent ({error.message}); "
                 f"it is kept as {kept}")

    def _copy_file(self, name: str, source) -> None:
        """Into our own folder. A disk that is full is no reason to fail."""
        from .run_files import copy_into
        try:
            copy_into(self._work_folder(), name, source)
        except OSError as error:
            warn(f"{name} is not kept: {error}")

    def _work_folder(self) -> str:
        return "."
