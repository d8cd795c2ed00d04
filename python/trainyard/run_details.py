"""A run's JSON under the names that scripts for Azure ML look for."""


def details_of(run: dict) -> dict:
    """The JSON of a run, with those names added."""
    details = dict(run)
    command = run.get("command") or []
    details.update({
        "runId": run.get("id"),
        "startTimeUtc": run.get("startedAt"),
        "endTimeUtc": run.get("endedAt"),
        "inputDatasets": [],
        "outputDatasets": [],
        "logFiles": run.get("logFiles") or {},
        "submittedBy": run.get("user"),
        "runDefinition": {
            "command": command,
            "script": command[1] if len(command) > 1 else None,
            "arguments": command[2:],
            "target": run.get("target"),
            "nodeCount": run.get("nodeCount"),
            "maxRunDurationSeconds": run.get("timeLimitSeconds") or None,
        },
    })
    return details


def with_logs(run, details: dict) -> dict:
    """The same with the logs' texts for their addresses."""
    from .errors import NotFound
    from .server import quote_path
    texts = {}
    for name in details["logFiles"]:
        try:
            data = run._server().send("GET", f"/runs/{run.id}/files/{quote_path(name)}")
            texts[name] = data.decode("utf-8", "replace")
        except NotFound:
            texts[name] = ""
    return dict(details, logFiles=texts)
