"""Runs as HTML, for notebooks. All texts are escaped: a run's name is its submitter's choice."""

from html import escape

from .errors import TrainyardError, printable

_COLUMNS = ("Id", "Name", "Experiment", "Status", "Created", "Error")
_ERROR_MAX = 200  # Characters of an error.


def run_html(run) -> str:
    """One run as it is now: a table with a row."""
    try:
        return _table([_row(run, run._fresh())])
    except TrainyardError as error:  # A table without a server is better than a traceback.
        return _table([_row(run, {"status": "unknown", "error": error.message})])


def runs_html(runs: list, more: bool) -> str:
    """Several runs as they were listed; ``more`` says that not all are shown."""
    if not runs:
        return "<p>no runs</p>"
    return _table([_row(run, run._known()) for run in runs]) + ("<p>and more</p>" if more else "")


def _row(run, known: dict) -> list:
    url = str(known.get("studioUrl") or "")
    name = _cell(run.id)
    if url.startswith(("http://", "https://")):
        name = f'<a href="{escape(url)}" target="_blank" rel="noopener">{name}</a>'
    error = str(known.get("error") or "")
    texts = (known.get("name") or run.id, _experiment(run, known), known.get("status") or "",
             str(known.get("createdAt") or "")[:19].replace("T", " "),
             error[:_ERROR_MAX] + ("…" if len(error) > _ERROR_MAX else ""))
    return [name, *map(_cell, texts)]


def _experiment(run, known: dict) -> str:
    return known.get("experiment") or getattr(run.experiment, "name", "")


def _cell(text: object) -> str:
    return escape(printable(text))


def _table(rows: list) -> str:
    head = "".join(f"<th>{column}</th>" for column in _COLUMNS)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
