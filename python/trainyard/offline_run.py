"""The run of a script that was started by hand: it prints, and keeps what it was told."""
from __future__ import annotations

import os

from .metric_values import MetricValues, number
from .reported_run import ReportedRun
from .warn import warn


class OfflineRun(ReportedRun):
    """All calls of a run, without a server. Metrics are printed and kept for ``get_metrics()``;
    files are copied into ``outputs/`` of the current folder, as in a run. Nothing here fails a
    script: what cannot be done is a warning."""

    def __init__(self, experiment=None, run_id: str | None = None, *, name: str | None = None,
                 parent: OfflineRun | None = None) -> None:
        if run_id is None:
            run_id = "OfflineRun_" + os.urandom(8).hex()
        super().__init__(experiment, run_id, _Printer(name if parent else None), name=name,
                         parent=parent)
        self._tail = "}\n"  # Each has a printer of its own.
        self._children: list[OfflineRun] = []

    @property
    def experiment(self):
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

    def get_children(self, recursive: bool = False, tags=None, properties=None, type=None,
                     status: str | None = None):
        from .run_list import has
        for child in reversed(self._children):
            if (has(child.get_tags(), tags) and has(child.get_properties(), properties)
                    and type in (None, child.type) and status in (None, child.get_status())):
                yield child
            if recursive:
                yield from child.get_children(True, tags, properties, type, status)

    def wait_for_completion(self, show_output: bool = False, wait_post_processing: bool = False,
                            raise_on_error: bool = True) -> dict:
        return self.get_details()

    def get_file_names(self) -> list[str]:
        found = []
        for top in ("outputs", "logs"):
            for folder, _, names in os.walk(top):
                found.extend(os.path.join(folder, name).replace(os.sep, "/") for name in names)
        return sorted(found)

    def upload_file(self, name: str, path_or_stream, **_) -> None:
        self._without_failing(super().upload_file, name, path_or_stream)

    def upload_files(self, names: list, paths: list, **_) -> None:
        self._without_failing(super().upload_files, names, paths)

    def upload_folder(self, name: str, path: str, **_) -> None:
        self._without_failing(super().upload_folder, name, path)

    def download_file(self, name: str, output_file_path: str | None = None, **_) -> None:
        self._without_failing(super().download_file, name, output_file_path)

    def cancel(self) -> None:
        """There is nobody to ask; the script goes on."""
        self._status = "Canceled"

    def delete(self, now: bool = False) -> None:
        """There is nothing to delete: no server keeps this run."""

    def restore(self) -> None:
        """The same."""

    # ---- for the other modules ----

    def _make_child(self, run_id: str, name: str | None, outputs: str | None) -> OfflineRun:
        child = OfflineRun(None, run_id, name=name, parent=self)
        self._children.append(child)
        return child

    def _say_begin(self) -> None:
        pass

    def _put_end(self, status: str, error: str) -> None:
        if error:
            warn(f"the run ends as {status}: {error}")

    def _server(self):
        from .errors import Unavailable
        raise Unavailable("this run is offline: it has no server")

    def _fresh(self) -> dict:
        return dict(self._told, status=self._status, tags=self._labels(self._own_tags),
                    properties=dict(self._own_properties), metrics=self._metrics(None),
                    interactive=True)

    def _known(self) -> dict:
        return self._fresh()

    def _patch(self, changes: dict) -> None:
        names = {"displayName": "name", "description": "description"}
        self._told.update({names[key]: value for key, value in changes.items() if key in names})

    def _metrics(self, name: str | None) -> dict:
        return self._sink.values.get(name)

    def _store_file(self, name: str, source) -> None:
        self._copy_file(name, source)

    @staticmethod
    def _labels(labels: dict) -> dict:
        return {key: value for key, value in labels.items() if value is not None}

    @staticmethod
    def _without_failing(call, *args) -> None:
        try:
            call(*args)
        except Exception as error:
            warn(f"{call.__name__}: {error}")


class _Printer:
    """Takes record lines as a file would: prints them, and keeps metrics."""

    def __init__(self, prefix: str | None) -> None:
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
