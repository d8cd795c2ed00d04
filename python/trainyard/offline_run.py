"""The run of a script that was started by hand: it prints, and keeps what it was told."""

import os

from .metric_values import MetricValues, number
from .reported_run import ReportedRun
from .script_end import exit_code_at_end, fail_script
from .warn import warn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .experiment import Experiment


class OfflineRun(ReportedRun):
    """All calls of a run, without a server. Metrics are printed and kept for ``get_metrics()``;
    files are copied into ``outputs/`` of the current folder, as in a run. What raises in a run
    raises here too, and nothing else does."""

    def __init__(self, experiment: "Experiment | None" = None, run_id: "str | None" = None, *,
                 name: "str | None" = None, parent: "OfflineRun | None" = None) -> None:
        if run_id is None:
            run_id = "OfflineRun_" + os.urandom(8).hex()
        super().__init__(experiment, run_id, _Printer(name if parent else None), name=name,
                         parent=parent)
        self._tail = "}\n"  # Each has a printer of its own.
        self._children: list[OfflineRun] = []
        exit_code_at_end()

    @property
    def experiment(self) -> "Experiment":
        """One that can be asked for its name; to submit from it, a server is needed."""
        if self._above:
            return self._above.experiment
        if self._experiment is None:
            from .experiment import Experiment
            from .workspace import Workspace
            folder = os.path.basename(os.getcwd()) or "default"
            self._experiment = Experiment(Workspace(workspace_name="default"), folder)
        return self._experiment

    @property
    def type(self) -> str:
        return "offline"

    def wait_for_completion(self, show_output: bool = False, wait_post_processing: bool = False,
                            raise_on_error: bool = True) -> dict:
        return self.get_details()

    def complete(self, **_: object) -> None:
        """Ends a child. The run of the script itself ends with its process, as in a run."""
        if self._above:
            super().complete()

    def fail(self, error_details: "str | BaseException | None" = None,
             error_code: "str | int | None" = None, **_: object) -> None:
        """Ends a child. For the run of the script itself, the process exits with 1, as in a run."""
        if self._above:
            super().fail(error_details, error_code)
        else:
            fail_script(self, error_details, error_code)

    def __exit__(self, kind, error, trace) -> None:
        if self._above:
            super().__exit__(kind, error, trace)

    def cancel(self) -> None:
        """There is nobody to ask; the script goes on."""
        self._status = "Canceled"

    def delete(self, now: bool = False) -> None:
        """There is nothing to delete: no server keeps this run."""

    def restore(self) -> None:
        """The same."""

    # ---- for the other modules ----

    def _make_child(self, run_id: str, name: "str | None", outputs: "str | None") -> "OfflineRun":
        child = OfflineRun(None, run_id, name=name, parent=self)
        self._children.append(child)
        return child

    def _children_that(self, recursive: bool, tags, properties, kind, status):
        from .run_list import has
        for child in reversed(self._children):
            if (has(child.get_tags(), tags) and has(child.get_properties(), properties)
                    and kind in (None, child.type) and status in (None, child.get_status())):
                yield child
            if recursive:
                yield from child._children_that(True, tags, properties, kind, status)

    def _say_begin(self) -> None:
        pass

    def _put_end(self, status: str, error: str) -> None:
        if error and self._above:
            warn(f"run {self.name} ends as {status}: {error}")

    def _server(self):
        from .errors import Unavailable
        raise Unavailable("this run is offline: it has no server")

    def _fresh(self) -> dict:
        return dict(self._with_labels(self._told), status=self._status,
                    metrics=self._metrics(None), interactive=True)

    def _known(self) -> dict:
        return self._fresh()

    def _patch(self, changes: dict) -> None:
        names = {"displayName": "name", "description": "description"}
        self._told.update({names[key]: value for key, value in changes.items() if key in names})

    def _metrics(self, name: "str | None") -> dict:
        return self._sink.values.get(name)

    def _store_file(self, name: str, source) -> None:
        self._copy_file(name, source)

    def _work_folder(self) -> str:
        # Each child's files by themselves, as a server keeps them.
        return os.path.join(self._above._work_folder(), "outputs", self._id) if self._above else "."


class _Printer:
    """Takes record lines as a file would: prints them, and keeps metrics."""

    def __init__(self, prefix: "str | None") -> None:
        self.values = MetricValues()
        self._prefix = f"{prefix}: " if prefix else ""

    def write(self, lines: str) -> None:
        import json
        for line in lines.splitlines():
            record = json.loads(line)
            self.values.add(record["k"], record["n"], record.get("v"))
            _print(self._prefix + _shown(record))


def _print(text: str) -> None:
    try:
        print(text)
    except UnicodeEncodeError:  # A terminal without these letters.
        print(ascii(text)[1:-1])


def _shown(record: dict) -> str:
    """``loss: 0.5``, ``loss (step 3): 0.5``, ``tag host: a1``."""
    kind, value = record["k"], number(record.get("v"))
    name = record["n"]
    if kind in ("tag", "property", "param"):
        name = {"param": "parameter"}.get(kind, kind) + " " + name
    if kind == "tag" and value is None:
        return f"{name}: removed"
    if kind == "dropped":
        return f"{name}: left out, it {record.get('e', 'is larger than 1 MB')}"
    if "s" in record:
        name = f"{name} (step {record['s']})"
    if kind == "row" and isinstance(value, dict):
        value = ", ".join(f"{key}={item}" for key, item in value.items())
    if kind == "image" and isinstance(value, dict):
        value = value["path"]
    return f"{name}: {value}"
