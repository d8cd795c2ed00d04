"""The run that a script is part of, by the variables its supervisor set."""

import os

from .record_file import RecordFile
from .reported_run import ReportedRun
from .run import FINAL
from .script_end import exit_code_at_end, fail_script
from .warn import warn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .experiment import Experiment


class ScriptRun(ReportedRun):
    """Writes record lines into the file that the supervisor ships: nothing waits for the network,
    and a kill loses nothing. Its end is the end of its processes."""

    def __init__(self) -> None:
        super().__init__(None, os.environ["TRAINYARD_RUN_ID"],
                         RecordFile(os.environ["TRAINYARD_RECORDS"]))
        self._told["interactive"] = False
        self._connection = None
        exit_code_at_end()

    @property
    def experiment(self) -> "Experiment":
        if self._experiment is None:
            from .experiment import Experiment
            from .workspace import Workspace
            workspace = os.environ.get("AZUREML_ARM_WORKSPACE_NAME") or "default"
            name = os.environ.get("AZUREML_ARM_PROJECT_NAME") or "default"
            self._experiment = Experiment(Workspace(workspace_name=workspace), name)
        return self._experiment

    def get_status(self) -> str:
        status = super().get_status()
        # We run, whether or not the server has been told already.
        return status if status in ("Finalizing", "CancelRequested") + FINAL else "Running"

    def complete(self, **_: object) -> None:
        """Does nothing: the run is over when its processes are, and then by their exit code."""

    def fail(self, error_details: "str | BaseException | None" = None,
             error_code: "str | int | None" = None, **_: object) -> None:
        """Makes the run fail with this error when its processes end. This process exits with 1."""
        fail_script(self, error_details, error_code)

    def cancel(self) -> None:
        """Asks for the run to be canceled: SIGTERM follows."""
        from .errors import TrainyardError
        try:
            self._server().call("POST", f"/runs/{self._id}/cancel", {})
        except TrainyardError as error:
            warn(f"the run could not be canceled: {error.message}")

    def flush(self, timeout_seconds: float = 300) -> None:
        """Nothing to do: each line is in the file when its call returns."""

    def __exit__(self, kind, error, trace) -> None:
        """An exception ends the script, and so the run, by itself."""

    # ---- for the other modules ----

    def _server(self):
        if self._connection is None:
            from .errors import Unavailable
            from .server import Server
            url = os.environ.get("TRAINYARD_SERVER")
            if not url:
                raise Unavailable("TRAINYARD_SERVER is not set")
            self._connection = Server(url, os.environ.get("TRAINYARD_TOKEN") or "")
        return self._connection

    def _taken(self) -> int:
        streams = self._server().call("GET", f"/runs/{self._id}/metrics")["streams"]
        return int(streams.get(self._stream(), 0))

    def _stream(self) -> str:
        # The file's name ends with the rank: records-0.jsonl.
        name = os.path.basename(self._sink.path)
        digits = "".join(c if c.isdigit() else " " for c in name).split()
        return f"{os.environ.get('TRAINYARD_ATTEMPT', '1')}/{digits[-1] if digits else 0}"

    def _work_folder(self) -> str:
        return os.environ.get("TRAINYARD_WORK") or "."

    def _store_file(self, name: str, source) -> None:
        self._copy_file(name, source)
