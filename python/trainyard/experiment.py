"""An experiment: a named group of runs."""

import os

from .errors import NotFound, Unavailable, UserError
from .script_run_config import ScriptRunConfig, make_spec, target_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List, Mapping

    from .run import Run
    from .run_list import RunIterator
    from .workspace import Workspace

_TRIES = 5  # Of a submission whose server goes away; its id makes them one.


class Experiment:
    """``Experiment(workspace, "name")``: any name will do; it exists from its first run on."""

    def __init__(self, workspace: "Workspace", name: str, **_: object) -> None:
        if not name:
            raise UserError("an experiment needs a name")
        self._workspace = workspace
        self._name = str(name)

    @staticmethod
    def list(workspace: "Workspace", **_: object) -> "List[Experiment]":
        """The experiments of a workspace."""
        from .server import quote_path
        items = workspace._server().pages(f"/workspaces/{quote_path(workspace.name)}/experiments")
        return [Experiment(workspace, item["name"]) for item in items]

    @property
    def name(self) -> str:
        """The experiment's name."""
        return self._name

    @property
    def workspace(self) -> "Workspace":
        """The workspace it is in."""
        return self._workspace

    def submit(self, config: "ScriptRunConfig | None" = None, tags: "dict | None" = None,
               properties: "dict | None" = None, **kwargs: "Any") -> "Run":
        """Submits a script and returns its run at once. Either a ``ScriptRunConfig``, or what one
        takes: ``exp.submit(script="train.py", arguments=["--epochs", 5])``.

        The folder becomes the run's snapshot. Only files that the server does not have are sent.
        """
        from .local_machine import carry_here, program_for
        from .run import Run
        from .run_ids import new_run_id
        if config is None:
            config = ScriptRunConfig(**kwargs)
        elif kwargs:
            raise UserError("submit: give either a config or keywords, not both: "
                            + ", ".join(kwargs))
        if not isinstance(config, ScriptRunConfig):
            raise UserError(f"submit: {type(config).__name__} is not known here",
                            "Give a ScriptRunConfig.")
        server = self._workspace._server()
        program = program_for(server, target_of(config))
        spec = make_spec(config, server.is_local or program is not None)
        spec.update(self._names(tags, properties))
        if config.environment is not None:
            from .environment import settle_environment
            spec["environment"] = settle_environment(server, config.environment)
        captured = _capture(config.source_directory)
        if program is not None:
            carry_here(program, server, spec)
        data = _send(server, new_run_id(), spec, captured)
        return Run(self, data["id"], data=data)

    def start_logging(self, snapshot_directory: "str | None" = None,
                      display_name: "str | None" = None, outputs: "str | None" = None,
                      tags: "dict | None" = None, **_: object) -> "Run":
        """Begins a run that this program does and reports itself. Use it with ``with``, or end it
        by ``complete()`` or ``fail()``.

        ``snapshot_directory`` keeps a folder's code with the run; ``outputs`` names a folder that
        is uploaded at its end. While the server is away, what is logged waits in a file.
        """
        from .interactive_run import start_run
        snapshot = ""
        if snapshot_directory is not None:
            from .blobs import upload_missing
            captured = _capture(snapshot_directory)
            upload_missing(self._workspace._server(), captured, self._workspace.name)
            snapshot = captured.id
        return start_run(self, display_name, outputs, snapshot=snapshot, tags=tags)

    def get_runs(self, type: "str | None" = None,
                 tags: "str | Mapping[str, object] | None" = None,
                 properties: "str | Mapping[str, object] | None" = None,
                 include_children: bool = False) -> "RunIterator":
        """Its runs, the newest first, fetched as they are asked for. ``tags`` and ``properties``
        are a key, or a dict of keys and values; ``type`` is ``script`` or ``interactive``."""
        from .run_list import RunIterator, list_runs
        query = {"workspace": self._workspace.name, "experiment": self._name,
                 "children": int(include_children)}
        return RunIterator(list_runs(self, query, tags, properties, type))

    def __repr__(self) -> str:
        return f"Experiment(name={self._name}, workspace={self._workspace.name})"

    def _repr_html_(self) -> str:
        return self.get_runs()._repr_html_()

    def _names(self, tags: "dict | None", properties: "dict | None") -> dict:
        return {"workspace": self._workspace.name, "experiment": self._name,
                "tags": {str(key): str(value) for key, value in (tags or {}).items()},
                "properties": {str(key): str(value) for key, value in (properties or {}).items()}}


def _capture(folder: str):
    from .capture import capture
    from .place import home_folder
    here = os.path.realpath(folder)
    # A whole machine's or account's files are seldom meant to be code.
    if here in (os.path.realpath(os.path.expanduser("~")), os.path.abspath(os.sep)):
        raise UserError(f"the source directory is {here}: all of it would become the run's code",
                        "Name the folder of your script.")
    return capture(folder, excluded=[home_folder()])


def _send(server, run_id: str, spec: dict, captured) -> dict:
    """Asks first and uploads only when the server does not know the code: most often it does."""
    from .blobs import upload_missing
    import time
    body = {"id": run_id, "spec": dict(spec, snapshot=captured.id)}
    for tries in range(1, _TRIES + 1):
        try:
            try:
                return server.call("POST", "/runs", body, again=True)
            except NotFound as error:
                if not error.message.startswith("snapshot"):
                    raise
            upload_missing(server, captured, spec["workspace"])
            return server.call("POST", "/runs", body, again=True)
        except Unavailable:
            if tries == _TRIES:
                raise
            time.sleep(0.2 * tries)
    raise AssertionError
