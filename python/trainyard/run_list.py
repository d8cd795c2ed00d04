"""Runs in lists: a server's pages as iterators of Run, filtered."""

import json

from .run import Run

ENTRY_FIELDS = 100  # An entry of a list has at most so many tags and parameters each.
_SHOWN_MAX = 30  # Rows of a table in a notebook.

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator


class RunIterator:
    """Runs one after the other, fetched as they are asked for. A notebook shows the next ones as a
    table; showing them does not skip any."""

    def __init__(self, runs: "Iterator[Run]") -> None:
        self._runs = runs
        self._ahead: list[Run] = []  # Fetched to be shown, and still to be given out.

    def __iter__(self) -> "RunIterator":
        return self

    def __next__(self) -> "Run":
        return self._ahead.pop(0) if self._ahead else next(self._runs)

    def _repr_html_(self) -> str:
        from .notebook import runs_html
        while len(self._ahead) <= _SHOWN_MAX:
            run = next(self._runs, None)
            if run is None:
                break
            self._ahead.append(run)
        return runs_html(self._ahead[:_SHOWN_MAX], more=len(self._ahead) > _SHOWN_MAX)


def list_runs(experiment, query: dict, tags=None, properties=None, kind=None) -> "Iterator[Run]":
    """Runs of the server's list that fit, the newest first. ``tags`` and ``properties`` are a key,
    or keys and values; ``kind`` is ``script`` or ``interactive``."""
    if tags:
        wanted = {tags: None} if isinstance(tags, str) else {str(k): str(v) for k, v in tags.items()}
        query = dict(query, tags=json.dumps(wanted, ensure_ascii=False))
    workspace = experiment.workspace
    for item in workspace._server().pages("/runs", query):
        home = experiment
        if item.get("experiment") not in (None, experiment.name):
            from .experiment import Experiment
            home = Experiment(workspace, item["experiment"])
        run = Run(home, item["id"], data=item if is_whole(item) else None)
        if fits(run, None, properties, kind):  # The server has looked at the tags.
            yield run


def is_whole(item: dict) -> bool:
    """Whether an entry of a list has all tags and parameters of its run."""
    return all(len(item.get(key) or ()) < ENTRY_FIELDS for key in ("tags", "parameters"))


def list_children(run: "Run", recursive: bool, tags, properties, kind, status) -> "Iterator[Run]":
    """The runs below a run, or below those as well, that fit."""
    query = {"parent": run.id}
    if not recursive:
        if status:
            query["status"] = status
        yield from list_runs(run.experiment, query, tags, properties, kind)
        return
    for child in list_runs(run.experiment, query):
        # One that does not fit may have children that do.
        if fits(child, tags, properties, kind) and status in (None, child._known().get("status")):
            yield child
        yield from list_children(child, True, tags, properties, kind, status)


def fits(run: "Run", tags, properties, kind) -> bool:
    """Whether a run has these labels and is of this kind."""
    if not tags and not properties and kind is None:
        return True
    known = run._known()
    kind = {"azureml.scriptrun": "script"}.get(kind, kind)
    return (has(known.get("tags"), tags) and has(known.get("properties"), properties)
            and kind in (None, run.type))


def has(labels: "dict | None", wanted) -> bool:
    """Whether ``labels`` has the key, or all the keys with their values."""
    labels = labels or {}
    if not wanted:
        return True
    if isinstance(wanted, str):
        return wanted in labels
    return all(labels.get(str(key)) == str(value) for key, value in wanted.items())
