"""A run: one submitted job, or a stretch of work that a program reports by itself."""

import os

from .run_logging import RunLogging

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO, Any, Iterable, Iterator, Mapping

    from .experiment import Experiment
    from .run_list import RunIterator
    from .workspace import Workspace

FINAL = ("Completed", "Failed", "Canceled")

_context: "Run | None" = None  # The run this process belongs to, once it was asked for.


def failure_text(error_details: "str | BaseException | None",
                 error_code: "str | int | None") -> str:
    """Why a run failed: "CODE: details"."""
    if isinstance(error_details, BaseException):
        kind, text = type(error_details).__name__, str(error_details)
        error_details = f"{kind}: {text}" if text else kind
    words = [str(word) for word in (error_code, error_details) if word not in (None, "")]
    return ": ".join(words) or "failed"


class Run(RunLogging):
    """A run as anybody sees it: ``Run(experiment, run_id)``, ``ws.get_run(id)``.

    ``Run.get_context()`` gives the run that a script is part of; ``Experiment.submit`` and
    ``Experiment.start_logging`` make new ones. All have the same calls.
    """

    def __init__(self, experiment: "Experiment | None", run_id: str, outputs: "str | None" = None,
                 *, data: "dict | None" = None) -> None:
        self._experiment = experiment
        self._id = run_id
        self._outputs = outputs
        self._data = data
        self._late_words = None

    @staticmethod
    def get_context(allow_offline: bool = True, **_: object) -> "Run":
        """The run this script is part of. Outside of one, a run that prints: the same script works
        by ``python train.py``. With ``allow_offline=False`` that is an error instead."""
        global _context
        if os.environ.get("TRAINYARD_RUN_ID") and os.environ.get("TRAINYARD_RECORDS"):
            from .script_run import ScriptRun
            run_id = os.environ["TRAINYARD_RUN_ID"]
            if not isinstance(_context, ScriptRun) or _context.id != run_id:
                _context = ScriptRun()
        elif not allow_offline:
            from .errors import UserError
            raise UserError("this program is not part of a run",
                            "Submit it, as in: trainyard submit -- python train.py")
        elif _context is None:
            from .offline_run import OfflineRun
            _context = OfflineRun()
        return _context

    @staticmethod
    def get(workspace: "Workspace", run_id: str) -> "Run":
        """A run by its id, or by a beginning of it that no other has."""
        return workspace.get_run(run_id)

    # ---- who it is ----

    @property
    def id(self) -> str:
        """The run's id: ``calm-otter-x7k2m9pa``."""
        return self._id

    @property
    def name(self) -> str:
        """What the run is called; its id when nobody named it."""
        return self._known().get("name") or self._id

    @property
    def display_name(self) -> str:
        """The same as ``name``. It may be set."""
        return self.name

    @display_name.setter
    def display_name(self, name: str) -> None:
        self._patch({"displayName": str(name)})

    @property
    def description(self) -> str:
        """What somebody wrote about it. It may be set."""
        return self._known().get("description") or ""

    @description.setter
    def description(self, text: str) -> None:
        self._patch({"description": str(text)})

    @property
    def number(self) -> "int | None":
        """The run's place in the order of submissions."""
        return self._known().get("number")

    @property
    def experiment(self) -> "Experiment":
        """The experiment it belongs to."""
        return self._experiment

    @property
    def parent(self) -> "Run | None":
        """The run it is a child of."""
        parent = self._known().get("parentId")
        return Run(self.experiment, parent) if parent else None

    @property
    def type(self) -> str:
        """``interactive`` for a run without a command, else ``script``."""
        return "interactive" if self._known().get("interactive") else "script"

    @property
    def status(self) -> str:
        """The same as ``get_status()``."""
        return self.get_status()

    @property
    def tags(self) -> dict:
        """The same as ``get_tags()``."""
        return self.get_tags()

    @property
    def properties(self) -> dict:
        """The same as ``get_properties()``."""
        return self.get_properties()

    def get_status(self) -> str:
        """NotStarted, Queued, Provisioning, Preparing, Starting, Running, Finalizing,
        CancelRequested, Completed, Failed or Canceled."""
        return self._fresh().get("status", "")

    def get_tags(self) -> dict:
        """The run's tags, as strings."""
        return dict(self._fresh().get("tags") or {})

    def get_properties(self) -> dict:
        """The run's properties, as strings."""
        return dict(self._fresh().get("properties") or {})

    def add_properties(self, properties: "Mapping[str, object]") -> None:
        """Gives the run properties. A property is written once: another value later raises
        ``Conflict``."""
        self._patch({"properties": {str(k): str(v) for k, v in properties.items()}})

    def get_details(self) -> dict:
        """All the server knows of the run: its JSON, and the same under the names that scripts for
        Azure ML look for (``startTimeUtc``, ``runDefinition``, …)."""
        from .run_details import details_of
        return details_of(self._fresh())

    def get_details_with_logs(self) -> dict:
        """``get_details()``, with each log file's text in place of its address."""
        from .run_details import with_logs
        return with_logs(self, self.get_details())

    def get_portal_url(self) -> str:
        """Where to look at the run in a browser."""
        return self._known().get("studioUrl") or ""

    def get_metrics(self, name: "str | None" = None, recursive: bool = False, **_: object) -> dict:
        """What was logged, by name: a value for a name logged once, a list for one logged several
        times, columns for rows and tables. With ``recursive`` the same by run, for this run and
        all runs below it that have any."""
        found = self._metrics(name)
        if not recursive:
            return found
        by_run = {self._id: found} if found else {}
        for child in self.get_children():
            by_run.update(child.get_metrics(name, recursive=True))
        return by_run

    def get_children(self, recursive: bool = False,
                     tags: "str | Mapping[str, object] | None" = None,
                     properties: "str | Mapping[str, object] | None" = None,
                     type: "str | None" = None, status: "str | None" = None) -> "RunIterator":
        """The runs below this one, the newest first."""
        from .run_list import RunIterator
        return RunIterator(self._children_that(recursive, tags, properties, type, status))

    # ---- what to do with it ----

    def wait_for_completion(self, show_output: bool = False, wait_post_processing: bool = False,
                            raise_on_error: bool = True) -> dict:
        """Waits until the run is over and returns its details. With ``show_output`` the run's
        console is shown meanwhile. A run that failed or was canceled raises ``RunFailed``. Ctrl-C
        ends the waiting, not the run."""
        from .follow import wait_for
        return wait_for(self, show_output, raise_on_error)

    def cancel(self) -> None:
        """Asks the run to stop."""
        self._data = self._server().call("POST", f"/runs/{self._id}/cancel", {})

    def delete(self, now: bool = False) -> None:
        """Deletes the run, which must be over, and all below it. For seven days `restore` brings
        it back, unless it is deleted ``now``."""
        self._server().call("DELETE", f"/runs/{self._id}" + ("?now=1" if now else ""))

    def restore(self) -> None:
        """Brings a deleted run back."""
        self._data = self._server().call("POST", f"/runs/{self._id}/restore", {})

    def complete(self, **_: object) -> None:
        """Ends a run that a program reports by itself: well."""
        self._end("Completed", "")

    def fail(self, error_details: "str | BaseException | None" = None,
             error_code: "str | int | None" = None, **_: object) -> None:
        """Ends a run that a program reports by itself: it failed, because of ``error_details``, a
        text or an exception."""
        self._end("Failed", failure_text(error_details, error_code))

    def flush(self, timeout_seconds: float = 300) -> None:
        """Waits until all that was logged is on its way for good."""
        if self._late_words is not None:
            self._late_words.flush(timeout_seconds)

    def child_run(self, name: "str | None" = None, run_id: "str | None" = None,
                  outputs: "str | None" = None, **_: object) -> "Run":
        """Makes a run below this one. It is Running until its ``complete()`` or ``fail()``."""
        from .interactive_run import start_run
        return start_run(self.experiment, name, outputs, parent=self._id, run_id=run_id)

    def create_children(self, count: "int | None" = None, tag_key: "str | None" = None,
                        tag_values: "Iterable[object] | None" = None) -> "list[Run]":
        """Makes ``count`` runs below this one, or one for each of ``tag_values``, tagged with it
        under ``tag_key``."""
        if (count is None) == (tag_values is None) or (tag_values is not None and tag_key is None):
            from .errors import UserError
            raise UserError("create_children: give either count, or tag_key and tag_values")
        if tag_values is None:
            return [self.child_run() for _ in range(count)]
        children = []
        for value in tag_values:
            children.append(self.child_run())
            children[-1].tag(tag_key, value)
        return children

    # ---- its files ----

    def upload_file(self, name: str, path_or_stream: "str | os.PathLike[str] | IO[Any]",
                    **_: object) -> None:
        """Keeps a file with the run: ``outputs/…`` and ``logs/…`` as they are called, any other
        name below ``outputs/``. ``path_or_stream`` is a path or something to ``read()``."""
        from .run_files import upload_file
        upload_file(self, name, path_or_stream)

    def upload_files(self, names: list, paths: list, **_: object) -> None:
        """Keeps several files with the run, by names and paths in the same order."""
        from .run_files import upload_files
        upload_files(self, names, paths)

    def upload_folder(self, name: str, path: str, **_: object) -> None:
        """Keeps a folder and all below it with the run, under ``name``."""
        from .run_files import upload_folder
        upload_folder(self, name, path)

    def download_file(self, name: str, output_file_path: "str | None" = None, **_: object) -> None:
        """Fetches one of ``get_file_names()``, to a file or into a folder; else to a file of the
        same last name in the current folder."""
        from .run_files import download_file
        download_file(self, name, output_file_path)

    def download_files(self, prefix: "str | None" = None, output_directory: "str | None" = None,
                       output_paths: "list | None" = None, batch_size: int = 100,
                       append_prefix: bool = True, **_: object) -> None:
        """Fetches all files whose names begin with ``prefix``, by default into a folder named
        after the run, under their names (without the prefix if ``append_prefix`` is false).
        ``output_paths`` names each file, relative to ``output_directory`` or the current folder."""
        from .run_files import download_files
        download_files(self, prefix, output_directory, output_paths, append_prefix)

    def get_file_names(self) -> "list[str]":
        """The files kept with the run: console, logs, outputs. Its code: ``restore_snapshot``."""
        from .run_files import list_files
        return [file["path"] for file in list_files(self)]

    def get_all_logs(self, destination: "str | None" = None) -> "list[str]":
        """Fetches the run's logs into a folder, by default one named after the run, and returns
        their paths."""
        from .run_files import download_logs
        return download_logs(self, destination)

    def restore_snapshot(self, path: "str | None" = None, **_: object) -> str:
        """Writes the run's code into a folder, by default ``<run's id>-code``, and returns its
        path."""
        from .run_files import restore_snapshot
        return restore_snapshot(self, path)

    # ---- with ----

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, kind, error, trace) -> None:
        if error is None:
            self.complete()
        else:
            self.fail(error)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(id={self._id})"

    def _repr_html_(self) -> str:
        from .notebook import run_html
        return run_html(self)

    # ---- for the other modules ----

    def _children_that(self, recursive: bool, tags, properties, kind, status) -> "Iterator[Run]":
        from .run_list import list_children
        return list_children(self, recursive, tags, properties, kind, status)

    def _server(self):
        return self.experiment.workspace._server()

    def _fresh(self) -> dict:
        """The run as the server has it now."""
        self._data = self._server().call("GET", f"/runs/{self._id}")
        self._id = self._data.get("id", self._id)
        return self._data

    def _known(self) -> dict:
        """The run as it was seen last."""
        return self._data if self._data is not None else self._fresh()

    def _patch(self, changes: dict) -> None:
        self._data = self._server().call("PATCH", f"/runs/{self._id}", changes)

    def _change_tags(self, changes: dict) -> None:
        self._patch({"tags": changes})

    def _metrics(self, name: "str | None") -> dict:
        from .metric_values import from_server
        self.flush()
        return from_server(self._server(), self._id, name).get(name)

    def _words(self):
        # A run of another program: the server takes words about it only if it is interactive.
        if self._late_words is None:
            from .courier import Courier
            self._late_words = Courier(self._server(), self._id)
        return self._late_words

    def _end(self, status: str, error: str) -> None:
        self.flush()
        self._data = self._server().call("POST", f"/runs/{self._id}/end",
                                         {"status": status, "error": error})

    def _keep_image(self, name: str, path, plot) -> str:
        from .run_files import keep_image
        return keep_image(self, name, path, plot)

    def _store_file(self, name: str, source) -> None:
        """Keeps an open file (``source``) under a checked name, outputs/… or logs/…."""
        from .run_files import put_output
        put_output(self, name, source)
