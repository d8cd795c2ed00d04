"""From what was logged to what ``get_metrics()`` gives: a name logged once is a value, several
times a list; rows and tables are columns."""

_ODD = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
_COLUMNS = ("row", "table")
_KINDS = ("metric", "scalar", "list", "image", "doc") + _COLUMNS


class MetricValues:
    """Collects records, or points of a server's series, in their order."""

    def __init__(self) -> None:
        self._values: dict[str, list] = {}
        self._columns: dict[str, dict[str, list]] = {}
        self._lists: set[str] = set()

    def add(self, kind: str, name: str, value) -> None:
        """Adds one record or point."""
        if kind not in _KINDS:
            return
        if kind in _COLUMNS and isinstance(value, dict):
            columns = self._columns.setdefault(name, {})
            for column, item in value.items():
                items = item if kind == "table" and isinstance(item, list) else [item]
                columns.setdefault(column, []).extend(map(number, items))
            return
        values = self._values.setdefault(name, [])
        if kind == "list":
            self._lists.add(name)
            values.extend(map(number, value if isinstance(value, list) else [value]))
        elif kind == "image" and isinstance(value, dict):
            values.append(value.get("path"))
        else:
            values.append(number(value))

    def get(self, name: "str | None" = None) -> dict:
        """What was collected, of all names or of one."""
        found = {}
        for key, values in self._values.items():
            found[key] = values[0] if len(values) == 1 and key not in self._lists else list(values)
        found.update({key: dict(columns) for key, columns in self._columns.items()})
        return found if name is None else {key: found[key] for key in (name,) if key in found}


def number(value):
    """NaN and the infinities travel as strings."""
    return _ODD.get(value, value) if isinstance(value, str) else value


def add_lines(values: "MetricValues", lines: bytes, run: "str | None") -> None:
    """Adds the record lines about ``run``, None being the run whose file it is."""
    import json
    for line in lines.splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue  # Torn by a full disk.
        if isinstance(record, dict) and record.get("r") == run:
            values.add(record.get("k", ""), record.get("n", ""), record.get("v"))


def from_server(server, run: str, name: "str | None" = None) -> "MetricValues":
    """All series of a run, or the one of that name."""
    values = MetricValues()
    for metric in server.call("GET", f"/runs/{run}/metrics")["metrics"]:
        if name is None or metric["name"] == name:
            _add_series(values, server, run, metric)
    return values


def _add_series(values: "MetricValues", server, run: str, metric: dict) -> None:
    if metric["points"] == 1 and "last" in metric:
        return values.add(metric["kind"], metric["name"], metric["last"])
    start: int | None = 0
    while start is not None:
        page = server.call("GET", f"/runs/{run}/series",
                           query={"name": metric["name"], "from": start, "limit": 10000})
        for point in page["points"]:
            values.add(page["kind"], page["name"], point["value"])
        start = page["next"]
    return None
