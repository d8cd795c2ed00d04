"""What a script tells of its run. Every call becomes a record line; where the line goes (the run's
record file, a spool, the terminal) is for the run's kind to say."""

import time

from .record_lines import TooDeep, json_text, quote, scalar, values_of
from .warn import never_raises, warn_once

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from typing import Iterable, Mapping

_LIST_PART = 10_000  # Values of one line; a longer list is several lines of the same name.
_TABLE_PART = 1_000  # Rows of one line.
_LINE_MAX = 1 << 20  # A longer one the server does not take.
_NAMES_MAX = 10_000
_names: "dict[str, str]" = {}  # Names come again and again: quoted once.


def _name(name: object) -> str:
    found = _names.get(name) if type(name) is str else None
    if found is None:
        found = quote(str(name))
        if type(name) is str and len(_names) < _NAMES_MAX:
            _names[name] = found
    return found


if hasattr(time, "time_ns"):
    def _now() -> int:
        return time.time_ns() // 1000
else:  # Python 3.6
    def _now() -> int:
        return int(time.time() * 1e6)


class RunLogging:
    """The calls of a training script. None of those named log… or tag… ever raises in a run:
    what cannot be written becomes one warning on stderr."""

    _tail = "}\n"  # How a line ends; for a child run with its id.

    def _words(self):
        """Where record lines go: something with ``write(text)``."""
        raise NotImplementedError

    # ---- metrics ----

    @never_raises
    def log(self, name: str, value: object, description: str = "",
            step: "int | None" = None) -> None:
        """Logs a number or a string. A name that is logged again becomes a series.

        ``step`` is where on the x axis the value belongs; without it values are numbered.
        ``description`` is taken for the sake of scripts that give one and is not kept.
        """
        at = "" if step is None else _step(step)
        line = f'{{"k":"metric","n":{_name(name)},"v":{scalar(value)},"t":{_now()}{at}{self._tail}'
        self._write(line, name)

    @never_raises
    def log_list(self, name: str, value: object, description: str = "") -> None:
        """Logs a list of numbers: a series at once."""
        values = values_of(value)
        for begin in range(0, len(values), _LIST_PART):
            part = ",".join([scalar(item) for item in values[begin:begin + _LIST_PART]])
            self._put("list", name, f"[{part}]")

    @never_raises
    def log_row(self, *name: str, description: "str | None" = None,
                **columns: object) -> None:
        """Logs a row of a table: ``log_row(name, description=None, **columns)``, as in
        ``run.log_row("sizes", epoch=1, bytes=300)``."""
        # By position, so that a column may be called "name".
        title = name[0] if name else columns.pop("name")
        self._put_json("row", title, columns)

    @never_raises
    def log_table(self, name: str, value: "Mapping[str, object]", description: str = "") -> None:
        """Logs a table, column by column: ``{"epoch": [1, 2], "loss": [0.9, 0.7]}``."""
        columns = {str(key): values_of(column) for key, column in value.items()}
        rows = max(map(len, columns.values()), default=0)
        for begin in range(0, max(rows, 1), _TABLE_PART):
            part = {key: column[begin:begin + _TABLE_PART] for key, column in columns.items()}
            self._put_json("table", name, part)

    @never_raises
    def log_image(self, name: str, path: "str | os.PathLike[str] | None" = None,
                  plot: object = None, description: str = "") -> None:
        """Logs an image: a file's ``path``, or a ``plot`` with a ``savefig`` of its own, such as
        matplotlib.pyplot or one of its figures. The image is kept in ``outputs/images``."""
        kept = self._keep_image(str(name), path, plot)
        self._put_json("image", name, {"path": kept, "description": description})

    @never_raises
    def log_confusion_matrix(self, name: str, value: "dict | str | bytes",
                             description: str = "") -> None:
        """Logs a confusion matrix: ``{"class_labels": [...], "matrix": [[...], ...]}``, or the
        whole document with its ``schema_type`` and ``data``, as a dict or as JSON."""
        self._document("confusion_matrix", name, value)

    @never_raises
    def log_accuracy_table(self, name: str, value: "dict | str | bytes",
                           description: str = "") -> None:
        """Logs an accuracy table: probability and percentile tables, classes against the rest."""
        self._document("accuracy_table", name, value)

    @never_raises
    def log_residuals(self, name: str, value: "dict | str | bytes",
                      description: str = "") -> None:
        """Logs residuals: ``{"bin_edges": [...], "bin_counts": [...]}``."""
        self._document("residuals", name, value)

    @never_raises
    def log_predictions(self, name: str, value: "dict | str | bytes",
                        description: str = "") -> None:
        """Logs predictions: ``bin_averages``, ``bin_errors``, ``bin_counts``, ``bin_edges``."""
        self._document("predictions", name, value)

    # ---- parameters, tags, properties ----

    @never_raises
    def log_parameter(self, name: str, value: object) -> None:
        """Notes what the run was made with. One value a name: the last."""
        self._write(f'{{"k":"param","n":{_name(name)},"v":{quote(str(value))}{self._tail}', name)

    @never_raises
    def log_parameters(self, parameters: "Mapping[str, object]") -> None:
        """Notes several parameters at once."""
        for name, value in parameters.items():
            self.log_parameter(name, value)

    def tag(self, key: str, value: object = None) -> None:
        """Gives the run a tag, with a value or without. A tag may be changed later."""
        self.set_tags({key: "" if value is None else value})

    def set_tags(self, tags: "Mapping[str, object]") -> None:
        """Gives the run several tags; values become strings."""
        self._change_tags({str(key): "" if value is None else str(value)
                           for key, value in tags.items()})

    def remove_tags(self, tags: "str | Iterable[str]") -> None:
        """Takes tags away, by their keys."""
        keys = [tags] if isinstance(tags, str) else tags
        self._change_tags({str(key): None for key in keys})

    def _change_tags(self, changes: dict) -> None:
        raise NotImplementedError

    @never_raises
    def _put_tags(self, changes: dict) -> None:
        for key, value in changes.items():
            text = "null" if value is None else quote(value)
            self._write(f'{{"k":"tag","n":{_name(key)},"v":{text}{self._tail}', key)

    @never_raises
    def _put_properties(self, properties: dict) -> None:
        for key, value in properties.items():
            self._write(f'{{"k":"property","n":{_name(key)},"v":{quote(value)}{self._tail}', key)

    # ---- lines ----

    def _put(self, kind: str, name: str, value: str) -> None:
        line = f'{{"k":"{kind}","n":{_name(name)},"v":{value},"t":{_now()}{self._tail}'
        self._write(line, name)

    def _put_json(self, kind: str, name: str, value: object) -> None:
        try:
            text = json_text(value)
        except TooDeep as error:
            self._drop(name, f',"e":{quote(str(error))}')
            raise ValueError(f"'{str(name)[:80]}' {error} and is not kept") from None
        self._put(kind, name, text)

    def _write(self, line: str, name: str) -> None:
        if len(line) > _LINE_MAX:
            self._drop(name)
            raise ValueError(_too_large(name))
        self._words().write(line)

    def _drop(self, name: str, why: str = "") -> None:
        """The server counts what was left out, and the run has a warning."""
        self._words().write(f'{{"k":"dropped","n":{quote(str(name)[:80])}{why}{self._tail}')

    @never_raises
    def _put_child(self, run_id: str, name: "str | None", parent: "str | None") -> None:
        # The parent's parent is the run that writes; a child of a child names its own.
        above = "" if parent is None else f',"p":{quote(parent)}'
        self._words().write(f'{{"k":"child","r":{quote(run_id)},"n":{quote(name or run_id)},'
                            f'"t":{_now()}{above}}}\n')

    @never_raises
    def _put_end(self, status: str, error: str) -> None:
        why = f',"e":{quote(error)}' if error else ""
        self._words().write(f'{{"k":"end","v":{quote(status)},"t":{_now()}{why}{self._tail}')

    def _document(self, kind: str, name: str, value) -> None:
        if isinstance(value, (str, bytes)):
            import json
            value = json.loads(value)
        if isinstance(value, dict) and "schema_type" not in value:
            value = {"schema_type": kind, "schema_version": "v1", "data": value}
        self._put_json("doc", name, value)

    def _keep_image(self, name: str, path, plot) -> str:
        raise NotImplementedError


def _too_large(name: str) -> str:
    return f"'{str(name)[:80]}' is larger than 1 MB and is not kept; upload_file takes any size"


def _step(step: object) -> str:
    try:
        return f',"s":{int(step)}'
    except (TypeError, ValueError, OverflowError):
        warn_once("step", f"a step that is no whole number is left out: {step!r}")
        return ""
